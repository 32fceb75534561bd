import { useMemo } from 'preact/hooks';
import { Acts } from '../actions/dialog';
import { ended, jobActs, submit } from '../actions/jobs';
import { atLeast } from '../actions/rights';
import { call, path } from '../api/client';
import type { Job, Jobs } from '../api/schemas';
import type { Waiting } from '../api/types';
import { around, deviceLabel, deviceLabels } from '../live/around';
import { usePolled } from '../live/poll';
import { now, waiting } from '../live/state';
import { done } from '../actions/dialog';
import { Starts } from '../overview/queue';
import { to } from '../router';
import { Badge, type Tone } from '../ui/badge';
import { Cut } from '../ui/cut';
import { Fact, Facts } from '../ui/facts';
import { duration, joules, memory, memoryOn, percent, plural, quoted } from '../ui/format';
import { Table } from '../ui/table';
import { Ago, For } from '../ui/time';
import { Log } from './log';
import { iso, Peek, type Rows, type Subject, useAsked, whole } from './subject';

const tones: Record<Job['state'], Tone> = {
  held: 'off', waiting: 'warn', starting: 'info', running: 'good', parked: 'off', done: 'calm', failed: 'bad', cancelled: 'off', timed_out: 'bad', lost: 'bad',
};

function State({ j }: { j: Job }) {
  return <Badge tone={tones[j.state] ?? 'off'}>{j.state.replace('_', ' ')}</Badge>;
}

// seconds is how long a job has run, or ran.
function seconds(j: Job): number | undefined {
  if (j.started === undefined) return undefined;
  return ((j.ended === undefined ? now.peek() : Date.parse(j.ended)) - Date.parse(j.started)) / 1000;
}

function gpus(j: Job): string {
  return deviceLabels(j.devices ?? []);
}

// progress says how far the tasks of a job are.
function progress(j: Job): string {
  const t = j.tasks;
  if (t === undefined) return '';
  const over = (t.done ?? 0) + (t.failed ?? 0) + (t.cancelled ?? 0) + (t.timed_out ?? 0) + (t.lost ?? 0);
  return `${over} of ${t.total} tasks`;
}

// changing returns a function that reads all jobs. It reads those that ended long ago only at
// first and every ten minutes, for then some may be forgotten; they do not change.
export function changing(): (signal: AbortSignal) => Promise<Job[]> {
  const number = (j: Job) => Number(j.id.slice(j.id.lastIndexOf('-') + 1));
  const read = (signal: AbortSignal, query: { since?: string }) => whole<Jobs, Job>('/api/jobs', (a) => a.jobs, { signal, query });
  let all: Job[] = [];
  let last = -Infinity;
  return async (signal) => {
    const began = performance.now();
    const since = all.reduce((latest, j) => Math.max(latest, Date.parse(j.ended ?? '') || 0), 0) - 60_000;
    if (began - last < 600_000 && since > 0) {
      const found = await read(signal, { since: new Date(since).toISOString() });
      const there = new Set(found.map((j) => j.id));
      const others = all.filter((j) => !there.has(j.id));
      if (others.every((j) => j.ended !== undefined)) return (all = [...found, ...others].sort((a, b) => number(b) - number(a)));
    }
    all = await read(signal, {});
    last = began;
    return all;
  };
}

const lately = 86_400_000; // ms

// inOrder puts what runs first, then what failed within the last day, then what waits by
// its turn, and then all that has ended, the newest first in each.
export function inOrder(jobs: readonly Job[], requests: readonly Waiting[], at: number): Job[] {
  const places = new Map<string, number>(); // of jobs; a job of tasks has that of its first task
  for (const w of requests) {
    for (const id of [w.id, w.id.replace(/\.\d+$/, '')]) {
      const name = `${w.holder.user}/${id}`;
      places.set(name, Math.min(w.position, places.get(name) ?? Infinity));
    }
  }
  const rank = (j: Job) => {
    switch (j.state) {
      case 'running': case 'starting': case 'parked': return 0;
      case 'failed': case 'timed_out': case 'lost': return at - Date.parse(j.ended ?? '') < lately ? 1 : 5;
      case 'waiting': return places.has(`${j.user}/${j.lease ?? j.id}`) ? 2 : 3;
      case 'held': return 4;
      default: return 5;
    }
  };
  return jobs
    .map((j, i) => ({ j, i, rank: rank(j), place: places.get(`${j.user}/${j.lease ?? j.id}`) ?? 0 }))
    .sort((a, b) => a.rank - b.rank || (a.rank === 2 ? a.place - b.place : 0) || a.i - b.i)
    .map((it) => it.j);
}

