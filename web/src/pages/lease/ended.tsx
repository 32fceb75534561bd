import type { PastLease } from '../../api/types';
import { how } from '../../lease/words';
import { deviceLabel } from '../../live/around';
import { to } from '../../router';
import { Badge } from '../../ui/badge';
import { Fact, Facts } from '../../ui/facts';
import { clock, duration, joules, memory, plural } from '../../ui/format';
import { Panel } from '../../ui/panel';
import { Table } from '../../ui/table';
import { Ago } from '../../ui/time';
import { Used } from './used';

// Ended shows what a lease was that has ended: the newest with its name, and below
// it those before.
export function Ended({ list, id }: { list: PastLease[]; id: string }) {
  const l = list[0]!;
  const seconds = (Date.parse(l.ended) - Date.parse(l.granted)) / 1000;
  return (
    <article class="view" data-lease={id}>
      <header class="view-head">
        <div>
          <p class="crumbs"><a href={to.overview()}>Leases</a> / {l.holder.user ?? 'another user'} /</p>
          <h1>{id}</h1>
          <p class="state-line"><Badge tone="off">ended</Badge> <span>It {how[l.how] ?? l.how} <Ago at={l.ended} />, after {duration(seconds)}{l.by ? `, by ${l.by}` : ''}{l.why ? `: ${l.why}` : ''}.</span></p>
        </div>
      </header>
      <Panel title="What it was">
        <Facts>
          <Fact name="Program">{l.holder.name}</Fact>
          <Fact name="Holder">{l.holder.user ?? 'another user'}</Fact>
          <Fact name="Service">{l.holder.service}</Fact>
          <Fact name="Granted">{clock(l.granted)}</Fact>
          <Fact name="Ended">{clock(l.ended)}</Fact>
          <Fact name="Held">{l.parts.map((p) => `${memory(p.memory_mb)}${p.slots > 0 ? ` and ${plural(p.slots, 'slot')}` : ''} on ${deviceLabel(p.gpu)}`).join(', ')}</Fact>
          <Fact name="Used at most">{l.peak_mb > 0 ? `${memory(l.peak_mb)} on one GPU` : 'nothing was measured'}</Fact>
          <Fact name="Energy">{l.energy_joules === undefined ? '' : joules(l.energy_joules)}</Fact>
          <Fact name="Fence">{String(l.fence)}</Fact>
        </Facts>
      </Panel>
      <Used name={`${l.holder.user ?? ''}/${l.id}`} parts={l.parts} since={l.granted} until={l.ended} />
      {list.length > 1 && (
        <Panel title="Earlier leases with this name">
          <Table
            label="Earlier leases with this name"
            columns={[
              { name: 'Ended', cell: (p) => <Ago at={p.ended} /> },
              { name: 'How', cell: (p) => how[p.how] ?? p.how },
              { name: 'For', numeric: true, cell: (p) => duration((Date.parse(p.ended) - Date.parse(p.granted)) / 1000) },
              { name: 'Leased', numeric: true, cell: (p) => memory(p.parts.reduce((n, x) => n + x.memory_mb, 0)) },
              { name: 'Used', numeric: true, cell: (p) => (p.peak_mb > 0 ? memory(p.peak_mb) : '–') },
            ]}
            rows={list.slice(1)}
            id={(p) => p.fence}
            empty=""
          />
        </Panel>
      )}
    </article>
  );
}
