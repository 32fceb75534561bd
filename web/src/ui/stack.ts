import type { DeviceAvailable, Lease } from '../api/types';
import { holds } from '../lease/holds';

// Segment is a part of the memory of a device, for a picture. size is what nobody
// else can have; used is how much of it processes were measured to use.
export interface Segment {
  kind: 'lease' | 'rest' | 'strangers' | 'driver' | 'reserve' | 'free';
  key: string;
  size: number;
  used: number;
  asked: number; // what the lease asked for; 0 for others
  lease?: Lease; // the largest of them
  count: number; // how many leases it stands for
}

export interface Stack {
  total: number;
  leased: number; // what leases asked for
  used: number; // what their processes use
  strangers: number;
  free: number;
  segments: Segment[];
}

// driver is more memory, in MiB, than the driver of a device takes for itself.
export const driver = 1024;

// narrow is the share of a device below which a lease gets no segment of its own.
const narrow = 0.006;

// many is how many such leases get a segment each. Where there are more, each user has one.
const many = 8;

// stack divides the memory of a device. What leases and strangers take is never
// shown smaller than it is; if it adds up to more than there is, the segments are
// scaled together, and nothing is free.
export function stack(uuid: string, total: number, leases: readonly Lease[], room: DeviceAvailable | undefined): Stack {
  const segments: Segment[] = [];
  let leased = 0;
  let used = 0;
  const here = leases.flatMap((lease) => lease.parts.filter((p) => p.gpu === uuid).map((part) => {
    const [measured, asked] = [part.measured_mb ?? 0, holds(lease, part)];
    return { lease, measured, asked, size: Math.max(asked, measured) };
  }));
  here.sort((a, b) => b.size - a.size);
  const byUser = here.filter((it) => it.size >= total * narrow).length > many;
  const found = new Map<string, Segment>();
  for (const { lease, measured, asked, size } of here) {
    leased += asked;
    used += measured;
    if (size <= 0) continue;
    const key = byUser ? `of ${lease.holder.user ?? ''}` : size < total * narrow ? 'rest' : String(lease.fence);
    let it = found.get(key);
    if (it === undefined) found.set(key, it = { kind: key === 'rest' ? 'rest' : 'lease', key, size: 0, used: 0, asked: 0, count: 0, ...(key === 'rest' ? {} : { lease }) });
    it.size += size;
    it.used += measured;
    it.asked += asked;
    it.count++;
  }
  segments.push(...[...found.values()].sort((a, b) => Number(a.kind === 'rest') - Number(b.kind === 'rest') || b.size - a.size));
  const strangers = Math.max(0, room?.foreign_mb ?? 0);
  if (strangers > 0) segments.push({ kind: strangers > driver ? 'strangers' : 'driver', key: 'strangers', size: strangers, used: strangers, asked: 0, count: 0 });
  const taken = segments.reduce((sum, s) => sum + s.size, 0);
  const limit = Math.min(total, room?.limit_mb ?? total);
  const kept = Math.min(Math.max(0, total - taken), (room?.reserve_mb ?? 0) + (total - limit)); // nobody can lease this
  const free = Math.max(0, total - taken - kept);
  if (free > 0) segments.push({ kind: 'free', key: 'free', size: free, used: 0, asked: 0, count: 0 });
  if (kept > 0) segments.push({ kind: 'reserve', key: 'reserve', size: kept, used: 0, asked: 0, count: 0 });
  return { total, leased, used, strangers, free, segments };
}

// share is how wide a segment is, in percent of the whole picture.
export function share(s: Stack, segment: Segment): number {
  const sum = s.segments.reduce((all, one) => all + one.size, 0);
  return sum <= 0 ? 0 : (segment.size * 100) / sum;
}
