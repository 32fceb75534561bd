import { describe, expect, it } from 'vitest';
import type { RangeAnswer } from '../../src/api/types';
import { asking, fromSamples, grown } from '../../src/history/device';
import { happened, quoted, selector } from '../../src/history/query';
import { ranges, rangeOf, window } from '../../src/history/ranges';
import { column, grid, largest, stacked, summary } from '../../src/history/series';
import { each, shares, worst } from '../../src/history/strip';
import { stepFor } from '../../src/history/ranges';

describe('ranges', () => {
  it('have between 300 and 1,000 points', () => {
    for (const r of ranges) {
      const points = r.seconds / r.step;
      expect(points, r.key).toBeGreaterThanOrEqual(300);
      expect(points, r.key).toBeLessThanOrEqual(1000);
    }
  });
  it('fall back to a range that there is', () => {
    expect(rangeOf('nonsense').key).toBe('1h');
    expect(rangeOf(null).key).toBe('1h');
  });
  it('lie on a grid of their steps', () => {
    for (const r of ranges) {
      const { start, end } = window(r, 1_763_190_123.4);
      expect(end % r.step).toBe(0);
      expect(grid(start, end, r.step)).toHaveLength(r.seconds / r.step + 1);
    }
  });
  it('give a lease of any age at most 800 points', () => {
    for (const s of [120, 3600, 86_400, 90 * 86_400]) expect(s / stepFor(s, 800)).toBeLessThanOrEqual(800);
  });
});

describe('questions', () => {
  it('keep what a label holds inside its quotes', () => {
    expect(quoted('a"} or x{b="\\\n')).toBe('"a\\"} or x{b=\\"\\\\\\n"');
    expect(selector('m', { gpu: 'GPU-1' })).toBe('m{gpu="GPU-1"}');
  });
  it('take the least and the most from the long store for a month', () => {
    const month = asking(['heat'], 'GPU-1', rangeOf('30d'));
    expect(month).toContain('min_over_time(gpu_temperature_celsius:min{gpu="GPU-1"}[3600s])');
    expect(month).toContain('max_over_time(gpu_temperature_celsius:max{gpu="GPU-1"}[3600s])');
    const day = asking(['heat'], 'GPU-1', rangeOf('1d'));
    expect(day).toContain('min_over_time(gpu_temperature_celsius{gpu="GPU-1"}[120s])');
    expect(asking(['heat'], 'GPU-1', rangeOf('5m'))).not.toContain('over_time');
    expect(happened('gpu_state', { gpu: 'GPU-1' }, rangeOf('7d'))).toBe('max_over_time(gpu_state:max{gpu="GPU-1"}[900s]) > 0');
  });
});

describe('columns', () => {
  it('have gaps where a series has none', () => {
    const times = grid(100, 140, 10);
    expect(column({ values: [[100, '1'], [120, 'NaN'], [130, '3'], [900, '7']] }, times)).toEqual([1, null, null, 3, null]);
    expect(column(undefined, times)).toEqual([null, null, null, null, null]);
  });
  it('add up from the bottom', () => {
    expect(stacked([{ key: 'a', values: [1, null, 2] }, { key: 'b', values: [1, null, null] }])).toEqual([[1, null, 2], [2, null, 2]]);
  });
  it('keep the largest layers and add up the rest', () => {
    const layers = ['a', 'b', 'c', 'd'].map((key, i) => ({ key, values: [i + 1] }));
    expect(largest(layers, 2, 'rest')).toEqual([{ key: 'd', values: [4] }, { key: 'rest', values: [6] }]);
    expect(largest([{ key: 'none', values: [0, null] }], 2, 'rest')).toEqual([]);
  });
  it('are summed up with the edges of their band', () => {
    expect(summary({ value: [5, null, 7], min: [1, null, 6], max: [6, null, 20] })).toEqual({ last: 7, least: 1, most: 20, average: 6 });
    expect(summary({ value: [null] }).last).toBeNull();
  });
});

const answer = (series: Record<string, number[]>, label: string): RangeAnswer => ({
  resultType: 'matrix',
  result: Object.entries(series).map(([word, times]) => ({ metric: { [label]: word }, values: times.map((t) => [t, '1']) })),
});

describe('strips', () => {
  it('show the worst of several states of one step', () => {
    expect(worst(answer({ OPTIMAL: [0, 10, 20, 40], CRITICAL: [20] }, 'state'), 'state', ['OPTIMAL', 'CRITICAL'], 10)).toEqual([
      { word: 'OPTIMAL', from: 0, to: 20 },
      { word: 'CRITICAL', from: 20, to: 30 },
      { word: 'OPTIMAL', from: 40, to: 50 },
    ]);
  });
  it('show each reason by itself', () => {
    expect(each(answer({ thermal: [0, 10], idle: [] }, 'reason'), 'reason', 10)).toEqual([{ word: 'thermal', pieces: [{ word: 'thermal', from: 0, to: 20 }] }]);
  });
  it('are told as shares of the time', () => {
    expect(shares([{ word: 'a', from: 0, to: 10 }, { word: 'b', from: 10, to: 40 }])).toEqual([{ word: 'b', share: 0.75 }, { word: 'a', share: 0.25 }]);
  });
});

describe('short ranges', () => {
  const five = rangeOf('5m');
  const now = 1_763_190_000;
  const sample = (t: number, load: number) => ({ gpu: 'g', time: new Date(t * 1000).toISOString(), utilization_percent: load, state: 'OPTIMAL' as const, throttle_reasons: ['thermal', 'idle'] });
  it('are made of samples where nothing is stored', () => {
    const p = fromSamples([sample(now - 2, 10), sample(now - 1, 20), sample(now - 9999, 1)], five, now);
    expect(p.figures.load.value.filter((v) => v !== null)).toEqual([10, 20]);
    expect(p.states).toEqual([{ word: 'OPTIMAL', from: now - 2, to: now }]);
    expect(p.reasons.map((r) => r.word)).toEqual(['thermal']);
  });
  it('grow by live samples and lose what is too old', () => {
    const p = { ...fromSamples([sample(now, 10)], five, now), leases: [{ key: 'a', values: new Array(300).fill(null).concat([7]) }] };
    const live = { times: [now - 1, now, now + 1, now + 1.2, now + 60], load: [0, 0, 30, 99, NaN], temperature: [0, 0, 50, 50, 50], power: [0, 0, 1, 1, 1], memory: [0, 0, 1, 1, 1] };
    const g = grown(p, live);
    expect(g.times.slice(-2)).toEqual([now + 1, now + 60]);
    expect(g.figures.load.value.slice(-3)).toEqual([10, 30, null]);
    expect(g.times[0]).toBe(now - 240);
    expect(g.leases[0]!.values.slice(-3)).toEqual([7, 7, 7]);
    expect(g.leases[0]!.values).toHaveLength(g.times.length);
    for (const f of Object.values(g.figures)) expect(f.value).toHaveLength(g.times.length);
  });
  it('stay the same without newer samples', () => {
    const p = fromSamples([sample(now, 10)], five, now);
    expect(grown(p, { times: [now], load: [1], temperature: [1], power: [1], memory: [1] })).toBe(p);
  });
});
