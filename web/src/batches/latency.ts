export interface Latency {
  bounds: number[];
  counts: number[]; // one more than bounds
  sum_seconds: number;
}

// quantile estimates the time within which a share of the records were done, from
// buckets. Within a bucket it takes times to be spread evenly; beyond the last bound
// it says that bound.
export function quantile(l: Latency, share: number): number | undefined {
  if (!l?.counts || !l.bounds) return undefined; // nothing was measured
  const all = l.counts.reduce((n, c) => n + c, 0);
  if (all === 0 || l.bounds.length === 0) return undefined;
  const wanted = share * all;
  let below = 0;
  for (let i = 0; i < l.counts.length; i++) {
    const n = l.counts[i]!;
    if (n > 0 && below + n >= wanted) {
      const high = l.bounds[i];
      if (high === undefined) break;
      const low = i === 0 ? 0 : l.bounds[i - 1]!;
      return low + (high - low) * ((wanted - below) / n);
    }
    below += n;
  }
  return l.bounds[l.bounds.length - 1];
}
