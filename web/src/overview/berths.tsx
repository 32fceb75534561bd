import { memo } from 'preact/compat';
import { useState } from 'preact/hooks';
import type { Lease, LeasePart } from '../api/types';
import { holds } from '../lease/holds';
import type { Stray } from '../lease/strangers';
import { available, leasesOn } from '../live/state';
import { to } from '../router';
import { Badge } from '../ui/badge';
import { Cut } from '../ui/cut';
import { memory, percent, thin } from '../ui/format';
import { useGradual } from '../ui/gradual';
import { hue } from '../ui/hue';
import { Fill } from '../ui/memory';
import { driver } from '../ui/stack';
import { fits } from './filter';
import { straysOn } from './strays';

// Berths lists the leases on a device, the largest first, at most few of them until
// somebody asks for all, and the processes under no lease.
export function Berths({ uuid, filter, few = 4, bars }: { uuid: string; filter: string; few?: number; bars?: boolean }) {
  const [all, setAll] = useState(false);
  const most = useGradual(all ? leasesOn(uuid).value.length * 2 : few, few, 5);
  const found = leasesOn(uuid).value.filter((l) => fits(l, filter));
  const foreign = available.value.get(uuid)?.foreign_mb ?? 0;
  const strays = foreign > driver && filter === '' ? straysOn(uuid) : [];
  const nameless = foreign > driver && filter === '' && strays.length === 0;
  if (found.length === 0 && strays.length === 0 && !nameless) {
    return <p class="berths-none">{filter === '' ? 'Nobody holds anything here.' : 'No lease here fits the filter.'}</p>;
  }
  const rows = found
    .flatMap((lease) => lease.parts.filter((p) => p.gpu === uuid).map((part) => ({ lease, part })))
    .sort((a, b) => b.part.memory_mb - a.part.memory_mb || a.lease.fence - b.lease.fence);
  const shown = all ? rows.slice(0, most) : rows.slice(0, rows.length === few + 1 ? few + 1 : few);
  return (
    <ul class="berths">
      {shown.map(({ lease, part }) => <Berth key={lease.fence} lease={lease} part={part} bar={bars === true} />)}
      {strays.slice(0, 3).map((s, i) => <Stranger key={s.pid > 0 ? s.pid : `hidden-${i}`} stray={s} />)}
      {nameless && (
        <li class="berth stranger">
          <i class="swatch" aria-hidden="true" />
          <a class="berth-id" href={to.gpu(uuid)}>under no lease</a>
          <span class="berth-who" />
          <span class="berth-tags" />
          <span class="berth-use">{memory(foreign)}</span>
        </li>
      )}
      {strays.length > 3 && <li class="berths-more"><a href={to.gpu(uuid)}>{strays.length - 3} more processes under no lease</a></li>}
      {rows.length > shown.length || all ? (
        <li class="berths-more">
          <button type="button" class="plain" onClick={() => setAll(!all)}>{all ? 'Show fewer' : `${rows.length - shown.length} more, ${memory(rest(rows, shown.length))}`}</button>
        </li>
      ) : null}
    </ul>
  );
}

// Stranger is a process that uses memory under no lease. It leads to the processes of
// its device.
function Stranger({ stray: s }: { stray: Stray }) {
  const name = s.name || 'a process';
  const who = s.user ?? 'another user';
  return (
    <li class="berth stranger" title={`${name}${s.pid > 0 ? `, process ${s.pid}` : ''} of ${who} uses ${memory(s.memory_mb)} under no lease`}>
      <i class="swatch" aria-hidden="true" />
      <a class="berth-id" href={to.gpu(s.gpu)}><Cut text={name} /></a>
      <span class="berth-who"><b>{who}</b>{s.pid > 0 ? <span>{` · process ${s.pid}`}</span> : null}</span>
      <span class="berth-tags"><Badge tone="warn">no lease</Badge></span>
      <span class="berth-use">{memory(s.memory_mb)}</span>
    </li>
  );
}

function rest(rows: { lease: Lease; part: LeasePart }[], from: number): number {
  return rows.slice(from).reduce((sum, r) => sum + holds(r.lease, r.part), 0);
}

// usedOf says how much of what a lease asked for is in use: 12 of 24 GiB, 0 of 24 GiB.
export function usedOf(used: number | undefined, asked: number): string {
  if (asked === 0) return 'slot only';
  const [now, all] = [memory(used ?? 0), memory(asked)];
  const unit = all.slice(all.indexOf(thin));
  if ((used ?? 0) === 0) return `0 of ${all}`;
  return now.endsWith(unit) ? `${now.slice(0, -unit.length)} of ${all}` : `${now} of ${all}`;
}

interface Row {
  lease: Lease;
  part: LeasePart;
  bar: boolean;
}

// same reports whether two leases look the same in a row. Their energy, for example,
// changes all the time and is not in it.
function same(a: Row, b: Row): boolean {
  if (a.bar !== b.bar) return false;
  if (a.lease === b.lease && a.part === b.part) return true;
  const [x, y] = [a.lease, b.lease];
  return x.fence === y.fence && x.state === y.state && x.holder.service === y.holder.service && x.holder.user === y.holder.user && x.holder.name === y.holder.name
    && a.part.memory_mb === b.part.memory_mb && Math.abs((a.part.measured_mb ?? -1) - (b.part.measured_mb ?? -1)) < 8
    && x.paced?.share === y.paced?.share && x.idle?.since === y.idle?.since && x.parts.length === y.parts.length;
}

const Berth = memo(function Berth({ lease: l, part: p, bar }: Row) {
  const tone = `hue-${hue(l.holder)}`;
  const used = p.measured_mb;
  const user = l.holder.user ?? '';
  const service = l.holder.service && l.holder.service !== l.id ? l.holder.service : '';
  return (
    <li class="berth">
      <i class={`swatch ${tone}`} aria-hidden="true" />
      <a class="berth-id" href={to.lease(l.holder.user, l.id)} title={l.holder.name ? `${l.id}: ${l.holder.name}` : l.id}><Cut text={l.id} /></a>
      <span class="berth-who" title={[user, service].filter(Boolean).join(' · ')}><b>{user}</b>{service !== '' && <span>{user === '' ? service : ` · ${service}`}</span>}</span>
      <span class="berth-tags">
        {l.state !== 'active' && <Badge tone="info">{l.state}</Badge>}
        {l.idle && <Badge tone="off" title="Its processes do not use the device">idle</Badge>}
        {l.paced && <Badge tone="warn" title="Held to a share of its speed">{percent(l.paced.share * 100)}</Badge>}
        {l.parts.length > 1 && <Badge tone="off" title={`On ${l.parts.length} GPUs`}>{`×${l.parts.length}`}</Badge>}
      </span>
      {bar && <Fill used={used ?? 0} asked={p.memory_mb} tone={tone} />}
      <span class="berth-use" title={`Asked for ${memory(p.memory_mb)}, uses ${memory(used)}`}>{usedOf(used, p.memory_mb)}</span>
    </li>
  );
}, same);
