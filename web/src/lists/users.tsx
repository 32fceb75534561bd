import { mayEntrust } from '../actions/tokens';
import type { QuotaLimit, Users, UserUse } from '../api/schemas';
import { deviceLabels } from '../live/around';
import { leases, waiting } from '../live/state';
import { to } from '../router';
import { Badge } from '../ui/badge';
import { Fact, Facts } from '../ui/facts';
import { count, duration, joules, memory, percent } from '../ui/format';
import { Meter } from '../ui/meter';
import { Table } from '../ui/table';
import { Ago, For } from '../ui/time';
import { iso, Peek, type Subject, useAsked, whole } from './subject';

// tightest is the limit of which a user has used the greatest share.
function tightest(u: UserUse): { limit: QuotaLimit; share: number } | undefined {
  let found: { limit: QuotaLimit; share: number } | undefined;
  for (const limit of u.limits ?? []) {
    if (limit.limit === undefined || limit.used === undefined || limit.limit === 0) continue;
    const share = limit.used / limit.limit;
    if (found === undefined || share > found.share) found = { limit, share };
  }
  return found;
}

const words: Record<string, string> = {
  memory_mb: 'memory', slots: 'slots', leases: 'leases', waiting: 'waiting requests', gpus: 'GPUs', running_jobs: 'jobs that run', waiting_jobs: 'jobs that wait',
  longest_wait_seconds: 'longest wait', longest_ttl_seconds: 'longest lease with a TTL', longest_time_seconds: 'longest time', named_leases: 'named leases', calls_per_second: 'calls a second', streams: 'event streams',
};

// amount writes a figure of a limit in its unit.
function amount(name: string, value: number | undefined): string {
  if (value === undefined) return 'no limit';
  if (name.endsWith('_mb')) return memory(value);
  return name.endsWith('_seconds') ? duration(value) : count(value);
}

export const users: Subject<UserUse> = {
  title: 'Users',
  one: 'user',
  id: (u) => u.user,
  useRows: () => useAsked((signal) => whole<Users, UserUse>('/api/users', (a) => a.users, { signal }), 4000, (u) => u.user),
  fields: [
    { key: 'user', name: 'User', width: 14, value: (u) => u.user },
    { key: 'memory_mb', name: 'Holds', width: 7, numeric: true, phone: 'side', value: (u) => u.memory_mb, cell: (u) => (u.memory_mb > 0 ? memory(u.memory_mb) : undefined) },
    { key: 'measured_mb', name: 'Uses', width: 7, numeric: true, value: (u) => u.measured_mb, cell: (u) => (u.memory_mb > 0 || u.measured_mb > 0 ? memory(u.measured_mb) : undefined) },
    { key: 'leases', name: 'Leases', width: 5.5, numeric: true, phone: 'below', value: (u) => u.leases, cell: (u) => <>{u.leases || '–'}<span class="phone-word"> {u.leases === 1 ? 'lease' : 'leases'}</span></> },
    { key: 'gpus', name: 'GPUs', width: 5, numeric: true, value: (u) => u.gpus, cell: (u) => u.gpus || undefined },
    { key: 'waiting', name: 'Waits for', width: 9, numeric: true, phone: 'below', value: (u) => u.waiting, cell: (u) => (u.waiting > 0 ? <><span class="phone-word">waits for </span>{`${u.waiting} × ${memory(u.waiting_mb / u.waiting)}`}</> : undefined) },
    { key: 'waiting_since', name: 'Waits for', width: 8, off: true, value: (u) => iso(u.waiting_since), cell: (u) => (u.waiting_since ? <For since={u.waiting_since} /> : undefined) },
    { key: 'gib_hours', name: 'Has used', width: 8, numeric: true, value: (u) => round(u.gib_hours), cell: (u) => `${count(round(u.gib_hours))} GiB·h` },
    { key: 'energy_joules', name: 'Energy', width: 7, numeric: true, value: (u) => u.energy_joules, cell: (u) => (u.energy_joules === undefined ? undefined : joules(u.energy_joules)) },
    { key: 'quota_percent', name: 'Of the quota', value: (u) => { const t = tightest(u); return t && Math.round(t.share * 100); }, cell: (u) => <Tightest u={u} /> },
    { key: 'ended', name: 'Ended leases', width: 8, numeric: true, off: true, value: (u) => u.ended },
    { key: 'lease_hours', name: 'Lease hours', width: 8, numeric: true, off: true, value: (u) => round(u.lease_hours), cell: (u) => count(round(u.lease_hours)) },
    { key: 'slots', name: 'Slots', width: 5, numeric: true, off: true, value: (u) => u.slots },
  ],
  links: (a) => (mayEntrust(a) ? [{ href: to.page('tokens'), label: 'Tokens' }] : []),
  Detail: UserDetail,
  empty: {
    title: 'No users',
    shows: 'Here is who holds and uses how much of the GPUs, who waits, what they have used so far, and how near they are to their limits. Somebody is here after their first lease or job.',
    first: 'berth exec --memory 8GiB -- python train.py',
    topic: 'access',
  },
};

