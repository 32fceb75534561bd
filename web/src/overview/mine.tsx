import type { ComponentChildren } from 'preact';
import type { Act } from '../actions/act';
import { opened } from '../actions/dialog';
import { jobActs } from '../actions/jobs';
import { leaseActs, withdraw } from '../actions/leases';
import { owns } from '../actions/rights';
import type { Estimate, Job, Lease, Waiting, Whoami } from '../api/types';
import { around, deviceLabels } from '../live/around';
import { narrow } from '../live/narrow';
import { ownerOf, ownJobs } from '../live/own';
import { usePolled } from '../live/poll';
import { leases, me, waiting } from '../live/state';
import { to } from '../router';
import { Badge } from '../ui/badge';
import { Cut } from '../ui/cut';
import { memory, plural } from '../ui/format';
import { Ago, For } from '../ui/time';
import { Starts } from './queue';
import { usedOf } from './berths';

// Own is something of the person who looks: a job, a request, or a lease.
export type Own = { kind: 'job'; job: Job } | { kind: 'request'; request: Waiting } | { kind: 'lease'; lease: Lease };

// ownOf lists what a person waits for and has, in the order in which it matters: what
// waits first. What a job asked for or holds is shown with the job.
export function ownOf(who: Whoami | undefined, jobs: readonly Job[], requests: readonly Waiting[], held: readonly Lease[]): Own[] {
  const taken = new Set(jobs.flatMap((j) => [j.id, j.lease ?? '']));
  const waits = (j: Job) => j.state === 'waiting' || j.state === 'held';
  return [
    ...requests.filter((w) => owns(who, w.holder) && !taken.has(w.id)).map((request): Own => ({ kind: 'request', request })),
    ...jobs.filter(waits).sort((a, b) => start(a.estimate) - start(b.estimate)).map((job): Own => ({ kind: 'job', job })),
    ...jobs.filter((j) => !waits(j)).map((job): Own => ({ kind: 'job', job })),
    ...held.filter((l) => owns(who, l.holder) && !taken.has(l.id) && l.parent === undefined).map((lease): Own => ({ kind: 'lease', lease })),
  ];
}

function start(e: Estimate | undefined): number {
  return e?.likely === undefined ? Infinity : Date.parse(e.likely);
}

const few = 4;
const fewer = 2; // on a phone, where the list of GPUs comes next

// Mine shows what the person who looks has and waits for: when it starts, and a button
// that stops it.
export function Mine() {
  const who = me.value;
  const user = ownerOf(who);
  const jobs = usePolled(async (signal) => (user === undefined ? undefined : ownJobs(user, signal)), 5000, [user]).data;
  const list = ownOf(who, jobs?.jobs ?? [], waiting.value, leases.value);
  if (user === undefined || (list.length === 0 && narrow.value)) return null;
  const most = narrow.value ? fewer : few;
  const shown = list.slice(0, list.length === most + 1 ? most + 1 : most);
  return (
    <section class="panel mine" aria-labelledby="mine">
      <header class="panel-head">
        <h2 id="mine">Yours</h2>
        <span class="quiet">{list.length === 0 ? '' : when(list)}</span>
        <a href={to.page('jobs')}>All jobs</a>
      </header>
      {list.length === 0
        ? <p class="empty">You hold nothing and wait for nothing. <code>berth submit -- COMMAND</code> runs something when there is room.</p>
        : <ul class="own">{shown.map((own) => <Line key={keyOf(own)} own={own} />)}</ul>}
      {list.length > shown.length && <p class="quiet">and {plural(list.length - shown.length + (jobs?.next === undefined ? 0 : 1), 'more', 'more')}{jobs?.next === undefined ? '' : ' at least'}</p>}
    </section>
  );
}

function when(list: Own[]): string {
  const waits = list.filter((o) => o.kind === 'request' || (o.kind === 'job' && (o.job.state === 'waiting' || o.job.state === 'held'))).length;
  return [waits > 0 ? `${waits} waiting` : '', list.length > waits ? `${list.length - waits} running` : ''].filter((x) => x !== '').join(', ');
}

function keyOf(own: Own): string {
  switch (own.kind) {
    case 'job': return `job ${own.job.id}`;
    case 'request': return `request ${own.request.id}`;
    case 'lease': return `lease ${own.lease.fence}`;
  }
}

function Line({ own }: { own: Own }) {
  const a = around();
  switch (own.kind) {
    case 'request': {
      const w = own.request;
      return <Thing name={w.id} href={to.lease(w.holder.user, w.id)} state={<Badge tone="warn">waits</Badge>} act={withdraw(w, a)}
        says={<>{w.estimate ? <Starts estimate={w.estimate} why /> : 'start not known'} · place {w.position}, {memory(w.memory_mb)}</>} />;
    }
    case 'job': {
      const j = own.job;
      const runs = j.state === 'running' || j.state === 'starting' || j.state === 'parked';
      const says = runs
        ? <>{j.started ? <>runs for <For since={j.started} /></> : j.state}{j.devices && j.devices.length > 0 ? ` on ${deviceLabels(j.devices)}` : ''}</>
        : j.state === 'held' ? 'held: it begins when you let it go'
          : j.estimate ? <Starts estimate={j.estimate} why /> : j.begin ? <>begins <Ago at={j.begin} /> at the earliest</> : (j.cause ?? 'start not known');
      return <Thing name={j.id} href={to.row('jobs', j.id)} state={<Badge tone={runs ? 'good' : 'warn'}>{runs ? 'job' : 'job waits'}</Badge>} act={jobActs(j, a).find((it) => it.key === 'cancel-job')} says={says} />;
    }
    case 'lease': {
      const l = own.lease;
      const [used, asked] = l.parts.reduce(([u, n], p) => [u + (p.measured_mb ?? 0), n + p.memory_mb], [0, 0]);
      const acts = leaseActs(l, a);
      return <Thing name={l.id} href={to.lease(l.holder.user, l.id)} state={l.state === 'active' ? null : <Badge tone="info">{l.state}</Badge>} act={acts.find((it) => it.key === 'cancel') ?? acts.find((it) => it.key === 'release')}
        says={<>{usedOf(used, asked)} on {deviceLabels(l.parts.map((p) => p.gpu))}</>} />;
    }
  }
}

function Thing({ name, href, state, says, act }: { name: string; href: string; state: ComponentChildren; says: ComponentChildren; act: Act | undefined }) {
  return (
    <li class="own-one">
      <span class="own-name" title={name}><a href={href}><Cut text={name} /></a></span>
      {state}
      <span class="own-says">{says}</span>
      {act && <button type="button" class="small ends" data-act={act.key} aria-label={`Stop ${name}`} onClick={() => (opened.value = act)}>Stop</button>}
    </li>
  );
}
