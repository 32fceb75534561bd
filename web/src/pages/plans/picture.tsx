import { useMemo } from 'preact/hooks';
import type { Plan, PlannedPipeline, PlannedStep } from '../../api/types';
import { deviceLabel } from '../../live/around';
import { sentence } from '../../live/attention';
import { draw, inWords, type Picture, sizes } from '../../plan/layout';
import { to } from '../../router';
import { Fact, Facts } from '../../ui/facts';
import { duration, memory, plural } from '../../ui/format';
import { Panel } from '../../ui/panel';
import { Table } from '../../ui/table';

// PlanView shows a plan: a picture for each pipeline, and where its runs go.
export function PlanView({ plan }: { plan: Plan }) {
  const used = plan.devices.filter((d) => d.runs > 0 || d.waiting > 0);
  return (
    <>
      <Panel title={plan.file || 'The plan'} note={`${plural(plan.pipelines.length, 'pipeline')}`}>
        <Facts>
          <Fact name="Side by side">{plural(plan.side_by_side, 'run')}</Fact>
          <Fact name="Waves">{String(plan.waves)}</Fact>
          <Fact name="Expected time">{plan.expected_seconds === undefined ? 'not known: a step was never measured' : duration(plan.expected_seconds)}</Fact>
        </Facts>
        {(plan.notes ?? []).map((n) => <p key={n} class="notice tone-info">{sentence(n)}</p>)}
      </Panel>
      {plan.pipelines.map((p) => <One key={p.name} p={p} />)}
      {plan.devices.length > 0 && (
        <Panel title="What goes where">
          <Table
            label="What the plan puts on each GPU"
            columns={[
              { name: 'GPU', cell: (d) => <a href={to.gpu(d.gpu)}>{deviceLabel(d.gpu)}</a> },
              { name: 'Name', hide: 'phone', cell: (d) => d.name },
              { name: 'Runs', numeric: true, cell: (d) => d.runs },
              { name: 'At once', numeric: true, cell: (d) => d.side_by_side },
              { name: 'Waves', numeric: true, hide: 'phone', cell: (d) => d.waves },
              { name: 'Waiting', numeric: true, hide: 'phone', cell: (d) => d.waiting },
              { name: 'Leased', numeric: true, cell: (d) => memory(d.memory_mb) },
            ]}
            rows={used.length > 0 ? used : plan.devices}
            id={(d) => d.gpu}
            empty=""
          />
        </Panel>
      )}
      {plan.table && <details class="panel"><summary>The plan as text</summary><pre class="plan-text" tabIndex={0}>{plan.table}</pre></details>}
    </>
  );
}

function One({ p }: { p: PlannedPipeline }) {
  const picture = useMemo(() => draw(p), [p]);
  const what = p.memory_mb > 0 ? `${memory(p.memory_mb)} each: ${memory(p.peak_mb)} at most in ${p.peak_step ?? 'its steps'}, and ${memory(p.context_mb)} for the CUDA context` : 'it needs no GPU';
  return (
    <Panel title={p.name} note={`${plural(p.runs.length, 'run')}, ${what}`}>
      <div class="picture-frame" tabIndex={0} role="group" aria-label={`Picture of the pipeline ${p.name}`}>
        <Drawing p={p} d={picture} />
      </div>
      <p class="legend">
        <span class="key key-zero">zero copy</span> <span class="key key-host">host copy</span>
        {picture.bars.length > 0 && <><span class="key key-bar">memory on the GPU</span> <span class="key key-held">kept for later steps</span> <span class="key key-limit">what a run leases</span></>}
      </p>
      {(p.unsatisfied ?? []).map((u) => <p key={u} class="notice tone-warn">{sentence(u)}</p>)}
      {(p.notes ?? []).map((n) => <p key={n} class="notice tone-info">{sentence(n)}</p>)}
      <Runs p={p} />
      <details>
        <summary>Its steps as a table</summary>
        <Table label={`Steps of ${p.name}`} columns={stepColumns} rows={p.steps} id={(s) => s.name} empty="" />
      </details>
    </Panel>
  );
}

const stepColumns = [
  { name: 'Step', cell: (s: PlannedStep) => s.name },
  { name: 'On', cell: (s: PlannedStep) => (s.on_gpu ? 'GPU' : 'CPU') },
  { name: 'Takes, gives', cell: (s: PlannedStep) => `${s.input} → ${s.output}` },
  { name: 'Converted', hide: 'phone' as const, cell: (s: PlannedStep) => (s.conversions ?? []).map((c) => `${c.from} of ${c.step} (${c.cost.replace('_', ' ')})`).join(', ') || '–' },
  { name: 'Memory', numeric: true, cell: (s: PlannedStep) => (s.memory_mb > 0 ? `${memory(s.memory_mb)}${s.memory_from ? `, ${s.memory_from === 'default' ? 'a guess' : s.memory_from}` : ''}` : '–') },
  { name: 'Peak', numeric: true, cell: (s: PlannedStep) => (s.peak_mb > 0 ? memory(s.peak_mb) : '–') },
];

