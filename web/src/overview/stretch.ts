import { useEffect } from 'preact/hooks';
import { api } from '../api/client';
import type { RangeAnswer } from '../api/types';
import { over } from '../history/query';
import { everyMs, fromLong, type Range, stepFor, window } from '../history/ranges';
import { type Curve, curves, emptyHistory, type History } from '../live/history';
import { usePolled } from '../live/poll';
import { now, settings } from '../live/state';
import { stretch } from '../live/stretch';

const points = 160; // more than a small curve has pixels for

const asked: Record<Exclude<Curve, 'memory'>, { metric: string; what: 'avg' | 'max' }> = {
  load: { metric: 'gpu_utilization_percent', what: 'avg' },
  temperature: { metric: 'gpu_temperature_celsius', what: 'max' }, // a short peak is what matters
  power: { metric: 'gpu_power_usage_watts', what: 'avg' },
};

// together makes a history of each device out of the answers, which have the same times.
export function together(answers: Partial<Record<Curve, RangeAnswer>>): Map<string, History> {
  const rows = new Map<string, Map<number, Partial<Record<Curve, number>>>>();
  for (const [curve, answer] of Object.entries(answers) as [Curve, RangeAnswer][]) {
    for (const series of answer.result) {
      const uuid = series.metric.gpu ?? '';
      const times = rows.get(uuid) ?? new Map<number, Partial<Record<Curve, number>>>();
      rows.set(uuid, times);
      for (const [at, text] of series.values) {
        const row = times.get(at) ?? {};
        row[curve] = Number(text);
        times.set(at, row);
      }
    }
  }
  return new Map([...rows].map(([uuid, times]) => {
    const h = emptyHistory();
    for (const at of [...times.keys()].sort((a, b) => a - b)) {
      h.times.push(at);
      for (const name of curves) h[name].push(times.get(at)![name] ?? NaN);
    }
    return [uuid, h];
  }));
}

// useStretch lets the small curves show a range; undefined: they are live. It returns
// why there is nothing to show, if there is nothing.
export function useStretch(range: Range | undefined): string {
  const off = settings.value?.past?.store === 'off';
  const polled = usePolled(async (signal) => {
    if (range === undefined || off) return undefined;
    const r: Range = { ...range, step: stepFor(range.seconds, points, range.reach) };
    const { start, end } = window(r, now.peek() / 1000);
    const list = Object.entries(asked) as [keyof typeof asked, (typeof asked)[keyof typeof asked]][];
    const found = await Promise.all(list.map(([, { metric, what }]) => {
      const name = what === 'max' && fromLong(r) ? `${metric}:max` : metric;
      return api.range(r.step <= 2 ? metric : over(what, name, {}, r), start, end, r.step, { signal, timeout: 30_000 });
    }));
    const histories = together(Object.fromEntries(list.map(([curve], i) => [curve, found[i]!])));
    return { key: r.key, from: start, to: end, step: r.step, histories };
  }, range === undefined ? 3_600_000 : everyMs(range), [range?.key ?? '', off]);
  const data = polled.data?.key === range?.key ? polled.data : undefined;
  useEffect(() => {
    stretch.value = data;
  }, [data]);
  useEffect(() => () => { stretch.value = undefined; }, []);
  if (range === undefined) return '';
  if (off) return 'This daemon remembers no past (past.store is off).';
  return polled.error === undefined ? '' : polled.error.message;
}
