import type { ComponentChildren } from 'preact';
import type { Status } from '../api/types';
import { useStable } from '../live/hooks';
import { available, device, leases, uuids, waiting } from '../live/state';
import { memory, percent, plural, shortName, watts } from '../ui/format';

// Summary says in one line how full and how busy the machine is.
export function Summary() {
  const it = useStable(() => {
    const all = uuids.value.map((u) => device(u).value).filter((d): d is Status => d !== undefined);
    const alive = all.filter((d) => d.sample !== undefined && d.state !== 'UNAVAILABLE');
    const total = all.reduce((sum, d) => sum + d.device.memory_total_mb, 0);
    const free = [...available.value.values()].reduce((sum, a) => sum + Math.max(0, a.available_mb), 0);
    const load = alive.map((d) => d.sample!.utilization_percent).filter((v) => v !== undefined);
    const power = alive.filter((d) => d.sample!.power_of === undefined).map((d) => d.sample!.power_watts ?? 0);
    return {
      devices: all.length,
      model: new Set(all.map((d) => d.device.name)).size === 1 ? shortName(all[0]!.device.name) : '',
      leases: plural(leases.value.length, 'lease'),
      waiting: waiting.value.length === 0 ? 'nobody waits' : `${waiting.value.length} waiting`,
      load: load.length === 0 ? '–' : percent(load.reduce((a, b) => a + b, 0) / load.length),
      power: watts(Math.round(power.reduce((a, b) => a + b, 0) / 10) * 10),
      free: memory(free),
      total: memory(total),
    };
  });
  return (
    <dl class="summary">
      <Figure name="GPUs">{it.devices}{it.model !== '' && <small> × {it.model}</small>}</Figure>
      <Figure name="Load">{it.load}</Figure>
      <Figure name="Power">{it.power}</Figure>
      <Figure name="Can be leased">{it.free} <small>of {it.total}</small></Figure>
      <Figure name="Held">{it.leases}</Figure>
      <Figure name="Queue">{it.waiting}</Figure>
    </dl>
  );
}

function Figure({ name, children }: { name: string; children: ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}
