import { useMemo } from 'preact/hooks';
import { api, Refusal } from '../../api/client';
import type { LeasePart } from '../../api/types';
import { selector } from '../../history/query';
import { ranges, type Range, stepFor } from '../../history/ranges';
import { column, grid, summary } from '../../history/series';
import { usePolled } from '../../live/poll';
import { now, settings } from '../../live/state';
import { Chart, type Line, memorySteps } from '../../ui/chart';
import { memory } from '../../ui/format';
import { Panel } from '../../ui/panel';

// Used draws what a lease used against what it asked for, over its life, at most the
// longest range that berth keeps.
export function Used({ name, parts, since, until }: { name: string; parts: LeasePart[]; since: string | undefined; until: string | undefined }) {
  const longest = ranges[ranges.length - 1] as Range;
  const key = parts.map((p) => p.gpu).join();
  const known = settings.value !== undefined;
  const none = settings.value?.past?.store === 'off';
  const polled = usePolled(async (signal) => {
    if (none || !known) return undefined;
    const end = until === undefined ? now.peek() / 1000 : Date.parse(until) / 1000;
    const begun = since === undefined ? end - 3600 : Date.parse(since) / 1000;
    const seconds = Math.min(longest.seconds, Math.max(120, end - begun));
    const step = stepFor(seconds, 800);
    const stop = Math.ceil(end / step) * step;
    const start = Math.floor((end - seconds) / step) * step;
    const ask = (metric: string, how: 'avg' | 'max') => {
      const chosen = selector(metric, { lease: name });
      const at = step < 60 ? chosen : `${how}_over_time(${chosen}[${step}s])`;
      return api.range(`sum(${at})`, start, stop, step, { signal });
    };
    const [used, asked] = await Promise.all([ask('berth_lease_used_mb', 'max'), ask('berth_lease_memory_mb', 'avg')]);
    const times = grid(start, stop, step);
    return { times, used: column(used.result[0], times), asked: column(asked.result[0], times) };
  }, 20_000, [name, key, since, until, none, known]);
  const lines = useMemo<Line[]>(() => [{ label: 'used', tone: 'memory', unit: memory }, { label: 'leased', tone: 'quiet', unit: memory, dashed: true }], []);
  const d = polled.data;
  const data = useMemo(() => (d ? [d.times, d.used, d.asked] : undefined), [d]);
  const s = d ? summary({ value: d.used }) : undefined;
  const off = none || polled.error instanceof Refusal && polled.error.status === 404;
  return (
    <Panel title="Memory over time" note={s && s.most !== null ? `at most ${memory(s.most)}, on average ${memory(s.average ?? undefined)}` : undefined}>
      {off || polled.error
        ? <p class="empty">{off ? 'This daemon remembers no past (past.store is off), so there is no curve.' : polled.error?.message}</p>
        : data === undefined
          ? <p class="empty plots-wait" role="status">Asking for the past …</p>
          : s && s.most === null && d?.asked.every((v) => v === null)
            ? <p class="empty">{until === undefined && now.value - Date.parse(since ?? '') < 75_000 ? 'The curve comes when the lease is a minute old, and begins at its grant.' : 'There is no curve: berth keeps one for leases that last longer than a minute, and shows it to those who may see names.'}</p>
            : <Chart label={`Memory used by ${name} against what it leased: now ${memory(s?.last ?? undefined)}, at most ${memory(s?.most ?? undefined)}.`} lines={lines} data={data as never} range={[0, null]} height={180} incrs={memorySteps} />}
    </Panel>
  );
}
