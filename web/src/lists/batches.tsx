import type { ComponentChildren } from 'preact';
import { api } from '../api/client';
import type { Batch, BatchGPU } from '../api/types';
import { quantile } from '../batches/latency';
import { deviceLabel } from '../live/around';
import { usePolled } from '../live/poll';
import { to } from '../router';
import { Badge, type Tone } from '../ui/badge';
import { Fact, Facts } from '../ui/facts';
import { count, duration, joules, percent, plural, thin } from '../ui/format';
import { type Column, Table } from '../ui/table';
import { For } from '../ui/time';
import '../style/views.css';

const tones: Record<Batch['stage'], Tone> = { open: 'info', running: 'good', finishing: 'info', done: 'calm', stopped: 'warn', failed: 'bad' };

export function perSecond(rate: number | undefined): string {
  if (rate === undefined) return '–';
  if (rate >= 10 || rate === 0) return `${count(Math.round(rate))}${thin}/s`;
  if (rate >= 0.1) return `${rate.toFixed(1)}${thin}/s`;
  return `${(rate * 60).toFixed(1)}${thin}/min`;
}

// BatchesPage shows how far each batch has got.
export function BatchesPage() {
  const { data, error } = usePolled((signal) => api.batches({ signal }), 1000, []);
  const list = data === undefined ? undefined : [...data.batches].reverse();
  return (
    <article class="view">
      <header class="view-head"><h1>Batches</h1></header>
      {error && <p class="notice tone-warn" role="status">{error.message}</p>}
      {list === undefined
        ? !error && <p class="empty">Asking the daemon …</p>
        : list.length === 0
          ? <div class="panel"><p class="empty">No batch runs. <code>berth run</code> pushes records through workers on every GPU, and shows up here while it does.</p></div>
          : list.map((b) => <One key={`${b.user ?? ''}/${b.id}`} b={b} />)}
    </article>
  );
}

function One({ b }: { b: Batch }) {
  const share = b.total === undefined || b.total === 0 ? undefined : Math.min(1, b.done / b.total);
  const failed = b.total ? Math.min(1, b.failed / b.total) : 0;
  const of = b.total === undefined ? '' : ` of ${b.total_exact ? '' : 'about '}${count(b.total)}`;
  return (
    <section class="panel batch" data-batch={b.id}>
      <header class="panel-head">
        <h2 class="file-name">{b.output || `a batch of ${b.user ?? 'another user'}`}</h2>
        <Badge tone={tones[b.stage] ?? 'info'}>{b.stage}</Badge>
        <p class="quiet">{b.user ?? 'another user'}{b.started ? <>, {since(b)}</> : ''}</p>
      </header>
      <div class="progress-row">
        <div
          class="progress" role="progressbar" aria-label={`Progress of ${b.output || b.id}`} aria-valuemin={0} aria-valuemax={100}
          aria-valuenow={share === undefined ? undefined : Math.floor(share * 100)}
          aria-valuetext={`${count(b.done)}${of} records`}
        >
          <span class="progress-fill" style={{ width: `${Math.max(0, (share ?? 0) - failed) * 100}%` }} />
          <span class="progress-failed" style={{ width: `${failed * 100}%` }} />
        </div>
        <strong class="number">{share === undefined ? '' : percent(Math.floor(share * 100))}</strong>
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