function round(n: number): number {
  return n < 10 ? Math.round(n * 10) / 10 : Math.round(n);
}

function Tightest({ u }: { u: UserUse }) {
  const t = tightest(u);
  if (u.limits === undefined) return <span class="quiet">hidden</span>;
  if (t === undefined) return <span class="quiet">no limit</span>;
  return <span class="with-meter"><Meter label={`Used of the limit ${t.limit.name}`} value={t.share} most={Math.max(1, t.share)} tone={t.share >= 1 ? 'bad' : t.share > 0.8 ? 'warn' : 'calm'} text={percent(t.share * 100)} />{percent(t.share * 100)} {words[t.limit.name] ?? t.limit.name}</span>;
}

function UserDetail({ id, row: u }: { id: string; row: UserUse | undefined }) {
  if (u === undefined) return <Peek title={id}><p class="empty">berth knows of nothing that {id} holds, waits for or has used.</p></Peek>;
  const held = leases.value.filter((l) => l.holder.user === id);
  const asked = waiting.value.filter((w) => w.holder.user === id);
  return (
    <Peek title={u.user}>
      <Facts>
        <Fact name="Holds">{u.leases === 0 ? 'nothing' : `${memory(u.memory_mb)} in ${u.leases === 1 ? 'one lease' : `${u.leases} leases`} on ${u.gpus === 1 ? 'one GPU' : `${u.gpus} GPUs`}`}</Fact>
        <Fact name="Uses of it">{u.leases === 0 ? '' : memory(u.measured_mb)}</Fact>
        <Fact name="Waits for">{u.waiting === 0 ? 'nothing' : <>{memory(u.waiting_mb)} in {u.waiting === 1 ? 'one request' : `${u.waiting} requests`}{u.waiting_since && <>, for <For since={u.waiting_since} /></>}</>}</Fact>
        <Fact name="Has used">{`${count(round(u.gib_hours))} GiB·h in ${count(round(u.lease_hours))} h of leases`}</Fact>
        <Fact name="Energy">{u.energy_joules === undefined ? '' : joules(u.energy_joules)}</Fact>
        <Fact name="Ended leases">{count(u.ended)}</Fact>
      </Facts>
      <p class="links"><a href={to.page('leases', { user: id })}>Leases</a><a href={to.page('jobs', { user: id })}>Jobs</a><a href={to.page('events', { text: id })}>Events</a></p>
      {held.length > 0 && (
        <>
          <h3>Holds</h3>
          <Table
            label={`Leases of ${id}`}
            columns={[
              { name: 'Lease', sort: (l) => l.id, cell: (l) => <a href={to.lease(id, l.id)}>{l.id}</a> },
              { name: 'GPU', cell: (l) => deviceLabels(l.parts.map((p) => p.gpu)) },
              { name: 'Memory', numeric: true, sort: (l) => l.parts.reduce((n, p) => n + p.memory_mb, 0), cell: (l) => memory(l.parts.reduce((n, p) => n + p.memory_mb, 0)) },
              { name: 'Uses', numeric: true, sort: (l) => l.parts.reduce((n, p) => n + (p.measured_mb ?? 0), 0), cell: (l) => memory(l.parts.reduce((n, p) => n + (p.measured_mb ?? 0), 0)) },
            ]}
            rows={held} id={(l) => l.fence} empty=""
          />
        </>
      )}
      {asked.length > 0 && (
        <>
          <h3>Waits for</h3>
          <Table
            label={`Requests of ${id}`}
            columns={[
              { name: 'Request', cell: (w) => <a href={to.lease(id, w.id)}>{w.id}</a> },
              { name: 'Memory', numeric: true, cell: (w) => memory(w.memory_mb) },
              { name: 'For', numeric: true, cell: (w) => <For since={w.since} /> },
              { name: 'Starts', cell: (w) => (w.estimate?.likely ? <Ago at={w.estimate.likely} /> : '–') },
            ]}
            rows={asked} id={(w) => w.id} empty=""
          />
        </>
      )}
      <h3>Quota</h3>
      {u.limits === undefined
        ? <p class="quiet">The limits of {u.user} are shown to {u.user} and to operators.</p>
        : (
          <Table
            label={`Limits of ${id}`}
            columns={[
              { name: 'Limit', cell: (l) => <>{words[l.name] ?? l.name}{l.group ? <span class="quiet"> of the group {l.group}</span> : ''}</> },
              { name: 'Used', numeric: true, cell: (l) => (l.used === undefined ? '–' : amount(l.name, l.used)) },
              { name: 'Of', numeric: true, cell: (l) => amount(l.name, l.limit) },
              { name: 'Set by', cell: (l) => (l.limit !== undefined && l.used !== undefined && l.used >= l.limit && l.limit > 0 ? <Badge tone="bad">full</Badge> : <span class="quiet">{l.source}</span>) },
            ]}
            rows={u.limits} id={(l) => `${l.name} ${l.group ?? ''}`} empty={<>There are no limits. <code>users.{id}</code> in <code>berth.yaml</code> sets them.</>}
          />
        )}
    </Peek>
  );
}
