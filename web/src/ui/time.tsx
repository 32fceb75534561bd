import { useComputed } from '@preact/signals';
import { minute, now } from '../live/state';
import { ago, duration, moment } from './format';

// Ago shows how long ago a time was, and keeps up with the clock. Only its text
// changes: the part around it is not drawn again.
export function Ago({ at }: { at: string | undefined }) {
  const text = useComputed(() => {
    if (at === undefined) return '–';
    const old = Math.abs(minute.value - Date.parse(at)) > 10 * 60_000;
    return ago(at, old ? minute.value : now.value);
  });
  return <time dateTime={at} title={moment(at)}>{text}</time>;
}

// For shows how long something has lasted.
export function For({ since }: { since: string | undefined }) {
  const text = useComputed(() => {
    if (since === undefined) return '–';
    const at = Date.parse(since);
    const old = minute.value - at > 10 * 60_000;
    return duration(((old ? minute.value : now.value) - at) / 1000);
  });
  return <time dateTime={since} title={moment(since)}>{text}</time>;
}