function useJobs(): Rows<Job> {
  const asked = useAsked(useMemo(changing, []), 3000, (j) => j.id);
  const rows = useMemo(() => asked.rows && inOrder(asked.rows, waiting.value, Date.now()), [asked.rows, waiting.value]);
  return { ...asked, rows };
}

export const jobs: Subject<Job> = {
  title: 'Jobs',
  one: 'job',
  id: (j) => j.id,
  useRows: useJobs,
  fields: [
    { key: 'id', name: 'Job', width: 20, value: (j) => j.id, cell: (j) => <Cut text={j.id} after={progress(j)} /> },
    { key: 'state', name: 'State', width: 7, chips: ['running', 'starting', 'parked', 'failed', 'timed_out', 'lost', 'waiting', 'held', 'done', 'cancelled'], phone: 'side', value: (j) => j.state, cell: (j) => <State j={j} /> },
    { key: 'user', name: 'User', width: 8, choose: true, phone: 'below', value: (j) => j.user },
    { key: 'why', name: 'Why', phone: 'below', value: (j) => j.cause ?? '', cell: (j) => j.cause ?? '' },
    { key: 'gpu', name: 'GPU', width: 7, value: (j) => gpus(j) || undefined },
    { key: 'memory_mb', name: 'Memory', width: 8, numeric: true, value: (j) => (j.memory_mb > 0 ? j.memory_mb * Math.max(1, j.gpus) : undefined), cell: (j) => (j.memory_mb > 0 ? memoryOn(j.gpus, j.memory_mb) : undefined) },
    { key: 'seconds', name: 'Runs', width: 7, numeric: true, value: seconds, cell: (j) => (j.started === undefined ? undefined : j.ended === undefined ? <For since={j.started} /> : duration(seconds(j))) },
    { key: 'submitted', name: 'Submitted', width: 7, numeric: true, value: (j) => iso(j.submitted), cell: (j) => <Ago at={j.submitted} /> },
    { key: 'starts', name: 'Starts', width: 7, numeric: true, value: (j) => iso(j.estimate?.likely), cell: (j) => (j.estimate?.likely ? <Ago at={j.estimate.likely} /> : undefined) },
    { key: 'ended', name: 'Ended', width: 7, numeric: true, off: true, value: (j) => iso(j.ended), cell: (j) => (j.ended ? <Ago at={j.ended} /> : undefined) },
    { key: 'exit', name: 'Exit', width: 4.5, numeric: true, off: true, value: (j) => j.exit_code },
    { key: 'gpus', name: 'GPUs', width: 4.5, numeric: true, off: true, value: (j) => j.gpus },
    { key: 'priority', name: 'Priority', width: 5.5, numeric: true, off: true, value: (j) => j.priority },
    { key: 'peak_memory_mb', name: 'Used', width: 6, numeric: true, off: true, value: (j) => j.peak_memory_mb, cell: (j) => (j.peak_memory_mb ? memory(j.peak_memory_mb) : undefined) },
    { key: 'load_percent', name: 'Load', width: 5, numeric: true, off: true, value: (j) => j.mean_utilization_percent, cell: (j) => (j.mean_utilization_percent === undefined ? undefined : percent(j.mean_utilization_percent)) },
    { key: 'energy_joules', name: 'Energy', width: 6, numeric: true, off: true, value: (j) => j.energy_joules, cell: (j) => (j.energy_joules === undefined ? undefined : joules(j.energy_joules)) },
    { key: 'service', name: 'Service', width: 8, off: true, value: (j) => j.service },
    { key: 'command', name: 'Command', width: 20, off: true, value: (j) => j.command && quoted(j.command) },
    { key: 'directory', name: 'Folder', width: 14, off: true, value: (j) => j.directory },
  ],
  acts: (a) => (atLeast(a.me, 'viewer') && a.me?.uid !== 0 ? [submit(a)] : []), // root is told to use the command
  Detail: JobDetail,
  empty: {
    title: 'No jobs',
    shows: 'A job is a program that berth starts when there is room for it on a GPU. Here is what runs, what failed, what waits and when it starts, with its log.',
    first: 'berth submit --memory 8GiB -- python train.py',
    topic: 'running-jobs',
  },
};

// mostTasks is how many tasks of a job are shown.
const mostTasks = 500;

