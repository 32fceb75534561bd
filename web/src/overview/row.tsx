import { useComputed } from '@preact/signals';
import { memo } from 'preact/compat';
import type { Need } from '../api/types';
import { sentence } from '../live/attention';
import { useStable } from '../live/hooks';
import { available, device, leasesAsked, leasesOn } from '../live/state';
import { to } from '../router';
import { StateBadge } from '../ui/badge';
import { memory, shortName } from '../ui/format';
import { hue } from '../ui/hue';
import { MemoryStack } from '../ui/memory';
import { driver } from '../ui/stack';
import { Berths } from './berths';
import { Curves } from './card';
import { dead, type Figure, heat, load, power, Small, useStack, useValue } from './figures';
import { Notes, slotsSay } from './notes';
import { sharesOf } from './people';

// Columns says which columns a row of a device has besides its name, its load, its heat
// and its memory.
export interface Columns {
  figures: boolean; // state, power and slots
  who: boolean;
  model: boolean; // not all devices are the same
}

// Row shows one device in a line. Below it are what is the matter with it, and its
// leases (leases), or everything that its card has (open).
export const Row = memo(function Row({ uuid, figures, who, model, filter, leases, open, trouble, onOpen }: Columns & {
  uuid: string;
  filter: string;
  leases: boolean;
  open: boolean;
  trouble: Need | undefined;
  onOpen: (uuid: string) => void;
}) {
  const head = useStable(() => {
    const s = device(uuid).value;
    return s && { index: s.device.index, name: s.device.name, state: s.state, reason: s.reason };
  });
  const some = useStable(() => leasesOn(uuid).value.length > 0 || (available.value.get(uuid)?.foreign_mb ?? 0) > driver);
  if (head === undefined) return null;
  const more = open || (leases && (some || filter !== ''));
  const columns = 4 + (figures ? 3 : 0) + (who ? 1 : 0);
  return (
    <tbody class={`row state-${head.state.toLowerCase()}${trouble ? ' trouble' : ''}`} data-gpu={uuid}>
      <tr>
        <th scope="row" class="row-name">
          <button type="button" class="plain chevron" aria-expanded={open} aria-label={`GPU ${head.index}: ${open ? 'less' : 'more'}`} onClick={() => onOpen(uuid)} />
          <a href={to.gpu(uuid)} title={head.name}>GPU {head.index}</a>{model && <span class="quiet row-model"> {shortName(head.name)}</span>}
        </th>
        {figures && <td class="row-state"><StateBadge state={head.state} title={head.reason} /></td>}
        <Figured uuid={uuid} figure={load} />
        <Figured uuid={uuid} figure={heat} />
        <td class="row-memory"><Memory uuid={uuid} /></td>
        {figures && <td class="row-power"><Watts uuid={uuid} /></td>}
        {figures && <td class="row-slots"><Slots uuid={uuid} /></td>}
        {who && <td class="row-who"><Who uuid={uuid} /></td>}
      </tr>
      {trouble && !open && <tr class="row-says"><td colSpan={columns}>{sentence(trouble.text.replace(/^GPU \d+ is [A-Z]+: /, ''))}</td></tr>}
      {more && (
        <tr class="row-more">
          <td colSpan={columns}>
            {open && (
              <div class="row-card">
                {!figures && <p><StateBadge state={head.state} title={head.reason} /></p>}
                <Notes uuid={uuid} />
                <Curves uuid={uuid} />
              </div>
            )}
            <Berths uuid={uuid} filter={filter} few={open ? 24 : 6} />
          </td>
        </tr>
      )}
    </tbody>
  );
});

function Figured({ uuid, figure: f }: { uuid: string; figure: Figure }) {
  return (
    <td class={`row-figure curve-${f.tone}`}>
      <div class="row-curve">
        <span class="curve-value">{useValue(uuid, f)}</span>
        <Small uuid={uuid} figure={f} />
      </div>
    </td>
  );
}

function Watts({ uuid }: { uuid: string }) {
  return <>{useValue(uuid, power)}</>;
}

function Memory({ uuid }: { uuid: string }) {
  const it = useStack(uuid);
  const used = useComputed(() => {
    const s = device(uuid).value;
    if (s?.sample === undefined || dead(s)) return '–';
    const mib = s.sample.memory_used_mb ?? 0;
    return it.total >= 10_240 ? (mib > 0 && mib < 512 ? '<1' : String(Math.round(mib / 1024))) : (mib / 1024).toFixed(1);
  });
  return (
    <div class="row-stack">
      <MemoryStack stack={it} />
      <span class="row-used"><b>{used}</b> <span class="quiet">of {memory(it.total)}</span></span>
    </div>
  );
}

function Slots({ uuid }: { uuid: string }) {
  const it = useStable(() => device(uuid).value?.slots);
  return it === undefined ? <>–</> : <span title={slotsSay(it)}>{it.active}<span class="quiet">/{it.usable}</span></span>;
}

const few = 3;

// Who says who holds most of a device, in a few words: those whose whole names have room,
// and how many there are.
function Who({ uuid }: { uuid: string }) {
  const list = sharesOf(uuid, leasesOn(uuid).value);
  const foreign = available.value.get(uuid)?.foreign_mb ?? 0;
  const all = list.map((s) => `${s.user || 'another user'}: ${memory(s.holds)}`);
  if (foreign > driver) all.push(`under no lease: ${memory(foreign)}`);
  if (all.length === 0) return <span class="quiet">{leasesAsked.value ? 'nobody' : ''}</span>;
  const strange = foreign > driver;
  return (
    <span class="who" title={all.join('\n')}>
      <span class="who-first">
        {list.slice(0, few).map((s) => (
          <span key={s.user} class="who-one">
            <i class={`swatch hue-${hue(s.lease.holder)}`} aria-hidden="true" />
            <b>{s.user || 'another'}</b> <span class="quiet">{memory(s.holds)}</span>
          </span>
        ))}
        {strange && <span class="who-one stranger"><i class="swatch" aria-hidden="true" /><b>no lease</b> <span class="quiet">{memory(foreign)}</span></span>}
      </span>
      {all.length > 1 && <span class="quiet">{all.length} in all</span>}
    </span>
  );
}
