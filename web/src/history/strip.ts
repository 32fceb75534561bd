import type { RangeAnswer } from '../api/types';

// Piece is a stretch of time in which a strip has one colour.
export interface Piece {
  word: string;
  from: number; // seconds
  to: number;
}

// The states of a device, from the best to the worst.
export const states = ['OPTIMAL', 'NORMAL', 'THROTTLED', 'CRITICAL', 'UNAVAILABLE'] as const;

// worst makes the pieces of a strip out of series that are present at the steps at
// which their word held. Of several words at one step, the last in order counts.
export function worst(answer: RangeAnswer, label: string, order: readonly string[], step: number): Piece[] {
  const at = new Map<number, string>();
  for (const series of answer.result) {
    const word = series.metric[label] ?? '';
    for (const [time] of series.values) {
      const before = at.get(time);
      if (before === undefined || order.indexOf(word) > order.indexOf(before)) at.set(time, word);
    }
  }
  return join([...at.entries()].sort((a, b) => a[0] - b[0]), step);
}

// each makes a strip for every word of a label.
export function each(answer: RangeAnswer, label: string, step: number): { word: string; pieces: Piece[] }[] {
  return answer.result
    .map((series) => {
      const word = series.metric[label] ?? '';
      return { word, pieces: join(series.values.map(([time]) => [time, word]), step) };
    })
    .filter((s) => s.pieces.length > 0)
    .sort((a, b) => (a.word < b.word ? -1 : 1));
}

// join puts steps with the same word, one after the other, together.
export function join(at: [number, string][], step: number): Piece[] {
  const pieces: Piece[] = [];
  for (const [time, word] of at) {
    const last = pieces[pieces.length - 1];
    if (last !== undefined && last.word === word && time <= last.to + step / 2) last.to = time + step;
    else pieces.push({ word, from: time, to: time + step });
  }
  return pieces;
}

// shares says which share of the time that is covered each word had, the largest
// first.
export function shares(pieces: Piece[]): { word: string; share: number }[] {
  const sums = new Map<string, number>();
  let all = 0;
  for (const p of pieces) {
    sums.set(p.word, (sums.get(p.word) ?? 0) + p.to - p.from);
    all += p.to - p.from;
  }
  return [...sums].map(([word, sum]) => ({ word, share: sum / all })).sort((a, b) => b.share - a.share);
}
