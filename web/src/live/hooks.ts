import { type ReadonlySignal, useComputed } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { equal } from './share';
import type { Status } from '../api/types';
import { device } from './state';

// useStable follows what is read from signals, and draws the component again only
// when it says something else.
export function useStable<T>(read: () => T): T {
  const last = useRef<{ value: T } | undefined>(undefined);
  return useComputed(() => {
    const value = read();
    if (last.current !== undefined && equal(last.current.value, value)) return last.current.value;
    last.current = { value };
    return value;
  }).value;
}

// useField follows one figure of a device as a signal: put into JSX, only its text
// changes, and no component is drawn again.
export function useField<T extends string | number | undefined>(uuid: string, read: (s: Status) => T): ReadonlySignal<T | undefined> {
  return useComputed(() => {
    const s = device(uuid).value;
    return s === undefined ? undefined : read(s);
  });
}