function JobDetail({ id, row }: { id: string; row: Job | undefined }) {
  const polled = usePolled((signal) => call<Job>(path('api', 'jobs', id), { signal, query: { tasks: mostTasks } }), 2000, [id, row?.state, done.value]);
  const j = polled.data?.id === id ? polled.data : row;
  if (j === undefined) return <Peek title={id}><p class={polled.error ? '' : 'empty'}>{polled.error ? polled.error.message : 'Asking the daemon …'}</p></Peek>;
  const live = !ended.has(j.state);
  return (
    <Peek
      title={j.id}
      state={<><State j={j} /> <span>{j.cause}</span>{j.estimate && j.state === 'waiting' && <span class="quiet"><Starts estimate={j.estimate} /></span>}</>}
      acts={<Acts acts={jobActs(j, around())} label={`What you can do with ${j.id}`} />}
    >
      {j.command && <pre class="command" tabIndex={0} aria-label="Command">{quoted(j.command)}</pre>}
      <Facts>
        <Fact name="User">{j.user}</Fact>
        <Fact name="Part of">{j.job ? <a href={to.row('jobs', j.job)}>{j.job}</a> : ''}</Fact>
        <Fact name="Lease">{j.lease ? <a href={to.lease(j.user, j.lease)}>{j.lease}</a> : ''}</Fact>
        <Fact name="GPU">{(j.devices ?? []).length > 0 ? (j.devices ?? []).map((g, i) => <>{i > 0 && ', '}<a key={g} href={to.gpu(g)}>{deviceLabel(g)}</a></>) : ''}</Fact>
        <Fact name="Memory">{j.memory_mb > 0 ? `${memory(j.memory_mb)}${j.gpus > 1 ? ' on each GPU' : ''}` : live ? 'learned, or a whole GPU' : ''}</Fact>
        <Fact name="Used at most">{j.peak_memory_mb ? memory(j.peak_memory_mb) : ''}</Fact>
        <Fact name="Load">{j.mean_utilization_percent === undefined ? '' : percent(j.mean_utilization_percent)}</Fact>
        <Fact name="Energy">{j.energy_joules === undefined ? '' : joules(j.energy_joules)}</Fact>
        <Fact name="Submitted"><Ago at={j.submitted} /></Fact>
        <Fact name="Began">{j.started ? <Ago at={j.started} /> : ''}</Fact>
        <Fact name={live ? 'Runs for' : 'Ran for'}>{j.started === undefined ? '' : live ? <For since={j.started} /> : duration(seconds(j))}</Fact>
        <Fact name="Ended">{j.ended ? <Ago at={j.ended} /> : ''}</Fact>
        <Fact name="Time limit">{j.time_limit_seconds ? duration(j.time_limit_seconds) : ''}</Fact>
        <Fact name="Exit code">{j.exit_code === undefined ? '' : String(j.exit_code)}</Fact>
        <Fact name="Tries">{(j.try ?? 0) > 1 ? String(j.try) : ''}</Fact>
        <Fact name="Priority">{j.priority === 0 ? '' : String(j.priority)}</Fact>
        <Fact name="Waits for" wide>{[...(j.after ?? []), ...(j.after_any ?? []), ...(j.after_failed ?? [])].join(', ')}</Fact>
        <Fact name="Parameters" wide>{j.params ? Object.entries(j.params).map(([k, v]) => `${k}=${v}`).join(', ') : ''}</Fact>
        <Fact name="Folder" wide>{j.directory}</Fact>
        <Fact name="Log" wide>{j.log}</Fact>
        <Fact name="Comment" wide>{j.comment}</Fact>
      </Facts>
      {j.tasks
        ? (
          <>
            <h3>{plural(j.tasks.total, 'task')}</h3>
            <Table
              label={`Tasks of ${j.id}`}
              columns={[
                { name: 'Task', sort: (t) => t.id, cell: (t) => <a href={to.row('jobs', t.id)}>{t.id}</a> },
                { name: 'State', sort: (t) => t.state, cell: (t) => <State j={t} /> },
                { name: 'Runs', numeric: true, sort: (t) => seconds(t) ?? 0, cell: (t) => duration(seconds(t)) },
                { name: 'Exit', numeric: true, sort: (t) => t.exit_code ?? -1, cell: (t) => t.exit_code ?? '–' },
              ]}
              rows={j.list ?? []}
              id={(t) => t.id}
              empty="Asking the daemon …"
            />
            {j.tasks.total > mostTasks && <p class="quiet">The first {mostTasks} are shown. <code>berth job {j.id}</code> lists all.</p>}
          </>
        )
        : j.command && (
          <>
            <h3>Log {live && j.started && <span class="live tone-good">live</span>}</h3>
            {j.started === undefined && live
              ? <p class="quiet">It has not begun. Its log comes here when it does.</p>
              : <Log where={path('api', 'jobs', j.id, 'log')} live={live} label={`Log of ${j.id}`} />}
          </>
        )}
      {!j.command && <p class="quiet">Its command, its folder and its log are shown to {j.user} and to operators.</p>}
    </Peek>
  );
}
