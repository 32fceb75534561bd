import type { ComponentChildren } from 'preact';
import type { Batch, Batches, BatchGPU } from '../api/types';
import { quantile } from '../batches/latency';
import { deviceLabel, deviceLabels } from '../live/around';
import { now } from '../live/state';
import { to } from '../router';
import { Badge, type Tone } from '../ui/badge';
import { Fact, Facts } from '../ui/facts';
import { count, duration, joules, percent, plural, thin } from '../ui/format';
import { type Column, Table } from '../ui/table';
import { Meter } from '../ui/meter';
import { Ago, For } from '../ui/time';
import { iso, Peek, type Subject, useAsked, whole } from './subject';

const tones: Record<Batch['stage'], Tone> = { open: 'info', running: 'good', finishing: 'info', done: 'calm', stopped: 'warn', failed: 'bad' };

function perSecond(rate: number | undefined): string {
  if (rate === undefined) return '–';
  if (rate >= 10 || rate === 0) return `${count(Math.round(rate))}${thin}/s`;
  if (rate >= 0.1) return `${rate.toFixed(1)}${thin}/s`;
  return `${(rate * 60).toFixed(1)}${thin}/min`;
}

function basename(b: Batch): string {
  return b.output || `a batch of ${b.user ?? 'another user'}`;
}

const over = (b: Batch) => b.stage === 'done' || b.stage === 'stopped' || b.stage === 'failed';

function share(b: Batch): number | undefined {
  return b.total === undefined || b.total === 0 ? undefined : Math.min(1, b.done / b.total);
}

// lasted is how long a batch took, in seconds, or has run.
function lasted(b: Batch): number | undefined {
  if (b.started === undefined) return undefined;
  return ((over(b) && b.reported ? Date.parse(b.reported) : now.peek()) - Date.parse(b.started)) / 1000;
}

export const batches: Subject<Batch> = {
  title: 'Batches',
  one: 'batch',
  id: (b) => `${b.user ?? ''}/${b.id}`,
  useRows: () => useAsked(async (signal) => (await whole<Batches, Batch>('/api/batches', (a) => a.batches, { signal, query: { ended: true } })).reverse(), 1000, (b) => `${b.user ?? ''}/${b.id}`),
  fields: [
    { key: 'output', name: 'Batch', value: basename },
    { key: 'stage', name: 'Stage', width: 7, choose: true, phone: 'side', value: (b) => b.stage, cell: (b) => <Badge tone={tones[b.stage] ?? 'info'}>{b.stage}</Badge> },
    {
      key: 'percent', name: 'Progress', width: 11, value: (b) => { const s = share(b); return s === undefined ? undefined : Math.floor(s * 100); },
      cell: (b) => {
        const s = share(b);
        return s === undefined ? undefined : <span class="with-meter"><Meter label={`Progress of ${basename(b)}`} value={s} most={1} tone={b.failed > 0 ? 'warn' : 'memory'} text={percent(Math.floor(s * 100))} />{percent(Math.floor(s * 100))}</span>;
      },
    },
    { key: 'done', name: 'Records', width: 7, numeric: true, phone: 'below', value: (b) => b.done, cell: (b) => <>{count(b.done)}<span class="phone-word"> records</span></> },
    { key: 'failed', name: 'Failed', width: 5.5, numeric: true, value: (b) => b.failed, cell: (b) => (b.failed > 0 ? <span class="text-bad">{count(b.failed)}</span> : undefined) },
    { key: 'records_per_second', name: 'Rate', width: 6, numeric: true, value: (b) => b.records_per_second, cell: (b) => (over(b) ? undefined : perSecond(b.records_per_second)) },
    { key: 'seconds_left', name: 'Left', width: 7, numeric: true, phone: 'below', value: (b) => (b.stage === 'running' ? b.seconds_left : undefined), cell: (b) => (b.stage === 'running' && b.seconds_left !== undefined ? <>{duration(b.seconds_left)}<span class="phone-word"> left</span></> : undefined) },
    { key: 'user', name: 'User', width: 8, choose: true, value: (b) => b.user ?? 'another user' },
    { key: 'gpu', name: 'GPU', width: 8, value: (b) => deviceLabels(b.gpus.map((g) => g.gpu)) || undefined },
    { key: 'started', name: 'Started', width: 7, numeric: true, value: (b) => iso(b.started), cell: (b) => (b.started ? <Ago at={b.started} /> : undefined) },
    { key: 'seconds', name: 'Took', width: 7, numeric: true, off: true, value: lasted, cell: (b) => duration(lasted(b)) },
    { key: 'total', name: 'Of', width: 7, numeric: true, off: true, value: (b) => b.total, cell: (b) => (b.total === undefined ? undefined : count(b.total)) },
    { key: 'workers', name: 'Workers', width: 6, numeric: true, off: true, value: (b) => b.workers },
    { key: 'retries', name: 'Tried again', width: 7, numeric: true, off: true, value: (b) => b.retries },
    { key: 'energy_joules', name: 'Energy', width: 6, numeric: true, off: true, value: (b) => b.energy_joules, cell: (b) => (b.energy_joules === undefined ? undefined : joules(b.energy_joules)) },
    { key: 'error', name: 'Error', width: 18, off: true, value: (b) => b.error },
    { key: 'command', name: 'Command', width: 18, off: true, value: (b) => b.command },
  ],
  Detail: ({ id, row }) => (row === undefined ? <Peek title={id}><p class="empty">berth knows of no such batch.</p></Peek> : <One b={row} />),
  empty: {
    title: 'No batches',
    shows: 'A batch pushes records through workers on every GPU. Here is how far each is, how fast, and what failed, also of those that have ended since the daemon began.',
    first: 'berth run --input in.jsonl --output out.jsonl -- python worker.py',
    topic: 'batch',
  },
};

