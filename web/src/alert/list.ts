import type { Alert, Event } from '../api/types';

const severities = ['info', 'warning', 'critical'];

// order lists alerts with those first that need somebody most: firing before pending,
// not acknowledged before acknowledged, then by severity and the newest first.
export function order(list: readonly Alert[]): Alert[] {
  const key = (a: Alert): number[] => [
    a.state === 'firing' ? 0 : 1,
    a.acknowledged ? 1 : 0,
    -severities.indexOf(a.severity),
    -Date.parse(a.since),
  ];
  return [...list].sort((a, b) => {
    const left = key(a);
    const right = key(b);
    for (let i = 0; i < left.length; i++) if (left[i] !== right[i]) return left[i]! - right[i]!;
    return a.fingerprint < b.fingerprint ? -1 : 1;
  });
}

// shownLabels leaves out what is said elsewhere, or is the same for all.
export function shownLabels(labels: Record<string, string>, device: boolean): [string, string][] {
  const hidden = ['alertname', 'severity', 'job', 'instance', 'index', '__name__', ...(device ? ['gpu', 'name'] : [])];
  return Object.entries(labels).filter(([name]) => !hidden.includes(name)).sort(([a], [b]) => (a < b ? -1 : 1));
}

// resolvedLately lists the events of alerts that were resolved, the newest first.
export function resolvedLately(events: readonly Event[]): Event[] {
  return events.filter((e) => e.code === 'alert_resolved').slice(-30).reverse();
}
