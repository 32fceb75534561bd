import type { Need } from '../api/types';
import { clock, duration } from '../ui/format';
import type { Freshness } from './freshness';

// Item is something that needs a person.
export interface Item {
  key: string;
  tone: 'bad' | 'warn';
  what: string; // one word or two
  text: string;
  to?: { gpu: string } | { lease: string; user: string | undefined } | { page: 'alerts' };
}

export interface Facts {
  freshness: Freshness;
  answeredAt: number | undefined;
  needs: readonly Need[]; // as the daemon says them, the worst first
  now: number; // ms, to the minute
}

// ofDevice are the kinds of needs that say what is the matter with a device itself.
export const ofDevice: ReadonlySet<Need['kind']> = new Set(['critical', 'unavailable', 'unhealthy', 'throttled', 'quarantine', 'stale', 'drained']);

const alerted = ' An alert fires for it.';

const names: Record<Need['kind'], string> = {
  monitoring: 'Not measuring', critical: 'CRITICAL', unavailable: 'UNAVAILABLE', unhealthy: 'Unhealthy', throttled: 'THROTTLED', quarantine: 'Quarantine',
  stale: 'Old sample', drained: 'Drained', alert: 'Alert', parking: 'Stuck', over: 'Over its lease', hog: 'Unused', service: 'Failed service', front: 'No front', waiting: 'Waits long', orphans: 'Orphans',
};

// attention lists what needs a person, the worst first. The daemon decides what does; the
// page adds only that the daemon does not answer.
export function attention(f: Facts): Item[] {
  const items: Item[] = [];
  const seen = f.answeredAt === undefined ? '' : ` What you see is from ${clock(f.answeredAt)}.`;
  if (f.freshness === 'gone') {
    items.push({ key: 'gone', tone: 'bad', what: 'No daemon', text: `The daemon does not answer. This page asks again every second.${seen}` });
  } else if (f.freshness === 'stale') {
    items.push({ key: 'stale', tone: 'bad', what: 'Stale', text: `The daemon has not answered for more than 5 seconds.${seen}` });
  }
  const devices = new Map<string, number>(); // the first row about each device
  for (const n of f.needs) {
    if (n.gpu !== undefined && ofDevice.has(n.kind) && !devices.has(n.gpu)) devices.set(n.gpu, items.length);
    // An alert about a device of which something is said already is the same fact.
    const before = n.kind === 'alert' && n.gpu !== undefined ? items[devices.get(n.gpu) ?? -1] : undefined;
    if (before !== undefined) {
      if (!before.text.endsWith(alerted)) before.text += alerted;
      continue;
    }
    const lasts = n.since === undefined ? 0 : (f.now - Date.parse(n.since)) / 1000;
    items.push({
      key: `${n.kind} ${n.subject} ${n.text}`, tone: n.severity === 'critical' ? 'bad' : 'warn', what: names[n.kind] ?? n.kind,
      // It begins with the name of a lease, which stays as it is, and says what helps.
      text: n.kind === 'hog' && n.next ? `${said(n, lasts)}. Next: ${n.next}.` : sentence(said(n, lasts)), to: target(n),
    });
  }
  return items;
}

// said is the text of a need, with how long it has lasted. The state is said before it.
function said(n: Need, lasts: number): string {
  const text = n.text.replace(` is ${n.kind.toUpperCase()}:`, ':');
  return lasts >= 60 ? `${text}, for ${duration(lasts)}` : text;
}

// target says where the page shows more about a need.
function target(n: Need): Item['to'] {
  if (n.kind === 'alert') return { page: 'alerts' };
  if (n.gpu) return { gpu: n.gpu };
  return n.lease ? { lease: n.lease, user: n.user } : undefined;
}

// sentence ends a text with a full stop and begins it with a capital letter.
export function sentence(text: string): string {
  const t = text.trim();
  if (t === '') return '';
  const first = t[0]!.toUpperCase() + t.slice(1);
  return /[.!?…]$/.test(first) ? first : `${first}.`;
}