function One({ b }: { b: Batch }) {
  const part = share(b);
  const failed = b.total ? Math.min(1, b.failed / b.total) : 0;
  const of = b.total === undefined ? '' : ` of ${b.total_exact ? '' : 'about '}${count(b.total)}`;
  return (
    <section class="batch" data-batch={b.id}>
      <header class="peek-head">
        <h2 class="file-name">{b.output || `a batch of ${b.user ?? 'another user'}`}</h2>
        <p class="state-line"><Badge tone={tones[b.stage] ?? 'info'}>{b.stage}</Badge> <span class="quiet">{b.user ?? 'another user'}{b.started ? <>, {since(b)}</> : ''}</span></p>
      </header>
      <div class="progress-row">
        <div
          class="progress" role="progressbar" aria-label={`Progress of ${b.output || b.id}`} aria-valuemin={0} aria-valuemax={100}
          aria-valuenow={part === undefined ? undefined : Math.floor(part * 100)}
          aria-valuetext={`${count(b.done)}${of} records`}
        >
          <span class="progress-fill" style={{ width: `${Math.max(0, (part ?? 0) - failed) * 100}%` }} />
          <span class="progress-failed" style={{ width: `${failed * 100}%` }} />
        </div>
        <strong class="number">{part === undefined ? '' : percent(Math.floor(part * 100))}</strong>
      </div>
      <p class="batch-line">
        <strong>{count(b.done)}</strong>{of} records
        {' · '}{perSecond(b.records_per_second)}
        {b.seconds_left !== undefined && b.stage === 'running' && <> · <strong>{duration(b.seconds_left)}</strong> left</>}
        {b.failed > 0 && <> · <span class="text-bad">{count(b.failed)} failed</span></>}
      </p>
      {b.error && <p class="notice tone-bad">{b.error}</p>}
      <Table label={`GPUs of ${b.output || b.id}`} columns={columns} rows={b.gpus} id={(g) => g.gpu} empty="No GPU works on it." />
      <Facts>
        <Fact name="Workers">{String(b.workers)}</Fact>
        <Fact name="Done before">{b.done_before > 0 ? count(b.done_before) : ''}</Fact>
        <Fact name="Tried again">{b.retries > 0 ? plural(b.retries, 'record') : ''}</Fact>
        <Fact name="Broke workers">{b.marked > 0 ? plural(b.marked, 'record') : ''}</Fact>
        <Fact name="Workers started again">{b.restarts > 0 ? count(b.restarts) : ''}</Fact>
        <Fact name="Energy">{b.energy_joules === undefined ? '' : joules(b.energy_joules)}</Fact>
        <Fact name="Command" wide>{b.command ? <code>{b.command}</code> : ''}</Fact>
      </Facts>
    </section>
  );
}

// since says how long a batch has run, or took.
function since(b: Batch): ComponentChildren {
  if (b.stage === 'open' || b.stage === 'running' || b.stage === 'finishing' || b.reported === undefined) return <>for <For since={b.started} /></>;
  return `took ${duration((Date.parse(b.reported) - Date.parse(b.started ?? b.reported)) / 1000)}`;
}

const columns: Column<BatchGPU>[] = [
  { name: 'GPU', sort: (g) => g.index, cell: (g) => <a href={to.gpu(g.gpu)}>{deviceLabel(g.gpu)}</a> },
  { name: 'Workers', numeric: true, sort: (g) => g.ready, cell: (g) => (g.given_up ? <Badge tone="bad">given up</Badge> : `${g.ready} of ${g.workers}`) },
  { name: 'Done', numeric: true, sort: (g) => g.done, cell: (g) => count(g.done) },
  { name: 'Rate', numeric: true, sort: (g) => g.records_per_second ?? 0, cell: (g) => perSecond(g.records_per_second) },
  { name: 'A record takes', numeric: true, hide: 'phone', sort: (g) => quantile(g.latency, 0.5) ?? 0, cell: (g) => {
    const half = quantile(g.latency, 0.5);
    return half === undefined ? '–' : `${seconds(half)}, at most ${seconds(quantile(g.latency, 0.95) ?? half)} for 95 %`;
  } },
  { name: 'Speed', numeric: true, hide: 'phone', sort: (g) => g.multiplier, cell: (g) => percent(g.multiplier * 100) },
  { name: 'Failed', numeric: true, hide: 'phone', sort: (g) => g.failed, cell: (g) => count(g.failed) },
];

function seconds(s: number): string {
  return s < 1 ? `${Math.round(s * 1000)}${thin}ms` : `${s.toFixed(s < 10 ? 1 : 0)}${thin}s`;
}
