// stepFor returns a step that gives at most about 800 points, in steps that people
// count in.
export function stepFor(seconds: number): number {
  const steps = [1, 2, 5, 10, 30, 60, 120, 300, 900, 1800, 3600, 7200, 10_800, 21_600];
  return steps.find((s) => seconds / s <= 800) ?? 86_400;
}
