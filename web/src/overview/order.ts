import type { Need } from '../api/types';
import { ofDevice } from '../live/attention';

// troubles returns what is the matter with each device, the worst of it. The daemon
// lists needs with the worst first.
export function troubles(needs: readonly Need[]): Map<string, Need> {
  const found = new Map<string, Need>();
  for (const n of needs) if (n.gpu !== undefined && ofDevice.has(n.kind) && !found.has(n.gpu)) found.set(n.gpu, n);
  return found;
}

// ordered lists devices with those in trouble first, the others in the order of the
// machine.
export function ordered(uuids: readonly string[], needs: readonly Need[]): string[] {
  const first = [...troubles(needs).keys()].filter((u) => uuids.includes(u));
  return [...first, ...uuids.filter((u) => !first.includes(u))];
}
