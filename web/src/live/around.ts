import { computed, type ReadonlySignal } from '@preact/signals';
import type { Around } from '../actions/leases';
import { device, me, settings } from './state';

const labels = new Map<string, ReadonlySignal<string>>();

// deviceLabel is what people call a device: GPU 0. One that is gone has only its UUID.
// It follows the index alone: what else changes on a device every second draws
// nothing again.
export function deviceLabel(uuid: string): string {
  let label = labels.get(uuid);
  if (label === undefined) {
    label = computed(() => {
      const s = device(uuid).value;
      return s === undefined ? uuid : `GPU ${s.device.index}`;
    });
    labels.set(uuid, label);
  }
  return label.value;
}

// deviceLabels names several devices: GPU 0, 3.
export function deviceLabels(list: readonly string[]): string {
  const all = list.map(deviceLabel);
  return all.map((label, i) => (label.startsWith('GPU ') && all[i - 1]?.startsWith('GPU ') ? label.slice(4) : label)).join(', ');
}

// around has what sentences about acts need.
export function around(): Around {
  return { me: me.value, settings: settings.value, gpu: deviceLabel };
}
