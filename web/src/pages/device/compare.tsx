import { memo } from 'preact/compat';
import { useMemo, useState } from 'preact/hooks';
import { api } from '../../api/client';
import { over, selector } from '../../history/query';
import { everyMs, type Range, stepFor, summed, window } from '../../history/ranges';
import { type Column, column, grid } from '../../history/series';
import { deviceLabel } from '../../live/around';
import { usePolled } from '../../live/poll';
import { equal } from '../../live/share';
import { now, settings, uuids } from '../../live/state';
import { Chart, type Line, memorySteps } from '../../ui/chart';
import { celsius, memory, percent, watts } from '../../ui/format';
import { Panel } from '../../ui/panel';

const figures = [
  { key: 'load', name: 'Load', metric: 'gpu_utilization_percent', unit: percent, range: [0, 100] as [number, number] },
  { key: 'heat', name: 'Temperature', metric: 'gpu_temperature_celsius', unit: celsius, range: [null, null] as [null, null] },
  { key: 'power', name: 'Power', metric: 'gpu_power_usage_watts', unit: watts, range: [0, null] as [number, null] },
  { key: 'memory', name: 'Memory', metric: 'gpu_memory_usage_mb', unit: memory, range: [0, null] as [number, null], incrs: memorySteps },
];

const most = 8; // so many lines can be told apart

// spread returns the least, the middle and the most of several columns at each time.
export function spread(columns: readonly Column[]): [Column, Column, Column] {
  const length = columns[0]?.length ?? 0;
  const out: [Column, Column, Column] = [[], [], []];
  for (let i = 0; i < length; i++) {
    const values = columns.map((c) => c[i]).filter((v): v is number => v !== null && v !== undefined).sort((a, b) => a - b);
    const at = (k: number) => values[Math.min(values.length - 1, Math.floor(k * values.length))] ?? null;
    out[0].push(at(0));
    out[1].push(at(0.5));
    out[2].push(at(1));
  }
  return out;
}

// Compare draws one figure of this GPU beside those of the others; of many others, the
// least, the middle and the most.
export const Compare = memo(function Compare({ uuid, r, onZoom }: { uuid: string; r: Range; onZoom: (from: number, to: number) => void }) {
  const [key, setKey] = useState('load');
  const f = figures.find((it) => it.key === key)!;
  const all = uuids.value;
  const off = settings.value === undefined || settings.value.past?.store === 'off';
  const polled = usePolled(async (signal) => {
    if (off) return undefined;
    const range: Range = { ...r, step: stepFor(r.seconds, 300, r.reach) };
    const { start, end } = window(range, now.peek() / 1000);
    const answer = await api.range(summed(range) ? over('avg', f.metric, {}, range) : selector(f.metric, {}), start, end, range.step, { signal, timeout: 30_000 });
    const times = grid(start, end, range.step);
    return { key: `${f.key} ${r.key}`, times, found: answer.result.map((s) => ({ gpu: s.metric.gpu ?? '', values: column(s, times) })) };
  }, everyMs(r), [key, r.key, off]);
  const d = polled.data?.key === `${f.key} ${r.key}` ? polled.data : undefined;
  const shown = useMemo(() => {
    const own = d?.found.find((s) => s.gpu === uuid);
    if (d === undefined || own === undefined) return undefined;
    const others = d.found.filter((s) => s.gpu !== uuid && all.includes(s.gpu)).sort((a, b) => all.indexOf(a.gpu) - all.indexOf(b.gpu));
    const few = others.length < most;
    const lines: Line[] = [{ label: deviceLabel(uuid), colour: '--ink', unit: f.unit, bold: true }];
    const data: (number[] | Column)[] = [d.times, own.values];
    if (few) {
      others.forEach((s, i) => {
        lines.push({ label: deviceLabel(s.gpu), colour: `--lease-${(i % 6) + 1}`, unit: f.unit, dashed: i >= 6 });
        data.push(s.values);
      });
    } else {
      const [low, middle, high] = spread(others.map((s) => s.values));
      lines.push({ label: 'most', tone: 'heat', unit: f.unit }, { label: 'middle', tone: 'quiet', unit: f.unit }, { label: 'least', tone: 'load', unit: f.unit });
      data.push(high, middle, low);
    }
    return { lines, data, others: others.length, few };
  }, [d, uuid, all]);
  return (
    <Panel
      title="Beside the others"
      note={shown && !shown.few ? `the least, the middle and the most of ${shown.others} others` : undefined}
      aside={(
        <div class="tabs" role="group" aria-label="What to compare">
          {figures.map((it) => <button key={it.key} type="button" class="tab" aria-pressed={it.key === key} onClick={() => setKey(it.key)}>{it.name}</button>)}
        </div>
      )}
    >
      {off
        ? <p class="empty">This daemon remembers no past, so there is nothing to compare.</p>
        : shown === undefined
          ? <p class="empty compare-wait" role="status">{polled.error ? polled.error.message : d ? `berth has nothing of this GPU from the ${r.words} yet.` : `Asking for the ${r.words} …`}</p>
          : (
            <Chart key={`${key} ${shown.few} ${shown.others}`} label={`${f.name} of ${deviceLabel(uuid)} beside ${shown.others} others in the ${r.words}.`} lines={shown.lines} data={shown.data as never}
              range={f.range} height={200} onZoom={onZoom} {...(f.incrs ? { incrs: f.incrs } : {})} />
          )}
    </Panel>
  );
}, (a, b) => a.uuid === b.uuid && equal(a.r, b.r));
