import type { Lease, Process } from '../api/types';

export interface Stray {
  gpu: string;
  pid: number;
  name?: string;
  user?: string;
  memory_mb?: number;
}

export interface Strays {
  orphans: Stray[];
  foreign: Stray[];
}

// Place is a process on a device, with the lease that it belongs to.
export interface Place {
  key: string;
  pid: number; // 0: the caller may not see it
  name: string;
  memory_mb: number | undefined;
  kind: 'lease' | 'orphan' | 'stranger' | 'unknown';
  lease: Lease | undefined;
}

// placed finds the lease of each process on a device. A process that the caller may
// not see has no pid; it counts as a stranger if one of the strays, equally without
// pid, uses as much memory.
export function placed(uuid: string, processes: readonly Process[], leases: readonly Lease[], strays: Strays | undefined): Place[] {
  const owner = new Map<number, Lease>();
  for (const l of leases) {
    for (const p of l.processes ?? []) if (p.gpu === uuid && p.pid > 0) owner.set(p.pid, l);
  }
  const here = (list: Stray[] | undefined) => (list ?? []).filter((s) => s.gpu === uuid);
  const orphans = here(strays?.orphans);
  const foreign = here(strays?.foreign);
  const take = (list: Stray[], p: Process): boolean => {
    const i = list.findIndex((s) => (p.pid > 0 ? s.pid === p.pid : s.pid === 0 && s.memory_mb === p.memory_mb));
    if (i < 0) return false;
    list.splice(i, 1);
    return true;
  };
  return processes.map((p, i) => {
    const lease = p.pid > 0 ? owner.get(p.pid) : undefined;
    let kind: Place['kind'] = 'lease';
    if (lease === undefined) kind = take(orphans, p) ? 'orphan' : take(foreign, p) ? 'stranger' : p.pid > 0 && strays === undefined ? 'unknown' : p.pid > 0 ? 'stranger' : 'unknown';
    return { key: p.pid > 0 ? `${p.pid}` : `hidden-${i}`, pid: p.pid, name: p.name ?? '', memory_mb: p.memory_mb, kind, lease };
  });
}
