import { call, path } from '../api/client';
import type { Job, JobRequest, Measurements } from '../api/schemas';
import { to } from '../router';
import { ago, duration, memory, plural, quoted } from '../ui/format';
import type { Act } from './act';
import type { Around } from './leases';
import { atLeast, cannotRun, mayOperate, ownsName } from './rights';

export const ended: ReadonlySet<Job['state']> = new Set(['done', 'failed', 'cancelled', 'timed_out', 'lost']);

// jobActs lists what the caller may do to a job or a task, in the state that it is in.
export function jobActs(j: Job, a: Around): Act[] {
  const own = ownsName(a.me, j.user);
  if (!mayOperate(a.me) && !(own && atLeast(a.me, 'user'))) return [];
  const acts: Act[] = [];
  const waits = j.state === 'waiting' || (j.tasks?.waiting ?? 0) > 0;
  const holds = j.state === 'held' || (j.tasks?.held ?? 0) > 0;
  if (holds) acts.push(unhold(j, a));
  if (waits) acts.push(hold(j, a));
  if (waits || holds) acts.push(prioritize(j, a));
  if (own && ended.has(j.state)) acts.push(redo(j, a));
  if (!ended.has(j.state)) acts.push(cancel(j, a));
  return acts;
}

function whose(j: Job, a: Around): string {
  return ownsName(a.me, j.user) ? `your job ${j.id}` : `the job ${j.id} of ${j.user}`;
}

function audited(j: Job, a: Around): string[] {
  return ownsName(a.me, j.user) ? [] : ['It is not yours: the audit log keeps that you did it.'];
}

const reason = { name: 'reason', label: 'Reason', kind: 'text', value: '', maxLength: 256, hint: 'What its user and operators read about it.' } as const;

const change = (j: Job, what: string, body?: unknown) => call<Job>(path('api', 'jobs', j.id, what), { method: 'POST', body: body ?? {} });

function running(j: Job): number {
  return j.tasks?.running ?? (ended.has(j.state) || j.state === 'waiting' || j.state === 'held' ? 0 : 1);
}

function cancel(j: Job, a: Around): Act {
  const n = running(j);
  const waits = (j.tasks?.waiting ?? 0) + (j.tasks?.held ?? 0);
  const programs = n === 0
    ? 'It has not begun, so no program ends.'
    : `${j.tasks ? `${plural(n, 'task')} of it ${n === 1 ? 'runs' : 'run'}` : 'It runs'}${j.command ? `: ${quoted(j.command).slice(0, 120)}` : ''}. Its programs are asked to end, and what still runs after optimization.deallocation_timeout is killed. What they have not saved is lost.`;
  return {
    key: 'cancel-job', label: n > 0 ? 'Cancel and end its programs' : 'Cancel', title: `Cancel ${j.id}?`, confirm: n > 0 ? 'End its programs' : 'Cancel the job', dismiss: n > 0 ? 'Let it run' : 'Let it wait', ends: true,
    says: [`This ends ${whose(j, a)} for good.`, programs, ...(j.tasks && waits > 0 ? [`${plural(waits, 'task')} that ${waits === 1 ? 'waits' : 'wait'} never begin${waits === 1 ? 's' : ''}.`] : []), ...audited(j, a)],
    fields: [reason],
    run: async (v) => {
      await change(j, 'cancel', { reason: v.reason || undefined });
      return { text: n > 0 ? `${j.id} ends, with its programs.` : `${j.id} is cancelled. It never began.` };
    },
  };
}

function hold(j: Job, a: Around): Act {
  return {
    key: 'hold-job', label: 'Hold', title: `Hold ${j.id}?`, confirm: 'Hold',
    says: [`This keeps ${whose(j, a)} from beginning until somebody lets it go. It then queues anew, from the moment when it is let go.`, running(j) > 0 ? 'Tasks that run go on. No program is stopped.' : 'It has not begun, so no program is stopped.', ...audited(j, a)],
    fields: [reason],
    run: async (v) => {
      await change(j, 'hold', { reason: v.reason || undefined });
      return { text: `${j.id} is held: it does not begin.`, ...(cannotRun(a.me, a.settings) === '' ? { undo: { ...unhold(j, a), label: 'Undo' } } : {}) };
    },
  };
}

function unhold(j: Job, a: Around): Act {
  const not = cannotRun(a.me, a.settings);
  return {
    key: 'unhold-job', label: 'Let it go', title: `Let ${j.id} begin?`, confirm: 'Let it go', ...(not === '' ? {} : { not }),
    says: [`This lets ${whose(j, a)} begin at its turn, as soon as there is room.`, 'No program is stopped.', ...audited(j, a)],
    run: async () => {
      await change(j, 'unhold');
      return { text: `${j.id} begins at its turn.` };
    },
  };
}

function redo(j: Job, a: Around): Act {
  const not = cannotRun(a.me, a.settings);
  const bad = (j.tasks?.failed ?? 0) + (j.tasks?.timed_out ?? 0) + (j.tasks?.lost ?? 0) + (j.tasks?.cancelled ?? 0);
  return {
    key: 'redo-job', label: 'Redo', title: `Submit ${j.id} again?`, confirm: 'Submit again', ...(not === '' ? {} : { not }),
    says: ['This submits a new job with the command, the folder, the environment and the lease of this one. It waits for no other job, and begins when there is room.', `${j.id} stays as it is, with its log. Nobody's programs are stopped.`],
    ...(bad > 0 ? { fields: [{ name: 'failed', label: 'Only the bad ones', kind: 'check' as const, value: 'yes', hint: `${plural(bad, 'task')} of ${j.tasks?.total} did not end well.` }] } : {}),
    run: async (v) => {
      const again = await change(j, 'redo', { failed: v.failed ? true : undefined });
      return { text: `${again.id} is submitted.`, link: { href: to.row('jobs', again.id), label: `Show ${again.id}` } };
    },
  };
}

