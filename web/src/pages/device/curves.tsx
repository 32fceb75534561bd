import { useComputed } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { grown, type Past } from '../../history/device';
import { summed } from '../../history/ranges';
import { type Banded, type Column, empty, type Layer, summary } from '../../history/series';
import type { Device } from '../../api/types';
import { drawnOf, historyOf, settings } from '../../live/state';
import { thresholds } from '../../live/thresholds';
import { Chart, type Line, type Threshold } from '../../ui/chart';
import { celsius, memory, percent, thin, watts } from '../../ui/format';
import { Layers, type LayerLook } from '../../ui/layers';
import { Strip } from '../../ui/strip';

const mhz = (v: number) => `${Math.round(v)}${thin}MHz`;

const reasonWords: Record<string, string> = {
  power_cap: 'power limit', thermal: 'heat', thermal_hardware: 'heat (hardware)', power_brake: 'power brake',
  hardware_slowdown: 'hardware slowdown', application_clocks: 'application clocks', display_clocks: 'display clocks', sync_boost: 'sync boost',
};
const reasonTones: Record<string, string> = { power_cap: 'power', thermal: 'warn', thermal_hardware: 'bad', power_brake: 'bad', hardware_slowdown: 'bad' };
const stateTones: Record<string, string> = { OPTIMAL: 'good', NORMAL: 'calm', THROTTLED: 'warn', CRITICAL: 'bad', UNAVAILABLE: 'off' };

// Curves draws the past of a device. Short ranges grow by live samples.
export function Curves({ past, device: d, onZoom }: { past: Past; device: Device; onZoom: (from: number, to: number) => void }) {
  const uuid = d.uuid;
  // A chart is drawn again when there is a new point on it.
  const moved = useComputed(() => {
    drawnOf(uuid).value;
    if (summed(past.range)) return 0;
    const { times } = historyOf(uuid);
    return Math.floor((times[times.length - 1] ?? 0) / past.range.step);
  }).value;
  const p = useMemo(() => grown(past, historyOf(uuid)), [past, moved]);
  const limits = thresholds(settings.value, uuid, d.index);
  const from = p.times[0] ?? 0;
  const to = (p.times[p.times.length - 1] ?? 1) + (summed(p.range) ? 0 : p.range.step);
  const nothing = empty(p.figures.load.value) && empty(p.figures.heat.value) && empty(p.figures.memory.value);
  const memoryStack = useMemo(() => stack(p), [p]);
  if (nothing) return <p class="empty">berth has nothing of this GPU from the {p.range.words} yet.</p>;
  const marks: Threshold[] = limits === undefined ? [] : [
    { at: limits.throttle, label: 'throttle', tone: 'warn' },
    { at: limits.critical, label: 'critical', tone: 'bad' },
  ];
  const limit = lastOf(p.figures.powerLimit.value) ?? d.power_limit_watts;
  return (
    <div class="plots" data-points={p.times.length} data-range={p.range.key}>
      <One title="Load" times={p.times} unit={percent} range={[0, 100]} onZoom={onZoom} words={p.range.words}
        curves={[{ label: 'load', tone: 'load', data: p.figures.load }, { label: 'memory busy', tone: 'quiet', data: p.figures.busy }]} />
      <One title="Temperature" times={p.times} unit={celsius} range={[null, null]} thresholds={marks} onZoom={onZoom} words={p.range.words}
        curves={[{ label: 'chip', tone: 'heat', data: p.figures.heat }, { label: 'memory', tone: 'quiet', data: p.figures.memoryHeat }]} />
      <One title="Power" times={p.times} unit={watts} range={[0, null]} thresholds={limit === undefined ? [] : [{ at: limit, label: `limit ${watts(limit)}`, tone: 'warn' }]} onZoom={onZoom} words={p.range.words}
        curves={[{ label: 'power', tone: 'power', data: p.figures.power }]} />
      <figure class="plot">
        <figcaption><strong>Memory</strong> <Summed data={p.figures.memory} unit={memory} /></figcaption>
        <Layers label={`Memory in the ${p.range.words}, by holder. ${inWords(p.figures.memory, memory)}`} times={p.times} layers={memoryStack.layers} looks={memoryStack.looks}
          whole={{ label: 'in use', values: p.figures.memory.value }} most={d.memory_total_mb} height={160} onZoom={onZoom} />
      </figure>
      <One title="Clocks" times={p.times} unit={mhz} range={[0, null]} onZoom={onZoom} words={p.range.words}
        curves={[{ label: 'SM', tone: 'load', data: p.figures.clock }, { label: 'memory', tone: 'quiet', data: p.figures.memoryClock }]} />
      <figure class="plot strips">
        <figcaption><strong>State, and what slowed it down</strong></figcaption>
        <Strip name="State" pieces={p.states} from={from} to={to} tone={(w) => stateTones[w] ?? 'off'} />
        {p.reasons.map((r) => (
          <Strip key={r.word} name={reasonWords[r.word] ?? r.word} pieces={r.pieces} from={from} to={to} tone={(w) => reasonTones[w] ?? 'calm'} label={(w) => reasonWords[w] ?? w} />
        ))}
        {p.reasons.length === 0 && <p class="quiet strip-none">Nothing slowed it down in the {p.range.words}.</p>}
      </figure>
    </div>
  );
}

