import { fromLong, summed, type Range } from './ranges';

// quoted writes a text as a string of PromQL.
export function quoted(text: string): string {
  return '"' + text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n') + '"';
}

// selector writes a metric with labels that must be equal.
export function selector(metric: string, labels: Record<string, string>): string {
  const list = Object.entries(labels).map(([name, value]) => `${name}=${quoted(value)}`);
  return `${metric}{${list.join(',')}}`;
}

// over writes a function over each step of a range.
export function over(what: 'avg' | 'min' | 'max', metric: string, labels: Record<string, string>, r: Range): string {
  return `${what}_over_time(${selector(metric, labels)}[${r.step}s])`;
}

// Curve names a curve of a band, in the label curve of an answer.
export type Curve = 'value' | 'min' | 'max';

// happened writes the question for a metric of zeros and ones: which of its series
// was 1 at any time of each step.
export function happened(metric: string, labels: Record<string, string>, r: Range): string {
  if (!summed(r)) return `${selector(metric, labels)} > 0`;
  return `${over('max', fromLong(r) ? `${metric}:max` : metric, labels, r)} > 0`;
}
