import { computed, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import type { Alert, DeviceAvailable, Event, Lease, Need, Settings, Status, Waiting, Whoami } from '../api/types';
import type { Freshness } from './freshness';
import { emptyHistory, type History } from './history';

// What the page knows. Only loop.ts writes these; everything else reads them. A list
// keeps the objects that did not change, so that parts of the page can compare them
// with ===.

export interface Machine {
  host: string;
  version: string;
  monitoring: boolean;
  note: string;
}

export const machine = signal<Machine | undefined>(undefined);
export const freshness = signal<Freshness>('connecting');
export const refusedWhy = signal(''); // what the daemon said when it wanted to know who asks
export const answeredAt = signal<number | undefined>(undefined); // by the browser's clock, in ms
export const following = signal(false); // the stream of events is open
export const followProblem = signal(''); // why the daemon refused the stream

// uuids lists the devices in the order of the machine. It changes only when they do.
export const uuids = signal<readonly string[]>([]);

export const leases = signal<readonly Lease[]>([]);
export const waiting = signal<readonly Waiting[]>([]);
export const leasesKnown = signal(false); // the list was answered once
export const leasesAsked = signal(false); // the list was answered or refused once
export const available = signal<ReadonlyMap<string, DeviceAvailable>>(new Map());
export const events = signal<readonly Event[]>([]); // oldest first
export const alerts = signal<readonly Alert[]>([]);
export const needs = signal<readonly Need[]>([]); // what needs a person, the worst first
export const me = signal<Whoami | undefined>(undefined);
export const settings = signal<Settings | undefined>(undefined);

// now is the daemon's time in milliseconds, as near as the page can tell. It moves
// every second while somebody looks. minute moves once a minute, for older things.
export const now = signal(Date.now());
export const minute = computed(() => Math.floor(now.value / 60_000) * 60_000);

interface Kept {
  status: Signal<Status | undefined>;
  history: History;
  drawn: Signal<number>; // counts changes of history
  leases: ReadonlySignal<readonly Lease[]>;
}

const kept = new Map<string, Kept>();

function keep(uuid: string): Kept {
  let it = kept.get(uuid);
  if (it === undefined) {
    let before: readonly Lease[] = [];
    it = {
      status: signal<Status | undefined>(undefined),
      history: emptyHistory(),
      drawn: signal(0),
      leases: computed(() => {
        const mine = (byDevice.value.get(uuid) ?? []) as Lease[];
        if (mine.length === before.length && mine.every((l, i) => l === before[i])) return before;
        return (before = mine);
      }),
    };
    kept.set(uuid, it);
  }
  return it;
}

const byDevice = computed(() => {
  const found = new Map<string, Lease[]>();
  for (const lease of leases.value) {
    for (const part of lease.parts) {
      const list = found.get(part.gpu);
      if (list) list.push(lease);
      else found.set(part.gpu, [lease]);
    }
  }
  return found;
});

// device is the present state of a device; undefined: there is none with this UUID.
export const device = (uuid: string): Signal<Status | undefined> => keep(uuid).status;
// leasesOn lists the leases that hold something on a device.
export const leasesOn = (uuid: string): ReadonlySignal<readonly Lease[]> => keep(uuid).leases;
// historyOf has the latest samples of a device. Read drawnOf to learn of changes.
export const historyOf = (uuid: string): History => keep(uuid).history;
export const drawnOf = (uuid: string): Signal<number> => keep(uuid).drawn;

// may reports whether the person has at least a role.
export function may(role: 'user' | 'operator' | 'admin'): boolean {
  const ranks = ['stranger', 'scraper', 'viewer', 'user', 'operator', 'admin'];
  return ranks.indexOf(me.value?.role ?? 'stranger') >= ranks.indexOf(role);
}
