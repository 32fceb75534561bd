import { computed, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { call } from '../api/client';
import type { Stray, Strays } from '../lease/strangers';
import { usePolled } from '../live/poll';
import { available } from '../live/state';
import { driver } from '../ui/stack';

const known = signal<Strays | undefined>(undefined);

const some = computed(() => [...available.value.values()].some((a) => a.foreign_mb > driver));

// useStrays asks for the processes under no lease while there are any that matter.
export function useStrays(): void {
  const ask = some.value;
  const found = usePolled(async (signal) => (ask ? call<Strays>('/api/orphans', { signal }) : undefined), ask ? 5000 : 60_000, [ask]).data;
  useEffect(() => {
    known.value = found;
  }, [found]);
}

// straysOn lists the processes on a device that use memory under no lease, the largest
// first.
export function straysOn(uuid: string): Stray[] {
  const all = [...(known.value?.foreign ?? []), ...(known.value?.orphans ?? [])];
  return all.filter((s) => s.gpu === uuid && (s.memory_mb ?? 0) > 0).sort((a, b) => (b.memory_mb ?? 0) - (a.memory_mb ?? 0));
}
