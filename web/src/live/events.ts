import type { Event } from '../api/types';

// mostEvents is how many events the page keeps.
const mostEvents = 1000;

// mergeEvents puts new events behind those that are there, by id, each once, and
// keeps the newest. Both lists are oldest first; the result may be the list itself.
export function mergeEvents(list: readonly Event[], found: readonly Event[], most = mostEvents): Event[] {
  if (found.length === 0) return list as Event[];
  const last = list[list.length - 1];
  let merged: Event[];
  if (last === undefined || found[0]!.id > last.id) {
    merged = list.concat(found);
  } else {
    const seen = new Set(list.map((e) => e.id));
    const fresh = found.filter((e) => !seen.has(e.id));
    if (fresh.length === 0) return list as Event[];
    merged = list.concat(fresh).sort((a, b) => a.id - b.id);
  }
  return merged.length > most ? merged.slice(merged.length - most) : merged;
}

// Folded is an event, and how many others of its kind it stands for.
export interface Folded {
  event: Event;
  more: number;
}

// folded returns the newest events, the newest first, without what berth writes only for
// itself. Events of one kind about the tasks of a job stand together, by the newest.
export function folded(list: readonly Event[], most: number): Folded[] {
  const found = new Map<string, Folded>();
  for (const e of [...list].reverse()) {
    if (e.code === 'lease_bound') continue;
    const job = e.lease?.replace(/\.\d+$/, '');
    const key = job === undefined || job === e.lease ? String(e.id) : `${e.code} ${e.user ?? ''}/${job}`;
    const it = found.get(key);
    if (it !== undefined) it.more++;
    else if (found.size < most) found.set(key, { event: e, more: 0 });
  }
  return [...found.values()];
}

// isGap reports whether an event says that events before it are missing.
export function isGap(e: Event): boolean {
  return e.code === 'gap';
}

// aboutLeases reports whether an event may change the list of leases or the queue.
export function aboutLeases(e: Event): boolean {
  return e.lease !== undefined || /^(lease_|gap$|optimized|device_(lost|quarantined|found|drained|undrained))/.test(e.code);
}

// aboutAlerts reports whether an event may change the list of alerts.
export function aboutAlerts(e: Event): boolean {
  return /^(alert|rules|gap$)/.test(e.code);
}
