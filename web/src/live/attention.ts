import type { Alert, Lease, Status, Waiting } from '../api/types';
import { clock, duration, memory } from '../ui/format';
import type { Freshness } from './freshness';
import type { Machine } from './state';

// Item is something that needs a person.
export interface Item {
  key: string;
  tone: 'bad' | 'warn';
  what: string; // one word or two
  text: string;
  to?: { gpu: string } | { lease: Lease } | { page: 'alerts' } | { waiting: Waiting };
}

export interface Facts {
  freshness: Freshness;
  answeredAt: number | undefined;
  machine: Machine | undefined;
  devices: readonly Status[];
  leases: readonly Lease[];
  waiting: readonly Waiting[];
  alerts: readonly Alert[];
  now: number; // ms, to the minute
}

const stuckAfter = 5 * 60_000; // of a lease whose memory is on its way
const longWait = 15 * 60_000;

// attention lists what needs a person, the worst first.
export function attention(f: Facts): Item[] {
  const items: Item[] = [];
  const add = (tone: Item['tone'], key: string, what: string, text: string, to?: Item['to']) => items.push({ key, tone, what, text, to });
  const seen = f.answeredAt === undefined ? '' : ` What you see is from ${clock(f.answeredAt)}.`;
  if (f.freshness === 'gone') {
    add('bad', 'gone', 'No daemon', `The daemon does not answer. This page asks again every second.${seen}`);
  } else if (f.freshness === 'stale') {
    add('bad', 'stale', 'Stale', `The daemon has not answered for more than 5 seconds.${seen}`);
  }
  if (f.machine && !f.machine.monitoring) {
    add('warn', 'monitoring', 'Not measuring', 'The sampling loop is stopped, so temperatures and memory are old. An operator starts it with POST /api/gpu/monitoring/start.');
  }
  for (const d of f.devices) {
    const name = `GPU ${d.device.index}`;
    const to = { gpu: d.device.uuid };
    const key = d.device.uuid;
    const phase = d.trust?.phase;
    if (d.state === 'CRITICAL' || d.state === 'UNAVAILABLE') {
      add('bad', `state ${key}`, d.state, `${name}: ${sentence(d.reason)}`, to);
    } else if (d.health === 'unhealthy') {
      add('bad', `health ${key}`, 'Unhealthy', `${name} is unhealthy. ${sentence(d.reason)}`, to);
    }
    if (phase === 'quarantine') {
      add('warn', `trust ${key}`, 'Quarantine', `${name} is in quarantine${d.trust?.why ? `: ${sentence(d.trust.why)}` : '.'}`, to);
    }
    if (d.stale && d.state !== 'UNAVAILABLE') {
      add('warn', `old ${key}`, 'Old sample', `${name} has not answered the daemon for a while, so its figures are old.`, to);
    }
  }
  for (const a of f.alerts) {
    if (a.state !== 'firing' || a.acknowledged) continue;
    add(a.severity === 'critical' ? 'bad' : 'warn', `alert ${a.fingerprint}`, 'Alert', sentence(a.annotations.summary ?? a.annotations.description ?? a.alert), { page: 'alerts' });
  }
  for (const l of f.leases) {
    const whose = l.holder.user ? `${l.holder.user}/${l.id}` : l.id;
    if (l.parking?.failed) {
      add('warn', `parking ${l.fence}`, 'Stuck', `Parking of ${whose}: ${sentence(l.parking.failed)}`, { lease: l });
    } else if ((l.state === 'parking' || l.state === 'resuming') && l.parking && f.now - Date.parse(l.parking.since) > stuckAfter) {
      add('warn', `moving ${l.fence}`, 'Stuck', `${whose} has been ${l.state} for ${duration((f.now - Date.parse(l.parking.since)) / 1000)}.`, { lease: l });
    }
    for (const p of l.parts) {
      const over = (p.measured_mb ?? 0) - p.memory_mb;
      if (l.state === 'active' && p.memory_mb > 0 && over > Math.max(256, p.memory_mb * 0.02)) {
        add('warn', `over ${l.fence} ${p.gpu}`, 'Over its lease', `${whose} uses ${memory(p.measured_mb)} and leased ${memory(p.memory_mb)}.`, { lease: l });
      }
    }
  }
  const late = f.waiting.filter((w) => f.now - Date.parse(w.since) > longWait);
  if (late.length === 1) {
    const w = late[0]!;
    add('warn', 'late', 'Waits long', `${w.holder.user ? `${w.holder.user}/${w.id}` : w.id} has waited for ${duration((f.now - Date.parse(w.since)) / 1000)}.`, { waiting: w });
  } else if (late.length > 1) {
    const longest = Math.min(...late.map((w) => Date.parse(w.since)));
    add('warn', 'late', 'Wait long', `${late.length} requests have waited for more than ${duration(longWait / 1000)}, the longest for ${duration((f.now - longest) / 1000)}.`);
  }
  return items.sort((a, b) => Number(a.tone === 'warn') - Number(b.tone === 'warn'));
}

// sentence ends a text with a full stop and begins it with a capital letter.
export function sentence(text: string): string {
  const t = text.trim();
  if (t === '') return '';
  const first = t[0]!.toUpperCase() + t.slice(1);
  return /[.!?…]$/.test(first) ? first : `${first}.`;
}
