// How far the page can trust what it shows.
export type Freshness =
  | 'connecting' // nothing was ever answered
  | 'fresh'
  | 'stale' // the last answer is old
  | 'gone' // the daemon does not answer
  | 'refused'; // the daemon wants to know who asks

// staleAfter is the age, in milliseconds, from which the page says that it is old.
export const staleAfter = 5000;

export interface Contact {
  answered: number | undefined; // when the last answer came, on a clock that never jumps
  failures: number; // how many requests in a row got no answer
  refused: boolean; // the last answer was that one must sign in
}

// judge decides from the last contact with the daemon. Times are in milliseconds.
export function judge(c: Contact, now: number): Freshness {
  if (c.refused) return 'refused';
  if (c.failures >= 2) return 'gone';
  if (c.answered === undefined) return 'connecting';
  return now - c.answered > staleAfter ? 'stale' : 'fresh';
}
