import { useComputed } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { equal } from './share';

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
