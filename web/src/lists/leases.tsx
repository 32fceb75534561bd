import { useMemo } from 'preact/hooks';
import { api } from '../api/client';
import type { Lease, PastLease, Waiting } from '../api/types';
import { how } from '../lease/words';
import { done } from '../actions/dialog';
import { deviceLabels } from '../live/around';
import { usePolled } from '../live/poll';
import { leases as held, leasesAsked, waiting } from '../live/state';
import { to } from '../router';
import { Badge, type Tone } from '../ui/badge';
import { Cut } from '../ui/cut';
import { joules, memory, memoryOn, plural } from '../ui/format';
import { Ago } from '../ui/time';
import { iso, type Rows, type Subject } from './subject';

// Row is a lease, a request that waits, or a lease that has ended.
interface Row {
  key: string;
  id: string;
  state: Lease['state'] | 'ended';
  user: string;
  service: string | undefined;
  name: string | undefined;
  gpu: string;
  memory: number; // MiB on all devices together
  each: number | undefined; // MiB on each device, where all have the same
  used: number | undefined;
  slots: number;
  since: string | undefined;
  until: string | undefined; // ends, or ended
  ends: string | undefined; // what ends it, where no time is known
  why: string; // how it ended, what it waits for, what it is
  priority: number | undefined;
  pool: string | undefined; // the pool that its memory is from
  energy: number | undefined;
  fence: number | undefined;
  part: boolean; // it stands below its pool
}

const sum = (parts: Lease['parts'], of: (p: Lease['parts'][number]) => number | undefined) => parts.reduce((n, p) => n + (of(p) ?? 0), 0);

// same returns the memory of each part, if all have as much.
function same(parts: Lease['parts']): number | undefined {
  const [first] = parts;
  return first !== undefined && first.memory_mb > 0 && parts.every((p) => p.memory_mb === first.memory_mb) ? first.memory_mb : undefined;
}

function ofLease(l: Lease): Row {
  const user = l.holder.user ?? 'another user';
  const pool = l.pool ? `pool: ${memory(l.pool.taken_mb)} taken by ${plural(l.pool.leases, 'part')}, ${memory(l.pool.left_mb)} left` : '';
  const idle = l.idle ? 'idle' : '';
  return {
    key: `${user}/${l.id}#${l.fence}`, id: l.id, state: l.state, user, service: l.holder.service, name: l.holder.name, gpu: deviceLabels(l.parts.map((p) => p.gpu)),
    memory: sum(l.parts, (p) => p.memory_mb), each: same(l.parts), used: l.parts.some((p) => p.measured_mb !== undefined) ? sum(l.parts, (p) => p.measured_mb) : undefined, slots: sum(l.parts, (p) => p.slots),
    since: l.granted, until: l.ends ?? l.expires, ends: l.binding === 'process' ? 'its process' : l.binding === 'named' ? 'its release' : undefined, why: [pool, idle, l.exclusive ? 'alone on its GPU' : '', l.cancelled ? 'is being cancelled' : ''].filter((x) => x !== '').join(', '),
    priority: l.priority, pool: l.from_pool, energy: l.energy_joules, fence: l.fence, part: l.from_pool !== undefined,
  };
}

function ofWaiting(w: Waiting): Row {
  const user = w.holder.user ?? 'another user';
  return {
    key: `${user}/${w.id}#waiting`, id: w.id, state: 'waiting', user, service: w.holder.service, name: w.holder.name, gpu: w.gpus > 1 ? `${w.gpus} GPUs` : '', memory: w.memory_mb * Math.max(1, w.gpus), each: w.memory_mb, used: undefined,
    slots: w.slots, since: w.since, until: w.estimate?.likely, ends: undefined, why: `place ${w.position} in the queue${w.for === 'resume' ? ', to be resumed' : w.for === 'resize' ? ', to become larger' : ''}`,
    priority: w.priority, pool: undefined, energy: undefined, fence: undefined, part: false,
  };
}

function ofPast(p: PastLease): Row {
  const user = p.holder.user ?? 'another user';
  return {
    key: `${user}/${p.id}#${p.fence}`, id: p.id, state: 'ended', user, service: p.holder.service, name: p.holder.name, gpu: deviceLabels(p.parts.map((x) => x.gpu)),
    memory: sum(p.parts, (x) => x.memory_mb), each: same(p.parts), used: p.peak_mb > 0 ? p.peak_mb : undefined, slots: sum(p.parts, (x) => x.slots), since: p.granted, until: p.ended, ends: undefined,
    why: `${how[p.how] ?? p.how}${p.by ? ` by ${p.by}` : ''}${p.why ? `: ${p.why}` : ''}`, priority: undefined, pool: p.from_pool, energy: p.energy_joules, fence: p.fence, part: false,
  };
}

