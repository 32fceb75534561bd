import type { Need } from '../api/types';
import { ofDevice } from '../live/attention';

// troubles returns what is the matter with each device, the worst of it. The daemon
// lists needs with the worst first.
export function troubles(needs: readonly Need[]): Map<string, Need> {
  const found = new Map<string, Need>();
  for (const n of needs) if (n.gpu !== undefined && ofDevice.has(n.kind) && !found.has(n.gpu)) found.set(n.gpu, n);
  return found;
}

// spans writes numbers in a few words: 1, 4 to 7, 9.
export function spans(numbers: readonly number[]): string {
  const found: [number, number][] = [];
  for (const n of [...numbers].sort((a, b) => a - b)) {
    const last = found[found.length - 1];
    if (last !== undefined && n === last[1] + 1) last[1] = n;
    else found.push([n, n]);
  }
  return found.map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a}, ${b}` : `${a} to ${b}`)).join(', ');
}

// ordered lists devices with those in trouble first, the others in the order of the
// machine.
export function ordered(uuids: readonly string[], needs: readonly Need[]): string[] {
  const first = [...troubles(needs).keys()].filter((u) => uuids.includes(u));
  return [...first, ...uuids.filter((u) => !first.includes(u))];
}
