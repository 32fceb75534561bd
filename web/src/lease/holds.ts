import type { Lease, LeasePart } from '../api/types';

// holds returns how much memory of a part, in MiB, counts for the lease itself: nothing
// while it is parked, and for a pool what the leases from it have not taken.
export function holds(lease: Pick<Lease, 'state' | 'pool'>, part: Pick<LeasePart, 'memory_mb'>): number {
  return lease.state === 'parked' ? 0 : Math.max(part.memory_mb - (lease.pool?.taken_mb ?? 0), 0);
}