// arranged puts the newest leases first, each pool before its parts, then who waits, then
// those that have ended.
export function arranged(leases: readonly Lease[], waits: readonly Waiting[], past: readonly PastLease[]): Row[] {
  const parts = new Map<string, Lease[]>();
  const own = (l: Lease, id: string) => `${l.holder.user ?? ''}/${id}`;
  const pools = new Set(leases.filter((l) => l.pool).map((l) => own(l, l.id)));
  for (const l of leases) {
    if (l.from_pool !== undefined && pools.has(own(l, l.from_pool))) parts.set(own(l, l.from_pool), [...(parts.get(own(l, l.from_pool)) ?? []), l]);
  }
  const rows: Row[] = [];
  for (const l of [...leases].reverse()) {
    if (l.from_pool !== undefined && pools.has(own(l, l.from_pool))) continue;
    rows.push(ofLease(l));
    if (l.pool) rows.push(...(parts.get(own(l, l.id)) ?? []).map(ofLease));
  }
  const standing = new Set(rows.map((r) => r.key));
  return [...rows, ...waits.map(ofWaiting), ...past.map(ofPast).filter((r) => !standing.has(r.key))];
}

function useLeases(): Rows<Row> {
  const past = usePolled((signal) => api.past({ limit: 2000 }, { signal }), 15_000, [held.value, done.value]);
  const rows = useMemo(() => arranged(held.value, waiting.value, past.data?.leases ?? []), [held.value, waiting.value, past.data]);
  return { rows: leasesAsked.value ? rows : undefined, error: past.error };
}

const tones: Record<Row['state'], Tone> = { active: 'good', parking: 'info', parked: 'off', resuming: 'info', waiting: 'warn', released: 'off', ended: 'off' };

export const leases: Subject<Row> = {
  title: 'Leases',
  one: 'lease',
  id: (r) => r.key,
  href: (r) => to.lease(r.user === 'another user' ? undefined : r.user, r.id),
  useRows: useLeases,
  rowClass: (r) => (r.state === 'ended' ? 'past' : ''),
  fields: [
    { key: 'id', name: 'Lease', width: 18, value: (r) => r.id, cell: (r) => (r.part ? <><span class="tree-branch" aria-hidden="true">└ </span>{r.id}</> : <Cut text={r.id} />) },
    { key: 'state', name: 'State', width: 7, choose: true, phone: 'side', value: (r) => r.state, cell: (r) => <Badge tone={tones[r.state]}>{r.state}</Badge> },
    { key: 'user', name: 'User', width: 8, choose: true, phone: 'below', value: (r) => r.user },
    { key: 'service', name: 'Service', width: 8, choose: true, value: (r) => r.service },
    { key: 'gpu', name: 'GPU', width: 7, choose: true, phone: 'below', value: (r) => r.gpu || undefined },
    { key: 'memory_mb', name: 'Leased', width: 8, numeric: true, phone: 'below', value: (r) => r.memory, cell: (r) => (r.memory > 0 ? (r.each === undefined ? memory(r.memory) : memoryOn(r.memory / r.each, r.each)) : undefined) },
    { key: 'used_mb', name: 'Used', width: 6.5, numeric: true, value: (r) => r.used, cell: (r) => (r.used === undefined ? undefined : r.state !== 'ended' && r.memory > 0 && r.used > r.memory ? <span class="text-bad">{memory(r.used)}</span> : memory(r.used)) },
    { key: 'why', name: 'Note', value: (r) => r.why || undefined, cell: (r) => r.why },
    { key: 'since', name: 'Since', width: 7, numeric: true, value: (r) => iso(r.since), cell: (r) => (r.since ? <Ago at={r.since} /> : undefined) },
    { key: 'until', name: 'Until', width: 8, numeric: true, value: (r) => iso(r.until), cell: (r) => (r.until ? <Ago at={r.until} /> : r.ends) },
    { key: 'pool', name: 'Pool', width: 8, off: true, value: (r) => r.pool },
    { key: 'name', name: 'Program', width: 9, off: true, value: (r) => r.name },
    { key: 'slots', name: 'Slots', width: 5, numeric: true, off: true, value: (r) => r.slots },
    { key: 'priority', name: 'Priority', width: 6, numeric: true, off: true, value: (r) => r.priority },
    { key: 'energy_joules', name: 'Energy', width: 6.5, numeric: true, off: true, value: (r) => r.energy, cell: (r) => (r.energy === undefined ? undefined : joules(r.energy)) },
    { key: 'fence', name: 'Fence', width: 6, numeric: true, off: true, value: (r) => r.fence },
  ],
  empty: {
    title: 'No leases',
    shows: 'A lease is the right of somebody to memory on a GPU. Here is who holds how much, how much of it they use, who waits, and which leases have ended.',
    first: 'berth exec --memory 8GiB -- python train.py',
    topic: 'leasing',
  },
};
