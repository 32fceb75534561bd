import { api, call, Refusal } from '../api/client';
import type { RangeAnswer, Sample } from '../api/types';
import { happened, selector, over, type Curve } from './query';
import { fromLong, type Range, summed, window } from './ranges';
import { type Banded, type Column, column, find, grid, largest, type Layer } from './series';
import { each, join, type Piece, states, worst } from './strip';

// Figure is a measured quantity of a device.
export type Figure = 'load' | 'busy' | 'heat' | 'memoryHeat' | 'power' | 'powerLimit' | 'memory' | 'clock' | 'memoryClock';

const metrics: Record<Figure, string> = {
  load: 'gpu_utilization_percent',
  busy: 'gpu_memory_busy_percent',
  heat: 'gpu_temperature_celsius',
  memoryHeat: 'gpu_memory_temperature_celsius',
  power: 'gpu_power_usage_watts',
  powerLimit: 'gpu_power_limit_watts',
  memory: 'gpu_memory_usage_mb',
  clock: 'gpu_clock_sm_mhz',
  memoryClock: 'gpu_clock_memory_mhz',
};
const figures = Object.keys(metrics) as Figure[];

// Those that are drawn with the least and the most around them.
const bands: Figure[] = ['load', 'heat', 'power', 'clock'];

// Past is what the past of a device looks like over a range.
export interface Past {
  range: Range;
  times: number[]; // seconds
  figures: Record<Figure, Banded>;
  leases: Layer[]; // measured memory by lease, as USER/ID; over weeks and months by user and service
  states: Piece[];
  reasons: { word: string; pieces: Piece[] }[];
  source: 'store' | 'samples';
}

// Absent says why there is no past to show.
export interface Absent {
  why: string;
  off: boolean; // the daemon is set to keep none
}

function named(figure: Figure, curve: Curve, expression: string): string {
  return `label_replace(label_replace(${expression}, "figure", "${figure}", "", ""), "curve", "${curve}", "", "")`;
}

// asking writes one question for several figures of a device.
export function asking(list: Figure[], uuid: string, r: Range): string {
  const labels = { gpu: uuid };
  return list
    .flatMap((f) => {
      const metric = metrics[f];
      if (!summed(r)) return [named(f, 'value', selector(metric, labels))];
      const average = named(f, 'value', over('avg', metric, labels, r));
      if (!bands.includes(f)) return [average];
      const [low, high] = fromLong(r) ? [`${metric}:min`, `${metric}:max`] : [metric, metric];
      return [average, named(f, 'min', over('min', low, labels, r)), named(f, 'max', over('max', high, labels, r))];
    })
    .join(' or ');
}

// read asks for the past of a device. It throws what the daemon refuses.
export async function read(uuid: string, r: Range, now: number, signal: AbortSignal): Promise<Past> {
  const { start, end } = window(r, now);
  const range = (query: string) => api.range(query, start, end, r.step, { signal, timeout: 30_000 });
  // A month has hundreds of leases: there, those of a user and a service are one.
  const by = fromLong(r) ? 'user, service' : 'lease';
  const [banded, plain, held, state, reason] = await Promise.all([
    range(asking(bands, uuid, r)),
    range(asking(figures.filter((f) => !bands.includes(f)), uuid, r)),
    range(`sum by (${by}) (${selector('berth_lease_used_mb', { gpu: uuid })})`),
    range(happened('gpu_state', { gpu: uuid }, r)),
    range(happened('gpu_throttle_reason', { gpu: uuid }, r)),
  ]);
  const times = grid(start, end, r.step);
  return {
    range: r,
    times,
    figures: Object.fromEntries(figures.map((f) => [f, figureOf(bands.includes(f) ? banded : plain, f, times)])) as Past['figures'],
    leases: largest(held.result.map((s) => ({ key: layerName(s.metric), values: column(s, times) })), 6, 'other leases'),
    states: worst(state, 'state', states, r.step),
    reasons: each(reason, 'reason', r.step).filter((s) => s.word !== 'idle'),
    source: 'store',
  };
}

function layerName(labels: Record<string, string>): string {
  return labels.lease ?? ([labels.user, labels.service].filter((x) => x).join(', ') || 'leases');
}

function figureOf(answer: RangeAnswer, figure: Figure, times: number[]): Banded {
  const get = (curve: Curve): Column => column(find(answer, { figure, curve }), times);
  return { value: get('value'), min: get('min'), max: get('max') };
}

const ofSample: Record<Figure, (s: Sample) => number | undefined> = {
  load: (s) => s.utilization_percent,
  busy: (s) => s.memory_busy_percent,
  heat: (s) => s.temperature_celsius,
  memoryHeat: (s) => s.memory_temperature_celsius,
  power: (s) => s.power_watts,
  powerLimit: () => undefined,
  memory: (s) => s.memory_used_mb,
  clock: (s) => s.clock_sm_mhz,
  memoryClock: (s) => s.clock_memory_mhz,
};

