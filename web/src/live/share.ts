// keepSame returns next with the elements of previous wherever they are equal, so
// that what did not change is the same object and nothing is drawn again for it.
// If all are, the result is previous itself.
export function keepSame<T>(previous: readonly T[], next: readonly T[], key: (it: T) => string | number): T[] {
  const known = new Map(previous.map((it) => [key(it), it]));
  let same = previous.length === next.length;
  const result = next.map((it, i) => {
    const before = known.get(key(it));
    const kept = before !== undefined && equal(before, it) ? before : it;
    if (kept !== previous[i]) same = false;
    return kept;
  });
  return same ? (previous as T[]) : result;
}

// equal compares two values as JSON has them.
export function equal(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const left = Object.keys(a);
  if (left.length !== Object.keys(b).length) return false;
  return left.every((name) => Object.hasOwn(b, name) && equal((a as Record<string, unknown>)[name], (b as Record<string, unknown>)[name]));
}
