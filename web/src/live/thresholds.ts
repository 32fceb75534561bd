import type { Settings } from '../api/types';

export interface Thresholds {
  normal: number;
  throttle: number;
  critical: number;
}

// thresholds returns the temperatures above which a device is warm, is slowed down,
// and gets nothing more. Settings of the device come before those of all; they may
// name it by its UUID or its index.
export function thresholds(s: Settings | undefined, uuid: string, index: number): Thresholds | undefined {
  if (s === undefined) return undefined;
  const own = s.devices?.[uuid] ?? s.devices?.[String(index)];
  const normal = own?.temp_normal ?? s.temp_normal;
  const throttle = own?.temp_throttle ?? s.temp_throttle;
  const critical = own?.temp_critical ?? s.temp_critical;
  return typeof throttle === 'number' && typeof critical === 'number' ? { normal, throttle, critical } : undefined;
}