function clip(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

function Drawing({ p, d }: { p: PlannedPipeline; d: Picture }) {
  return (
    <svg class="picture" width={d.width} height={d.height} viewBox={`0 0 ${d.width} ${d.height}`} role="img" aria-label={inWords(p)}>
      <defs>
        <marker id={`tip-${p.name}`} viewBox="0 0 8 8" refX="7" refY="4" markerUnits="userSpaceOnUse" markerWidth="9" markerHeight="9" orient="auto-start-reverse"><path class="tip" d="M0 0L8 4L0 8z" /></marker>
      </defs>
      {d.lanes.gpu !== undefined && <text class="lane" x={4} y={d.lanes.gpu + 4}>GPU</text>}
      {d.lanes.cpu !== undefined && <text class="lane" x={4} y={d.lanes.cpu + 4}>CPU</text>}
      {d.arrows.map((a) => (
        <g key={`${a.from}>${a.to}`}>
          <path class={`arrow ${a.conversion ? a.conversion.cost : 'same'}`} d={a.path} marker-end={`url(#tip-${p.name})`}>
            <title>{a.conversion ? `${a.from} to ${a.to}: ${a.conversion.from} becomes ${a.conversion.to}, ${a.conversion.cost === 'zero_copy' ? 'nothing is copied' : 'copied through host memory'}` : `${a.from} to ${a.to}`}</title>
          </path>
        </g>
      ))}
      {d.boxes.map((b) => (
        <g key={b.step.name}>
          <rect class={b.step.on_gpu ? 'step on-gpu' : 'step on-cpu'} x={b.x} y={b.y} width={b.width} height={b.height} rx={6} />
          <text class="step-name" x={b.x + 10} y={b.y + 21}>{clip(b.step.name, 16)}</text>
          <text class="step-type" x={b.x + 10} y={b.y + 39}>{clip(b.step.input === b.step.output ? b.step.input : `${b.step.input} → ${b.step.output}`, 19)}</text>
          <title>{`${b.step.name}: takes ${b.step.input}, gives ${b.step.output}, on the ${b.step.on_gpu ? 'GPU' : 'CPU'}`}</title>
        </g>
      ))}
      {d.base !== undefined && (
        <>
          <line class="ground" x1={sizes.left - 8} y1={d.base} x2={d.width - 4} y2={d.base} />
          {d.bars.map((b) => (
            <g key={b.step.name}>
              <rect class={b.peak ? 'bar peak' : 'bar'} x={b.x} y={b.y} width={b.width} height={b.height} />
              {b.held > 0 && <rect class="held" x={b.x} y={b.y} width={b.width} height={b.held} />}
              <text class="bar-text" x={b.x + b.width / 2} y={d.base! + 15}>{b.step.peak_mb > 0 ? memory(b.step.peak_mb) : '–'}</text>
              <title>{`${memory(b.step.peak_mb)} on the GPU while ${b.step.name} runs${b.step.held_mb > 0 ? `, ${memory(b.step.held_mb)} of it kept for later steps` : ''}`}</title>
            </g>
          ))}
          {d.limit !== undefined && p.memory_mb > 0 && (
            <>
              <line class="limit" x1={sizes.left - 8} y1={d.limit} x2={d.width - 4} y2={d.limit} />
              <text class="lane" x={4} y={d.limit + 4}>{memory(p.memory_mb)}</text>
            </>
          )}
        </>
      )}
    </svg>
  );
}

const mostRuns = 400;

// Runs shows the runs of a pipeline as squares, one row for each device, one column
// for each wave.
function Runs({ p }: { p: PlannedPipeline }) {
  const placed = p.runs.filter((r) => r.gpu);
  if (placed.length === 0) return null;
  const devices = [...new Map(placed.map((r) => [r.gpu!, r.index ?? 0])).entries()].sort((a, b) => a[1] - b[1]);
  const waits = p.runs.filter((r) => r.waits).length;
  return (
    <div class="runs">
      {devices.map(([gpu]) => {
        const here = placed.filter((r) => r.gpu === gpu);
        return (
          <div key={gpu} class="runs-row">
            <a href={to.gpu(gpu)}>{deviceLabel(gpu)}</a>
            <span class="squares" role="img" aria-label={`${plural(here.length, 'run')} on ${deviceLabel(gpu)}, in ${plural(Math.max(...here.map((r) => r.wave ?? 0)), 'wave')}`}>
              {here.slice(0, mostRuns).map((r) => (
                <span key={r.name} class={r.waits ? 'square waits' : (r.wave ?? 0) % 2 === 1 ? 'square odd' : 'square even'} title={`${r.name}: ${r.waits ?? `wave ${r.wave}`}`} />
              ))}
            </span>
            <span class="quiet">{plural(here.length, 'run')}</span>
          </div>
        );
      })}
      {waits > 0 && <p class="quiet">{plural(waits, 'run')} {waits === 1 ? 'waits' : 'wait'} until another lease ends.</p>}
    </div>
  );
}
