import type { DeviceAvailable, Lease, Status, Waiting } from '../api/types';
import { csv } from '../ui/save';

// fields are the columns of the overview as comma-separated values. Memory is in MiB.
const fields = ['time', 'host', 'gpu', 'index', 'name', 'state', 'reason', 'health', 'load_percent', 'temperature_celsius', 'power_watts', 'memory_total_mb', 'memory_used_mb', 'available_mb', 'under_no_lease_mb', 'slots_used', 'slots_usable', 'user', 'service', 'lease', 'lease_state', 'leased_mb', 'lease_used_mb'] as const;

export interface Exported {
  time: string; // when the daemon answered
  host: string;
  gpus: Status[];
  available: DeviceAvailable[];
  leases: readonly Lease[];
  waiting: readonly Waiting[];
}

// asCSV writes a line for each lease on each device, and one for a device without any.
export function asCSV(e: Exported): string {
  const rows = e.gpus.flatMap((s) => {
    const room = e.available.find((a) => a.gpu === s.device.uuid);
    const gpu = {
      time: e.time, host: e.host, gpu: s.device.uuid, index: s.device.index, name: s.device.name, state: s.state, reason: s.reason, health: s.health,
      load_percent: s.sample?.utilization_percent, temperature_celsius: s.sample?.temperature_celsius, power_watts: s.sample?.power_watts,
      memory_total_mb: s.device.memory_total_mb, memory_used_mb: s.sample?.memory_used_mb, available_mb: room?.available_mb, under_no_lease_mb: room?.foreign_mb,
      slots_used: s.slots.active, slots_usable: s.slots.usable,
    };
    const held = e.leases.flatMap((l) => l.parts.filter((p) => p.gpu === s.device.uuid).map((p) => ({
      ...gpu, user: l.holder.user, service: l.holder.service, lease: l.id, lease_state: l.state, leased_mb: p.memory_mb, lease_used_mb: p.measured_mb,
    })));
    return held.length > 0 ? held : [gpu];
  });
  return csv(rows, fields);
}

export function asJSON(e: Exported): string {
  return `${JSON.stringify(e, undefined, 2)}\n`;
}
