import { clock } from '../ui/format';

// Range is a stretch of time that a page of curves shows, up to now, or up to a moment.
export interface Range {
  key: string;
  label: string; // for a button
  words: string; // for a sentence
  seconds: number;
  step: number; // seconds between two points: about 600 to 1,000 points in all
  until?: number; // its end, in seconds; absent: now
  reach?: number; // how far back it goes, in seconds; absent: as far as it is long
}

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;
const recent = 2 * day; // how far back the recent store goes

export const ranges: readonly Range[] = [
  { key: '5m', label: '5 min', words: 'last 5 minutes', seconds: 5 * minute, step: 1 },
  { key: '1h', label: 'hour', words: 'last hour', seconds: hour, step: 5 },
  { key: '1d', label: 'day', words: 'last day', seconds: day, step: 2 * minute },
  { key: '7d', label: 'week', words: 'last week', seconds: 7 * day, step: 15 * minute },
  { key: '30d', label: 'month', words: 'last month', seconds: 30 * day, step: hour },
  { key: '90d', label: '90 days', words: 'last 90 days', seconds: 90 * day, step: 3 * hour },
];

const defaultRange = ranges[1]!;

export function rangeOf(key: string | null | undefined): Range {
  return ranges.find((r) => r.key === key) ?? defaultRange;
}

const steps = [1, 2, 5, 10, 15, 30, minute, 2 * minute, 5 * minute, 15 * minute, 30 * minute, hour, 3 * hour, 6 * hour, day];

// stepFor returns a step that people count in, with which a stretch of time has at
// most so many points. What lies further back than the recent store is kept by minutes.
export function stepFor(seconds: number, points: number, reach = seconds): number {
  return steps.find((s) => s * points >= seconds && (s >= minute || reach <= recent)) ?? day;
}

// zoomed returns the range of a part that somebody marked, in seconds; undefined: it is
// none. The two come from the address, so they may be anything.
export function zoomed(from: string | null, to: string | null, now: number): Range | undefined {
  const [start, end] = [Number(from ?? NaN), Number(to ?? NaN)];
  if (!(end - start >= 10) || !(start > now - 366 * day) || end > now + hour) return undefined;
  const reach = now - start;
  return {
    key: `${start}-${end}`, label: 'part', words: `time from ${clock(start * 1000)} to ${clock(end * 1000)}`,
    seconds: end - start, step: stepFor(end - start, 800, reach), until: end, reach,
  };
}

// Whether a point of the range stands for many samples, so that the least and the
// most beside the average say something.
export function summed(r: Range): boolean {
  return r.step >= minute;
}

// seconds that the recent store may not reach back, so that the least and the most
// come from the long one, which keeps them under names of their own.
export function fromLong(r: Range): boolean {
  return (r.reach ?? r.seconds) > recent;
}

// window returns the first and the last moment of a range, on a grid of its steps,
// so that a question that is asked again meets the same points.
export function window(r: Range, now: number): { start: number; end: number } {
  const end = Math.floor((r.until ?? now) / r.step) * r.step;
  return { start: end - Math.ceil(r.seconds / r.step) * r.step, end };
}

// everyMs is how long the curves of a range may stand before they are asked for
// again. Short ranges grow by live samples meanwhile.
export function everyMs(r: Range): number {
  return Math.min(Math.max(r.step, r.until === undefined ? 30 : 5 * minute), 5 * minute) * 1000;
}