function lastOf(c: Column): number | undefined {
  for (let i = c.length - 1; i >= 0; i--) {
    const v = c[i];
    if (v !== null && v !== undefined) return v;
  }
  return undefined;
}

interface Curve {
  label: string;
  tone: NonNullable<Line['tone']>;
  data: Banded;
}

// One is a chart with its name and its figures in words.
function One({ title, times, unit, range, thresholds, curves, words, onZoom }: {
  title: string;
  times: number[];
  unit: (v: number) => string;
  range: [number | null, number | null];
  thresholds?: Threshold[];
  curves: Curve[];
  words: string;
  onZoom: (from: number, to: number) => void;
}) {
  const shown = curves.filter((c) => !empty(c.data.value));
  const first = shown[0];
  const key = shown.map((c) => `${c.label}${empty(c.data.max) ? '' : '+'}`).join();
  const lines = useMemo(() => {
    const list: Line[] = [];
    for (const c of shown) {
      const at = list.length + 1;
      const band = !empty(c.data.max) && !empty(c.data.min);
      list.push({ label: c.label, tone: c.tone, unit });
      if (band) {
        list.push({ label: 'most', tone: c.tone, unit, edge: true, band: [at + 1, at + 2] });
        list.push({ label: 'least', tone: c.tone, unit, edge: true });
      }
    }
    return list;
  }, [key]);
  const data = useMemo(
    () => [times, ...shown.flatMap((c) => (!empty(c.data.max) && !empty(c.data.min) ? [c.data.value, c.data.max, c.data.min] : [c.data.value]))],
    [times, key, ...shown.map((c) => c.data)],
  );
  if (first === undefined) {
    return <figure class="plot"><figcaption><strong>{title}</strong></figcaption><p class="empty">This GPU does not measure it.</p></figure>;
  }
  return (
    <figure class="plot" data-curve={title.toLowerCase()}>
      <figcaption><strong>{title}</strong> <Summed data={first.data} unit={unit} /></figcaption>
      <Chart label={`${title} in the ${words}. ${shown.map((c) => `${c.label}: ${inWords(c.data, unit)}`).join(' ')}`} lines={lines} data={data as never} thresholds={thresholds ?? []} range={range} height={160} onZoom={onZoom} />
    </figure>
  );
}

function inWords(b: Banded, unit: (v: number) => string): string {
  const s = summary(b);
  if (s.last === null || s.least === null || s.most === null || s.average === null) return 'nothing known.';
  return `now ${unit(s.last)}, least ${unit(s.least)}, most ${unit(s.most)}, on average ${unit(s.average)}.`;
}

function Summed({ data, unit }: { data: Banded; unit: (v: number) => string }) {
  const s = summary(data);
  if (s.last === null || s.least === null || s.most === null || s.average === null) return null;
  return <span class="quiet">now {unit(s.last)} · least {unit(s.least)} · average {unit(s.average)} · most {unit(s.most)}</span>;
}

// stack puts the leases on each other, and what is in use beside them on top.
function stack(p: Past): { layers: Layer[]; looks: LayerLook[] } {
  if (p.leases.length === 0) {
    return { layers: [{ key: 'in use', values: p.figures.memory.value }], looks: [{ label: 'used by anybody', beside: 'in use', colour: '--curve-quiet' }] };
  }
  const rest: Column = p.figures.memory.value.map((used, i) => {
    if (used === null) return null;
    const sum = p.leases.reduce((n, l) => n + (l.values[i] ?? 0), 0);
    return Math.max(0, used - sum);
  });
  return {
    layers: [...p.leases, { key: 'others', values: rest }],
    looks: [...p.leases.map((l, i) => ({ label: l.key, colour: `--lease-${(i % 6) + 1}` })), { label: 'others, the driver, and leases of less than a minute', beside: 'others', colour: '--curve-quiet' }],
  };
}
