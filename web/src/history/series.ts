import type { RangeAnswer } from '../api/types';

// Column is one value for each time, null where there is none.
export type Column = (number | null)[];

// grid returns the times of a range, from its start to its end.
export function grid(start: number, end: number, step: number): number[] {
  const times: number[] = [];
  for (let i = 0; start + i * step <= end + step / 1000; i++) times.push(start + i * step);
  return times;
}

// number reads a value of Prometheus: null for what is no number.
export function number(text: string): number | null {
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
}

// column puts the values of a series on a grid. A step without a value stays null,
// and a curve has a gap there.
export function column(series: { values: [number, string][] } | undefined, times: number[]): Column {
  const out: Column = new Array<number | null>(times.length).fill(null);
  const start = times[0];
  if (series === undefined || start === undefined) return out;
  const step = (times[1] ?? start + 1) - start;
  for (const [at, text] of series.values) {
    const i = Math.round((at - start) / step);
    if (i >= 0 && i < out.length) out[i] = number(text);
  }
  return out;
}

// find returns the series of an answer whose labels have these values.
export function find(answer: RangeAnswer, labels: Record<string, string>): RangeAnswer['result'][number] | undefined {
  return answer.result.find((s) => Object.entries(labels).every(([name, value]) => s.metric[name] === value));
}

// Banded is a curve with the least and the most around it.
export interface Banded {
  value: Column;
  min: Column;
  max: Column;
}

// empty reports whether a column has no value at all.
export function empty(c: Column): boolean {
  return c.every((v) => v === null);
}

// Summary is what a curve says in words.
export interface Summary {
  last: number | null;
  least: number | null;
  most: number | null;
  average: number | null;
}

// summary sums a curve up. The least and the most of a band count where there are.
export function summary(b: { value: Column; min?: Column; max?: Column }): Summary {
  let least: number | null = null;
  let most: number | null = null;
  let last: number | null = null;
  let sum = 0;
  let count = 0;
  b.value.forEach((v, i) => {
    if (v === null) return;
    last = v;
    sum += v;
    count++;
    const low = b.min?.[i] ?? v;
    const high = b.max?.[i] ?? v;
    if (least === null || low < least) least = low;
    if (most === null || high > most) most = high;
  });
  return { last, least, most, average: count > 0 ? sum / count : null };
}

// Layer is one layer of a stack over time.
export interface Layer {
  key: string;
  values: Column;
}

// stacked adds layers up, from the bottom. Where a layer has no value it is as thick
// as nothing; where no layer has one, the stack has a gap.
export function stacked(layers: Layer[]): Column[] {
  const n = layers[0]?.values.length ?? 0;
  const sums: Column = new Array<number | null>(n).fill(null);
  return layers.map((layer) => {
    for (let i = 0; i < n; i++) {
      const v = layer.values[i] ?? null;
      if (v !== null) sums[i] = (sums[i] ?? 0) + v;
    }
    return [...sums];
  });
}

// largest keeps the layers that reach highest, and adds the others up in one that is
// called rest.
export function largest(layers: Layer[], count: number, rest: string): Layer[] {
  const height = (l: Layer) => l.values.reduce<number>((m, v) => Math.max(m, v ?? 0), 0);
  const ordered = layers.filter((l) => height(l) > 0).sort((a, b) => height(b) - height(a) || (a.key < b.key ? -1 : 1));
  if (ordered.length <= count) return ordered;
  const sums = stacked(ordered.slice(count - 1));
  return [...ordered.slice(0, count - 1), { key: rest, values: sums[sums.length - 1]! }];
}
