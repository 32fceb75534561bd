import { memo } from 'preact/compat';
import { useMemo } from 'preact/hooks';
import { call } from '../../api/client';
import type { Lease, Process } from '../../api/types';
import { type Place, placed, type Strays } from '../../lease/strangers';
import { usePolled } from '../../live/poll';
import { equal } from '../../live/share';
import { to } from '../../router';
import { Badge } from '../../ui/badge';
import { memory } from '../../ui/format';
import { Panel } from '../../ui/panel';
import { type Column, Table } from '../../ui/table';

const columns: Column<Place>[] = [
  { name: 'PID', numeric: true, sort: (p) => p.pid, cell: (p) => (p.pid > 0 ? p.pid : '–') },
  { name: 'Process', sort: (p) => p.name, cell: (p) => p.name || <span class="quiet">of another user</span> },
  { name: 'Memory', numeric: true, sort: (p) => p.memory_mb ?? -1, cell: (p) => memory(p.memory_mb) },
  {
    name: 'Lease', wide: true, sort: (p) => p.lease?.id ?? p.kind,
    cell: (p) => {
      if (p.lease) return <a href={to.lease(p.lease.holder.user, p.lease.id)}>{p.lease.id}</a>;
      if (p.kind === 'orphan') return <><Badge tone="warn">orphan</Badge> <span class="quiet">its lease has ended</span></>;
      if (p.kind === 'stranger') return <Badge tone="warn">stranger</Badge>;
      return <span class="quiet">not shown to you</span>;
    },
  },
];

// Processes lists what runs on a device, and under which lease. Strangers, which have
// none, are marked.
export const Processes = memo(function Processes({ uuid, processes, leases }: { uuid: string; processes: Process[] | undefined; leases: readonly Lease[] }) {
  const strays = usePolled((signal) => call<Strays>('/api/orphans', { signal }), 5000, [uuid]).data;
  const rows = useMemo(() => placed(uuid, processes ?? [], leases, strays), [processes, leases, strays]);
  const count = rows.filter((r) => r.kind === 'stranger' || r.kind === 'orphan').length;
  return (
    <Panel title="Processes" note={count > 0 ? `${count} under no lease` : undefined}>
      {processes === undefined
        ? <p class="empty">The driver does not say which processes use this GPU.</p>
        : <Table label="Processes on this GPU" columns={columns} rows={rows} id={(r) => r.key} empty="No process uses this GPU." />}
    </Panel>
  );
}, (a, b) => a.leases === b.leases && equal(a.processes, b.processes));
