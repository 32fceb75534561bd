import type { Settings } from '../api/types';

export interface Thresholds {
  throttle: number;
  critical: number;
}

// thresholds returns the temperatures from which a device is slowed down and from
// which nothing is granted there. Settings of the device come before those of all;
// they may name it by its UUID or its index.
export function thresholds(s: Settings | undefined, uuid: string, index: number): Thresholds | undefined {
  if (s === undefined) return undefined;
  const own = s.devices?.[uuid] ?? s.devices?.[String(index)];
  const throttle = own?.temp_throttle ?? s.temp_throttle;
  const critical = own?.temp_critical ?? s.temp_critical;
  return typeof throttle === 'number' && typeof critical === 'number' ? { throttle, critical } : undefined;
}
