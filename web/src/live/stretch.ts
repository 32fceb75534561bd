import { signal } from '@preact/signals';
import { type Curve, type History, sparkSpan } from './history';
import { historyOf } from './state';

// Stretch is the time that the small curves of the page show, in seconds, with what
// was measured in it. All of them show the same.
export interface Stretch {
  from: number;
  to: number;
  step: number;
  histories: ReadonlyMap<string, History>;
}

// stretch is undefined while the curves are live: the last minutes, which grow.
export const stretch = signal<Stretch | undefined>(undefined);

// pointed is which moment somebody points at on any of the curves, as a share of what
// they show; undefined: nobody points. marked is a part that somebody marks.
export const pointed = signal<number | undefined>(undefined);
export const marked = signal<{ from: number; to: number } | undefined>(undefined);

// Shown is what the curve of a device is drawn from.
export interface Shown {
  history: History;
  from: number;
  to: number;
  gap: number; // seconds without a value, from which a curve has a gap
}

const none: History = { times: [], load: [], temperature: [], power: [], memory: [] };

// shownOf returns what the curves of a device show now; undefined: nothing is known.
export function shownOf(uuid: string, s: Stretch | undefined = stretch.peek()): Shown | undefined {
  if (s !== undefined) return { history: s.histories.get(uuid) ?? none, from: s.from, to: s.to, gap: s.step * 2.5 };
  const history = historyOf(uuid);
  const end = history.times[history.times.length - 1];
  return end === undefined ? undefined : { history, from: end - sparkSpan, to: end, gap: 10 };
}

// valueAt returns what a curve had at a share of what is shown.
export function valueAt(uuid: string, curve: Curve, share: number): number | undefined {
  const it = shownOf(uuid);
  if (it === undefined || it.history.times.length === 0) return undefined;
  const { times } = it.history;
  const at = it.from + share * (it.to - it.from);
  let low = 0;
  let high = times.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle]! < at) low = middle + 1;
    else high = middle;
  }
  return Math.abs(times[low]! - at) > it.gap ? undefined : it.history[curve][low];
}
