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

// over writes a function over the step of a range.
export function over(what: 'avg' | 'min' | 'max', metric: string, labels: Record<string, string>, r: Range): string {
  return `${what}_over_time(${selector(metric, labels)}[${r.step}s])`;
}

// The names of the curves that curves asks for, in the label curve of the answer.
export type Curve = 'value' | 'min' | 'max';

function called(curve: Curve, expression: string): string {
  return `label_replace(${expression}, "curve", "${curve}", "", "")`;
}

// curves writes the question for a metric over a range. Where a point stands for
// many samples, the answer has the average and, around it, the least and the most:
// from the samples themselves while berth keeps them, else from the long store.
export function curves(metric: string, labels: Record<string, string>, r: Range): string {
  if (!summed(r)) return called('value', selector(metric, labels));
  const [low, high] = fromLong(r) ? [`${metric}:min`, `${metric}:max`] : [metric, metric];
  return [
    called('value', over('avg', metric, labels, r)),
    called('min', over('min', low, labels, r)),
    called('max', over('max', high, labels, r)),
  ].join(' or ');
}

// values writes the question for the values of a metric: samples, or averages where
// a point stands for many.
export function values(metric: string, labels: Record<string, string>, r: Range): string {
  return summed(r) ? over('avg', metric, labels, r) : selector(metric, labels);
}

// happened writes the question for a metric of zeros and ones: which of its series
// was 1 at any time of each step.
export function happened(metric: string, labels: Record<string, string>, r: Range): string {
  if (!summed(r)) return `${selector(metric, labels)} > 0`;
  return `${over('max', fromLong(r) ? `${metric}:max` : metric, labels, r)} > 0`;
}