// fromSamples makes a past out of the samples that the daemon has in its memory.
export function fromSamples(samples: Sample[], r: Range, now: number): Past {
  const { start, end } = window(r, now);
  const times = grid(start, end, r.step);
  const empty = (): Banded => ({ value: new Array<number | null>(times.length).fill(null), min: [], max: [] });
  const all = Object.fromEntries(figures.map((f) => [f, empty()])) as Past['figures'];
  const state: [number, string][] = [];
  const reasons = new Map<string, [number, string][]>();
  for (const s of samples) {
    const i = Math.round((Date.parse(s.time) / 1000 - start) / r.step);
    const time = times[i];
    if (time === undefined) continue;
    for (const f of figures) all[f].value[i] = ofSample[f](s) ?? null;
    if (s.state && state[state.length - 1]?.[0] !== time) state.push([time, s.state]);
    for (const word of s.throttle_reasons ?? []) {
      if (word === 'idle') continue;
      const list = reasons.get(word) ?? [];
      if (list[list.length - 1]?.[0] !== time) list.push([time, word]);
      reasons.set(word, list);
    }
  }
  return {
    range: r, times, figures: all, leases: [], source: 'samples',
    states: join(state, r.step),
    reasons: [...reasons].map(([word, list]) => ({ word, pieces: join(list, r.step) })),
  };
}

// load asks for the past, and where the daemon keeps none, for the samples that it
// has in memory. For a range longer than an hour these say nothing. off: the daemon is
// set to keep no past, so it is not asked for any.
export async function load(uuid: string, r: Range, now: number, off: boolean, signal: AbortSignal): Promise<{ past?: Past; absent?: Absent }> {
  let absent: Absent = { why: '', off: true };
  if (!off) {
    try {
      return { past: await read(uuid, r, now, signal) };
    } catch (err) {
      if (signal.aborted) throw err;
      absent = { why: err instanceof Error ? err.message : String(err), off: err instanceof Refusal && err.status === 404 };
    }
  }
  if (r.seconds > 3600) return { absent };
  try {
    const { samples } = await call<{ samples: Sample[] }>('/api/gpu/metrics/history', { query: { gpu: uuid, since: `${r.seconds}s` }, signal });
    return { past: fromSamples(samples, r, now), absent };
  } catch (err) {
    if (signal.aborted) throw err;
    return { absent };
  }
}

// Live has samples that came after a past was asked for.
export interface Live {
  times: number[];
  load: number[];
  temperature: number[];
  power: number[];
  memory: number[];
}

// lately returns the newest value of a column, if it is among its last few.
function lately(c: Column): number | null {
  return c.slice(-15).findLast((v) => v !== null) ?? null;
}

const growing: [Figure, keyof Live][] = [['load', 'load'], ['heat', 'temperature'], ['power', 'power'], ['memory', 'memory']];

// grown returns a past with the live samples that came after it, and without what is
// too old by then. Only short ranges grow: a point of a longer one is an average.
export function grown(p: Past, live: Live): Past {
  const last = p.times[p.times.length - 1];
  if (summed(p.range) || p.range.until !== undefined || last === undefined) return p;
  const fresh: number[] = [];
  live.times.forEach((t, i) => {
    const before = fresh.length > 0 ? live.times[fresh[fresh.length - 1]!]! : last;
    if (t >= before + p.range.step * 0.75) fresh.push(i);
  });
  if (fresh.length === 0) return p;
  const cut = p.times.findIndex((t) => t >= live.times[fresh[fresh.length - 1]!]! - p.range.seconds);
  const drop = Math.max(0, cut);
  const pad = fresh.map(() => null);
  const tail = (c: Column): Column => [...c.slice(drop), ...pad];
  const next = Object.fromEntries(figures.map((f) => {
    const source = growing.find(([figure]) => figure === f)?.[1];
    const own = source === undefined ? pad : fresh.map((i) => { const v = live[source][i]; return v === undefined || Number.isNaN(v) ? null : v; });
    const b = p.figures[f];
    return [f, { value: [...b.value.slice(drop), ...own], min: tail(b.min), max: tail(b.max) }];
  })) as Past['figures'];
  return {
    ...p,
    times: [...p.times.slice(drop), ...fresh.map((i) => live.times[i]!)],
    figures: next,
    // A lease uses as much as it did last, until the store is asked again.
    leases: p.leases.map((l) => ({ ...l, values: [...l.values.slice(drop), ...pad.map(() => lately(l.values))] })),
  };
}

