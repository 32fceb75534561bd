import { memo } from 'preact/compat';
import { useState } from 'preact/hooks';
import type { Lease, LeasePart } from '../api/types';
import { available, leasesOn } from '../live/state';
import { to } from '../router';
import { Badge } from '../ui/badge';
import { memory, percent } from '../ui/format';
import { useGradual } from '../ui/gradual';
import { hue } from '../ui/hue';
import { Fill } from '../ui/memory';
import { fits } from './filter';

const few = 4;

// Berths lists the leases on a device, the largest first, and what strangers use.
export function Berths({ uuid, filter }: { uuid: string; filter: string }) {
  const [all, setAll] = useState(false);
  const most = useGradual(all ? leasesOn(uuid).value.length * 2 : few, few, 5);
  const found = leasesOn(uuid).value.filter((l) => fits(l, filter));
  const strangers = available.value.get(uuid)?.foreign_mb ?? 0;
  if (found.length === 0 && strangers <= 0) {
    return <p class="berths-none">{filter === '' ? 'Nobody holds anything here.' : 'No lease here fits the filter.'}</p>;
  }
  const rows = found
    .flatMap((lease) => lease.parts.filter((p) => p.gpu === uuid).map((part) => ({ lease, part })))
    .sort((a, b) => b.part.memory_mb - a.part.memory_mb || a.lease.fence - b.lease.fence);
  const shown = all ? rows.slice(0, most) : rows.slice(0, rows.length === few + 1 ? few + 1 : few);
  return (
    <ul class="berths">
      {shown.map(({ lease, part }) => <Berth key={lease.fence} lease={lease} part={part} />)}
      {rows.length > shown.length || all ? (
        <li class="berths-more">
          <button type="button" class="plain" onClick={() => setAll(!all)}>{all ? 'Show fewer' : `${rows.length - shown.length} more, ${memory(rest(rows, shown.length))}`}</button>
        </li>
      ) : null}
      {strangers > 0 && <Strangers size={strangers} />}
    </ul>
  );
}

// driver is more memory than the driver of a device takes for itself.
const driver = 1024;

// Strangers says how much memory is used by nobody's lease: by processes under none,
// or only by the driver itself.
function Strangers({ size }: { size: number }) {
  return (
    <li class="berth stranger" title="Memory that processes under no lease, and the driver itself, use">
      <i class="swatch" aria-hidden="true" />
      <span class="berth-id">{size > driver ? 'under no lease' : 'driver'}</span>
      <span class="berth-use">{memory(size)}</span>
    </li>
  );
}

function rest(rows: { part: LeasePart }[], from: number): number {
  return rows.slice(from).reduce((sum, r) => sum + r.part.memory_mb, 0);
}

interface Row {
  lease: Lease;
  part: LeasePart;
}

// same reports whether two leases look the same in a row. Their energy, for example,
// changes all the time and is not in it.
function same(a: Row, b: Row): boolean {
  if (a.lease === b.lease && a.part === b.part) return true;
  const [x, y] = [a.lease, b.lease];
  return x.fence === y.fence && x.state === y.state && x.holder.service === y.holder.service && x.holder.user === y.holder.user && x.holder.name === y.holder.name
    && a.part.memory_mb === b.part.memory_mb && Math.abs((a.part.measured_mb ?? -1) - (b.part.measured_mb ?? -1)) < 8
    && x.paced?.share === y.paced?.share && x.idle?.since === y.idle?.since && x.parts.length === y.parts.length;
}

const Berth = memo(function Berth({ lease: l, part: p }: Row) {
  const tone = `hue-${hue(l.holder)}`;
  const used = p.measured_mb;
  const who = l.holder.service && l.holder.service !== l.id ? `${l.holder.service} · ${l.holder.user ?? ''}` : (l.holder.user ?? '');
  return (
    <li class="berth">
      <i class={`swatch ${tone}`} aria-hidden="true" />
      <a class="berth-id" href={to.lease(l.holder.user, l.id)} title={l.holder.name ? `${l.id}: ${l.holder.name}` : l.id}>{l.id}</a>
      <span class="berth-who" title={who}>{who}</span>
      <span class="berth-tags">
        {l.state !== 'active' && <Badge tone="info">{l.state}</Badge>}
        {l.idle && <Badge tone="off" title="Its processes do not use the device">idle</Badge>}
        {l.paced && <Badge tone="warn" title="Held to a share of its speed">{percent(l.paced.share * 100)}</Badge>}
        {l.parts.length > 1 && <Badge tone="off" title={`On ${l.parts.length} GPUs`}>{`×${l.parts.length}`}</Badge>}
      </span>
      <Fill used={used ?? 0} asked={p.memory_mb} tone={tone} />
      <span class="berth-use" title={`Asked for ${memory(p.memory_mb)}, uses ${memory(used)}`}>
        {p.memory_mb === 0 ? 'slot only' : used === undefined || used === 0 ? memory(p.memory_mb) : `${memory(used)} of ${memory(p.memory_mb)}`}
      </span>
    </li>
  );
}, same);