function prioritize(j: Job, a: Around): Act {
  const operates = mayOperate(a.me);
  return {
    key: 'priority-job', label: 'Priority', title: `Priority of ${j.id}?`, confirm: 'Set the priority',
    says: [`Jobs with a higher priority begin before ${whose(j, a)}. It is ${j.priority} now. No program is stopped.`, ...audited(j, a)],
    fields: [{ name: 'priority', label: 'Priority', kind: 'number', value: String(j.priority), step: 1, min: -1000000, max: operates ? 1000000 : j.priority, required: true, hint: operates ? 'The highest goes first.' : 'You can lower it; operators raise it.' }],
    run: async (v) => {
      await change(j, 'priority', { priority: Math.round(Number(v.priority)) });
      return { text: `${j.id} has the priority ${Math.round(Number(v.priority))}.` };
    },
  };
}

// request makes a job of what was filled in. sh reads the command, as a terminal would.
function request(v: Record<string, string>): JobRequest {
  return {
    command: ['/bin/sh', '-c', (v.command ?? '').trim()],
    name: v.name?.trim() || undefined,
    directory: v.directory?.trim() || undefined,
    hold: v.hold ? true : undefined,
    lease: {
      memory_mb: v.memory ? Math.round(Number(v.memory) * 1024) : undefined,
      gpus: v.gpus && Number(v.gpus) > 1 ? Number(v.gpus) : undefined,
      time_limit_seconds: v.time ? Math.round(Number(v.time) * 60) : undefined,
    },
  };
}

// learned says what earlier runs of a name used, and how much the next one gets, in MiB; 0:
// nothing was learned.
async function learned(name: string, me: string | undefined): Promise<{ text: string; next: number }> {
  if (name === '') return { text: 'Without a name, nothing is learned from earlier runs.', next: 0 };
  const { measurements } = await call<Measurements>('/api/measurements', { query: { name, user: me } });
  const m = measurements.find((it) => it.step === undefined);
  if (m === undefined || m.runs === 0) return { text: `Nothing is known of ${name} yet.`, next: 0 };
  const used = m.peak_mb > 0 ? `It used ${memory(m.peak_mb)} at most` : 'It was not seen on a GPU';
  return { text: `${plural(m.runs, 'run')} of ${name} so far. ${used}, and took ${duration(m.seconds)} on average.`, next: m.next_mb };
}

// submit asks for a new job.
export function submit(a: Around): Act {
  const not = cannotRun(a.me, a.settings);
  return {
    key: 'submit', label: 'Submit a job', title: 'Submit a job', confirm: 'Submit', ...(not === '' ? {} : { not }),
    says: [`berth runs the command as ${a.me?.user ?? 'you'} when there is room for it, and goes on if you leave this page. Its output goes to a file in its folder. Nobody's programs are stopped for it.`],
    fields: [
      { name: 'command', label: 'Command', kind: 'lines', value: '', required: true, placeholder: 'python3 train.py --epochs 10', hint: 'sh runs it, as you would type it.' },
      { name: 'name', label: 'Name', kind: 'text', value: '', maxLength: 64, placeholder: 'train', hint: 'The id begins with it, everybody can read it, and berth remembers under it what runs use.' },
      { name: 'memory', label: 'Memory', kind: 'number', value: '', unit: 'GiB', min: 0.001, max: 1048576, hint: 'On each GPU. Empty: what earlier runs of the name used, else a whole GPU.' },
      { name: 'gpus', label: 'GPUs', kind: 'number', value: '1', min: 1, max: 1024, step: 1 },
      { name: 'time', label: 'Time limit', kind: 'number', value: '', unit: 'minutes', min: 1, max: 525600, hint: 'Its programs end then. Empty: none, or that of your limits.' },
      { name: 'directory', label: 'Folder', kind: 'text', value: '', maxLength: 4096, hint: 'A whole path. Empty: your home.' },
      { name: 'hold', label: 'Hold it', kind: 'check', value: '', hint: 'It begins only when somebody lets it go.' },
    ],
    preview: async (v) => {
      const [known, would] = await Promise.all([
        v.memory ? { text: '', next: 0 } : learned((v.name ?? '').trim(), a.me?.user).catch(() => ({ text: '', next: 0 })),
        call<Job>('/api/jobs', { method: 'POST', body: { ...request(v), dry_run: true } }),
      ]);
      const e = would.estimate;
      const starts = e?.likely ? `It would begin ${ago(e.likely, Date.now()) === 'now' ? 'now' : `probably ${ago(e.likely, Date.now())}`}${e.late && e.late > e.likely ? `, nine times of ten before ${ago(e.late, Date.now()).replace(/^in /, '')} are over` : ''}.` : e?.unknown ? `When it would begin is not known: ${e.unknown}.` : '';
      const size = would.memory_mb || known.next;
      const gets = size > 0 ? `${memory(size)} on ${plural(would.gpus, 'GPU')}` : a.settings?.plain === 'slot' ? `a slot on ${plural(would.gpus, 'GPU')}` : plural(would.gpus, 'whole GPU');
      return [known.text, `It would get ${gets}. ${starts}`].filter((x) => x !== '');
    },
    run: async (v) => {
      const job = await call<Job>('/api/jobs', { method: 'POST', body: request(v) });
      return { text: `${job.id} is submitted${job.state === 'held' ? ', and is held' : ''}.`, link: { href: to.row('jobs', job.id), label: `Show ${job.id} and its log` } };
    },
  };
}
