import { type ReadonlySignal, useComputed } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { Sample, Status } from '../api/types';
import type { Curve } from '../live/history';
import { useStable } from '../live/hooks';
import { available, device, leasesOn, settings } from '../live/state';
import { pointed, valueAt } from '../live/stretch';
import { thresholds } from '../live/thresholds';
import { setParams } from '../router';
import { celsius, percent, watts } from '../ui/format';
import { type Mark, Spark } from '../ui/spark';
import { stack, type Stack } from '../ui/stack';

// Figure is a quantity that is drawn small for each device.
export interface Figure {
  name: string;
  curve: Curve;
  tone: 'load' | 'heat' | 'power';
  text: (v: number | undefined) => string;
  read: (s: Sample) => number | undefined;
}

export const load: Figure = { name: 'Load', curve: 'load', tone: 'load', text: percent, read: (s) => s.utilization_percent };
export const heat: Figure = { name: 'Heat', curve: 'temperature', tone: 'heat', text: celsius, read: (s) => s.temperature_celsius };
export const power: Figure = { name: 'Power', curve: 'power', tone: 'power', text: watts, read: (s) => s.power_watts };

// zoom shows a part of the time that somebody marked.
function zoom(from: number, to: number): void {
  setParams({ from: String(Math.floor(from)), to: String(Math.ceil(to)) });
}

// Small draws the curve of a figure of a device.
export function Small({ uuid, figure: f }: { uuid: string; figure: Figure }) {
  const scale = useStable(() => {
    const s = device(uuid).value;
    if (s === undefined) return undefined;
    return { limit: thresholds(settings.value, uuid, s.device.index), watts: s.device.power_limit_watts };
  });
  const axis = useMemo(() => {
    const t = scale?.limit;
    const hot: Mark[] = t ? [{ at: t.throttle, tone: 'warn' }, { at: t.critical, tone: 'bad' }] : [];
    const most: Mark[] = scale?.watts ? [{ at: scale.watts, tone: 'quiet' }] : [];
    switch (f.tone) {
      case 'load': return { top: 100, bottom: 0 };
      case 'heat': return { top: Math.max((t?.critical ?? 90) + 6, 80), bottom: 25, marks: hot };
      case 'power': return { top: (scale?.watts ?? 400) * 1.04, bottom: 0, marks: most };
    }
  }, [scale, f]);
  return <Spark uuid={uuid} curve={f.curve} tone={f.tone} {...axis} onZoom={zoom} />;
}

// useValue follows the present figure, or that of the moment that somebody points at.
export function useValue(uuid: string, f: Figure): ReadonlySignal<string> {
  return useComputed(() => {
    const s = device(uuid).value;
    const at = pointed.value;
    if (at !== undefined) return f.text(valueAt(uuid, f.curve, at));
    return s?.sample === undefined || dead(s) ? '–' : f.text(f.read(s.sample));
  });
}

// dead reports whether a device says nothing, so that its last figures mean nothing.
export function dead(s: Status): boolean {
  return s.state === 'UNAVAILABLE' || s.stale === true;
}

// useStack follows how the memory of a device is divided.
export function useStack(uuid: string): Stack {
  const total = useStable(() => device(uuid).value?.device.memory_total_mb ?? 0);
  const leases = leasesOn(uuid).value;
  const room = available.value.get(uuid);
  return useMemo(() => stack(uuid, total, leases, room), [uuid, total, leases, room]);
}
