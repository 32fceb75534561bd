import type { Around } from '../actions/leases';
import { device, me, settings } from './state';

// deviceLabel is what people call a device: GPU 0. One that is gone has only its UUID.
export function deviceLabel(uuid: string): string {
  const s = device(uuid).value;
  return s === undefined ? uuid : `GPU ${s.device.index}`;
}

// around has what sentences about acts need.
export function around(): Around {
  return { me: me.value, settings: settings.value, gpu: deviceLabel };
}
