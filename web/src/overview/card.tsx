import { useComputed } from '@preact/signals';
import { memo } from 'preact/compat';
import { useMemo } from 'preact/hooks';
import type { Sample, Status } from '../api/types';
import type { Curve } from '../live/history';
import { useStable } from '../live/hooks';
import { available, device, leasesOn, settings } from '../live/state';
import { thresholds } from '../live/thresholds';
import { to } from '../router';
import { StateBadge } from '../ui/badge';
import { celsius, memory, percent, shortName, watts } from '../ui/format';
import { MemoryStack } from '../ui/memory';
import { type Mark, pointed, Spark, valueAt } from '../ui/spark';
import { stack } from '../ui/stack';
import { Berths } from './berths';
import { Notes } from './notes';

// Card shows one device: its curves, its memory and who holds it. What changes every
// second is text and canvas; the rest is drawn again only when it says something new.
export const Card = memo(function Card({ uuid, filter }: { uuid: string; filter: string }) {
  const head = useStable(() => {
    const s = device(uuid).value;
    return s && { index: s.device.index, name: s.device.name, state: s.state, reason: s.reason };
  });
  if (head === undefined) return null;
  const id = `gpu-${head.index}`;
  return (
    <article class={`card state-${head.state.toLowerCase()}`} aria-labelledby={id}>
      <header class="card-head">
        <h3 id={id}><a href={to.gpu(uuid)}>GPU {head.index}</a></h3>
        <span class="card-name" title={head.name}>{shortName(head.name)}</span>
        <StateBadge state={head.state} title={head.reason} />
      </header>
      <Notes uuid={uuid} />
      <Curves uuid={uuid} />
      <Memory uuid={uuid} />
      <Berths uuid={uuid} filter={filter} />
    </article>
  );
});

const figures: { name: string; curve: Curve; tone: 'load' | 'heat' | 'power'; text: (v: number | undefined) => string; read: (s: Sample) => number | undefined }[] = [
  { name: 'Load', curve: 'load', tone: 'load', text: percent, read: (s) => s.utilization_percent },
  { name: 'Heat', curve: 'temperature', tone: 'heat', text: celsius, read: (s) => s.temperature_celsius },
  { name: 'Power', curve: 'power', tone: 'power', text: watts, read: (s) => s.power_watts },
];

function Curves({ uuid }: { uuid: string }) {
  const scale = useStable(() => {
    const s = device(uuid).value;
    if (s === undefined) return undefined;
    const limit = thresholds(settings.value, uuid, s.device.index);
    return { limit, watts: s.device.power_limit_watts, shutdown: s.device.temp_shutdown_celsius };
  });
  const axes = useMemo(() => {
    const t = scale?.limit;
    const heat: Mark[] = t ? [{ at: t.throttle, tone: 'warn' }, { at: t.critical, tone: 'bad' }] : [];
    const power: Mark[] = scale?.watts ? [{ at: scale.watts, tone: 'quiet' }] : [];
    return {
      load: { top: 100, bottom: 0, marks: undefined },
      heat: { top: Math.max((t?.critical ?? 90) + 6, 80), bottom: 25, marks: heat },
      power: { top: (scale?.watts ?? 400) * 1.04, bottom: 0, marks: power },
    };
  }, [scale]);
  return (
    <div class="curves">
      {figures.map((f) => (
        <div key={f.name} class={`curve curve-${f.tone}`}>
          <span class="curve-name">{f.name}</span>
          <Value uuid={uuid} figure={f} />
          <Spark uuid={uuid} curve={f.curve} tone={f.tone} {...axes[f.tone]} />
        </div>
      ))}
    </div>
  );
}

// Value shows the present figure, or that of the moment that somebody points at.
function Value({ uuid, figure: f }: { uuid: string; figure: (typeof figures)[number] }) {
  const text = useComputed(() => {
    const s = device(uuid).value;
    const before = pointed.value;
    if (before !== undefined) return f.text(valueAt(uuid, f.curve, before));
    return s?.sample === undefined || dead(s) ? '–' : f.text(f.read(s.sample));
  });
  return <span class="curve-value">{text}</span>;
}

// dead reports whether a device says nothing, so that its last figures mean nothing.
function dead(s: Status): boolean {
  return s.state === 'UNAVAILABLE' || s.stale === true;
}

function Memory({ uuid }: { uuid: string }) {
  const total = useStable(() => device(uuid).value?.device.memory_total_mb ?? 0);
  const leases = leasesOn(uuid).value;
  const room = available.value.get(uuid);
  const it = useMemo(() => stack(uuid, total, leases, room), [uuid, total, leases, room]);
  const used = useComputed(() => {
    const s = device(uuid).value;
    return s?.sample === undefined || dead(s) ? '–' : memory(s.sample.memory_used_mb);
  });
  return (
    <div class="card-memory">
      <div class="memory-line">
        <span class="curve-name">Memory</span>
        <span><b>{used}</b> <span class="quiet">of {memory(it.total)}<span class="in-use"> in use</span></span></span>
        <span class="quiet end">{memory(it.leased)} leased</span>
      </div>
      <MemoryStack stack={it} />
    </div>
  );
}
