import type { Lease } from '../api/types';
import { holds } from '../lease/holds';

// Person is what a user holds and uses of the memory of all devices, in MiB.
export interface Person {
  user: string; // empty: of users whom the caller may not see
  leases: number;
  holds: number;
  uses: number;
}

// people adds up leases by user: who holds most comes first.
export function people(leases: readonly Lease[]): Person[] {
  const found = new Map<string, Person>();
  for (const l of leases) {
    const user = l.holder.user ?? '';
    const it = found.get(user) ?? { user, leases: 0, holds: 0, uses: 0 };
    found.set(user, it);
    it.leases++;
    for (const p of l.parts) {
      it.holds += holds(l, p);
      it.uses += p.measured_mb ?? 0;
    }
  }
  return [...found.values()].sort((a, b) => b.holds - a.holds || (a.user < b.user ? -1 : 1));
}

// leastUsed returns who leaves most of what they hold unused, if that is a quarter of
// it and a GiB or more; undefined: nobody does.
export function leastUsed(list: readonly Person[]): Person | undefined {
  let worst: Person | undefined;
  for (const p of list) {
    if (p.holds - p.uses < Math.max(1024, p.holds / 4)) continue;
    if (worst === undefined || p.holds - p.uses > worst.holds - worst.uses) worst = p;
  }
  return worst;
}

// Share is what a user holds of one device.
export interface Share {
  user: string;
  lease: Lease; // the largest one: it gives the colour
  holds: number;
}

// sharesOf lists who holds how much of a device, the largest first.
export function sharesOf(uuid: string, leases: readonly Lease[]): Share[] {
  const found = new Map<string, Share & { most: number }>();
  for (const lease of leases) {
    for (const p of lease.parts) {
      if (p.gpu !== uuid) continue;
      const user = lease.holder.user ?? '';
      const it = found.get(user) ?? { user, lease, holds: 0, most: -1 };
      found.set(user, it);
      it.holds += holds(lease, p);
      if (p.memory_mb > it.most) [it.lease, it.most] = [lease, p.memory_mb];
    }
  }
  return [...found.values()].sort((a, b) => b.holds - a.holds || (a.user < b.user ? -1 : 1));
}
