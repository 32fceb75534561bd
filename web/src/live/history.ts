import type { RangeAnswer, Sample } from '../api/types';

// Curve names the figures that are kept for each device.
export const curves = ['load', 'temperature', 'power', 'memory'] as const;
export type Curve = (typeof curves)[number];

// History has the latest samples of one device, oldest first. Columns have the same
// length; NaN stands for what the device did not say. times are in seconds.
export interface History {
  times: number[];
  load: number[];
  temperature: number[];
  power: number[];
  memory: number[]; // MiB in use
}

// sparkSpan is how many seconds a card shows; span is how many the page keeps.
export const sparkSpan = 300;
export const span = 600;

export function emptyHistory(): History {
  return { times: [], load: [], temperature: [], power: [], memory: [] };
}

// seconds reads a time of the API, in seconds since 1970; NaN if it is none.
export function seconds(time: string): number {
  return Date.parse(time) / 1000;
}

// addSample adds the newest sample. A sample that is there already changes nothing.
// If the clock of the daemon went back, what lies ahead of the sample is dropped, so
// that times always grow. It reports whether anything changed.
export function addSample(h: History, s: Sample): boolean {
  const at = seconds(s.time);
  if (Number.isNaN(at)) return false;
  const last = h.times[h.times.length - 1];
  if (last !== undefined && at === last) return false;
  if (last !== undefined && at < last) {
    let keep = h.times.length;
    while (keep > 0 && h.times[keep - 1]! >= at) keep--;
    cut(h, 0, keep);
  }
  h.times.push(at);
  h.load.push(s.utilization_percent ?? NaN);
  h.temperature.push(s.temperature_celsius ?? NaN);
  h.power.push(s.power_watts ?? NaN);
  h.memory.push(s.memory_used_mb ?? NaN);
  let old = 0;
  while (h.times[old]! < at - span) old++;
  // Arrays are moved rarely: shifting every second costs more than some spare room.
  if (old > 64) cut(h, old, h.times.length);
  return true;
}

function cut(h: History, from: number, end: number): void {
  h.times = h.times.slice(from, end);
  for (const name of curves) h[name] = h[name].slice(from, end);
}

// addBefore puts older samples in front of those that are there.
export function addBefore(h: History, older: History): void {
  const first = h.times[0] ?? Infinity;
  let n = older.times.length;
  while (n > 0 && older.times[n - 1]! >= first) n--;
  h.times = older.times.slice(0, n).concat(h.times);
  for (const name of curves) h[name] = older[name].slice(0, n).concat(h[name]);
}

// fromSamples makes a history of samples, oldest first.
export function fromSamples(samples: Sample[]): History {
  const h = emptyHistory();
  for (const s of samples) addSample(h, s);
  return h;
}

// stored has the names of the figures in the past that the daemon keeps.
const stored = new Map<string | undefined, Curve>([
  ['gpu_utilization_percent', 'load'],
  ['gpu_temperature_celsius', 'temperature'],
  ['gpu_power_usage_watts', 'power'],
  ['gpu_memory_usage_mb', 'memory'],
]);

// pastQuery asks for all figures of all devices.
export const pastQuery = `{__name__=~"${[...stored.keys()].join('|')}"}`;

// fromRange makes the history of one device out of an answer to pastQuery.
export function fromRange(uuid: string, answer: RangeAnswer): History {
  const rows = new Map<number, Partial<Record<Curve, number>>>();
  for (const series of answer.result) {
    const name = stored.get(series.metric.__name__);
    if (name === undefined || series.metric.gpu !== uuid) continue;
    for (const [at, text] of series.values) {
      const row = rows.get(at) ?? {};
      row[name] = Number(text);
      rows.set(at, row);
    }
  }
  const h = emptyHistory();
  for (const at of [...rows.keys()].sort((a, b) => a - b)) {
    const row = rows.get(at)!;
    h.times.push(at);
    for (const name of curves) h[name].push(row[name] ?? NaN);
  }
  return h;
}
