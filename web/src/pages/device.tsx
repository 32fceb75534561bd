import { useComputed } from '@preact/signals';
import { memo } from 'preact/compat';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { call } from '../api/client';
import type { Device, Lease, Status } from '../api/types';
import { Acts } from '../actions/dialog';
import { deviceActs } from '../actions/devices';
import { around, deviceLabel } from '../live/around';
import { type Absent, load as loadPast, type Past } from '../history/device';
import { everyMs, type Range, rangeOf, ranges, zoomed } from '../history/ranges';
import { usePolled } from '../live/poll';
import { equal } from '../live/share';
import { useOlder } from '../live/older';
import { available, device, events, freshness, leasesOn, machine, minute, now, settings, uuids } from '../live/state';
import { thresholds } from '../live/thresholds';
import { place, setParams, to } from '../router';
import { StateBadge } from '../ui/badge';
import { EventList } from '../ui/eventlist';
import { Fact, Facts } from '../ui/facts';
import { celsius, count, duration, joules, memory, percent, plural, watts } from '../ui/format';
import { Meter } from '../ui/meter';
import { Panel } from '../ui/panel';
import { type Column, Table } from '../ui/table';
import { Ago, For } from '../ui/time';
import { Compare } from './device/compare';
import { Curves } from './device/curves';
import { Processes } from './device/processes';
import '../style/views.css';

// DevicePage shows everything about one device.
export function DevicePage({ uuid }: { uuid: string }) {
  const present = device(uuid).value;
  const last = useRef<Status | undefined>(undefined);
  if (present !== undefined) last.current = present;
  const s = present ?? last.current;
  if (s === undefined) {
    const asked = machine.value !== undefined;
    return (
      <article class="view">
        <h1>{asked ? 'There is no such GPU' : 'GPU'}</h1>
        <p class={asked ? '' : 'empty'}>{asked ? `This machine has no GPU with the UUID ${uuid}.` : 'Asking the daemon …'}</p>
        <p><a href={to.overview()}>To the overview</a></p>
      </article>
    );
  }
  return <Shown s={s} gone={present === undefined} />;
}

function Shown({ s, gone }: { s: Status; gone: boolean }) {
  const uuid = s.device.uuid;
  const leases = leasesOn(uuid).value;
  const { params } = place.value;
  const r = zoomed(params.get('from'), params.get('to'), minute.peek() / 1000 + 60) ?? rangeOf(params.get('range'));
  const about = useComputed(() => events.value.filter((e) => e.gpu === uuid).slice(-40).reverse());
  useOlder({ gpu: uuid, newest: 40 });
  const lost = gone || s.state === 'UNAVAILABLE';
  return (
    <article class="view" data-gpu={uuid}>
      <header class="view-head">
        <div>
          <p class="crumbs"><a href={to.overview()}>GPUs</a> /</p>
          <h1>{deviceLabel(uuid)} <span class="quiet">{s.device.name}</span></h1>
          <p class="state-line">
            <StateBadge state={gone ? 'UNAVAILABLE' : s.state} /> <span>{gone ? 'The daemon does not list it any more.' : s.reason}</span>
            {!gone && <span class="quiet"> for <For since={s.since} /></span>}
          </p>
        </div>
        <Acts acts={gone ? [] : deviceActs(s, leases.length, around())} label={`What you can do with ${deviceLabel(uuid)}`} />
      </header>
      {lost && (
        <p class="notice tone-bad" role="status">
          {gone ? 'This GPU is gone: ' : 'This GPU does not answer: '}
          what you see below is the last that berth knows of it.
        </p>
      )}
      <Remarks s={s} />
      <Now s={s} stale={lost || s.stale === true || freshness.value !== 'fresh'} />
      <History device={s.device} r={r} />
      {uuids.value.length > 1 && <Compare uuid={uuid} r={r} onZoom={zoom} />}
      <Leases uuid={uuid} leases={leases} />
      <Processes uuid={uuid} processes={s.sample?.processes} leases={leases} />
      <div class="two">
        <Forecast s={s} />
        <Energy uuid={uuid} />
      </div>
      <Panel title="Events" note={<a href={to.page('events', { gpu: uuid })}>All of this GPU</a>}>
        <EventList events={about.value} empty="Nothing has happened to this GPU that berth still knows of." />
      </Panel>
      <About device={s.device} policy={s.throttling?.policy} />
    </article>
  );
}

// Remarks says what is not as usual: a drain, a lack of trust, a lower speed.
function Remarks({ s }: { s: Status }) {
  const list: [string, preact.ComponentChildren][] = [];
  if (s.drain) {
    list.push(['warn', <>Drained{s.drain.by ? ` by ${s.drain.by}` : ''} since <Ago at={s.drain.since} />{s.drain.reason ? `: ${s.drain.reason}` : ''}. Leases go on, and berth grants no new ones{s.drain.until ? <>. It ends by itself <Ago at={s.drain.until} /></> : ''}.</>]);
  }
  if (s.trust?.phase) {
    list.push(['warn', <>In {s.trust.phase}{s.trust.why ? `: ${s.trust.why}` : ''}{s.trust.until ? <>. It ends <Ago at={s.trust.until} /> at the earliest</> : ''}.</>]);
  }
  if (s.trust && s.trust.slots_withheld > 0) list.push(['warn', `berth withholds ${plural(s.trust.slots_withheld, 'slot')}, because memory ran out.`]);
  if (s.slower) list.push(['info', `Work should run at ${percent(s.multiplier * 100)}: ${s.slower}`]);
  if (s.throttling?.share !== undefined) list.push(['info', `berth holds ${plural(s.throttling.paced_leases ?? 0, 'lease')} to ${percent(s.throttling.share * 100)} of their speed.`]);
  if (s.throttling?.power_limit_watts !== undefined) list.push(['info', `berth has set the power limit to ${watts(s.throttling.power_limit_watts)} (before: ${watts(s.throttling.power_original_watts)}).`]);
  if (s.device.instances && s.device.instances.length > 0) list.push(['info', `It is cut into ${plural(s.device.instances.length, 'instance')}, which are leased in its place.`]);
  return <>{list.map(([tone, text], i) => <p key={i} class={`notice tone-${tone}`}>{text}</p>)}</>;
}

// Now shows the newest sample.
function Now({ s, stale }: { s: Status; stale: boolean }) {
  const sample = s.sample;
  const limits = thresholds(settings.value, s.device.uuid, s.device.index);
  const free = available.value.get(s.device.uuid);
  const heat = sample?.temperature_celsius;
  const tone = heat === undefined || limits === undefined ? 'calm' : heat > limits.throttle ? 'bad' : heat > limits.normal ? 'warn' : 'good';
  return (
    <div class={stale ? 'tiles stale' : 'tiles'}>
      <Tile name="Temperature" value={celsius(heat)} note={sample?.memory_temperature_celsius === undefined ? '' : `memory ${celsius(sample.memory_temperature_celsius)}`}>
        <Meter label="Temperature" value={heat} most={limits?.critical ?? 100} tone={tone} marks={limits ? [limits.normal, limits.throttle] : []} text={celsius(heat)} />
      </Tile>
      <Tile name="Load" value={percent(sample?.utilization_percent)} note={sample?.memory_busy_percent === undefined ? '' : `memory busy ${percent(sample.memory_busy_percent)}`}>
        <Meter label="Load" value={sample?.utilization_percent} most={100} tone="load" text={percent(sample?.utilization_percent)} />
      </Tile>
      <Tile name="Power" value={watts(sample?.power_watts)} note={s.device.power_limit_watts === undefined ? '' : `of ${watts(s.device.power_limit_watts)}`}>
        <Meter label="Power" value={sample?.power_watts} most={s.device.power_limit_watts} tone="power" text={watts(sample?.power_watts)} />
      </Tile>
      <Tile name="Memory" value={memory(sample?.memory_used_mb)} note={`of ${memory(s.device.memory_total_mb)}${free ? `, ${memory(Math.max(0, free.available_mb))} to lease` : ''}`}>
        <Meter label="Memory in use" value={sample?.memory_used_mb} most={s.device.memory_total_mb} tone="memory" text={memory(sample?.memory_used_mb)} />
      </Tile>
      <Tile name="Slots" value={`${s.slots.active} of ${s.slots.usable}`} note={s.slots.usable < s.slots.capacity ? `${s.slots.capacity} in a better state` : 'in use'}>
        <Meter label="Slots in use" value={s.slots.active} most={s.slots.usable} tone="calm" text={`${s.slots.active} of ${s.slots.usable}`} />
      </Tile>
      <Tile name="Health" value={s.health} note={sample?.ecc_uncorrected_total === undefined ? '' : `${count(sample.ecc_uncorrected_total)} memory errors`} />
    </div>
  );
}

function Tile({ name, value, note, children }: { name: string; value: string; note: string; children?: preact.ComponentChildren }) {
  return (
    <div class="tile">
      <span class="tile-name">{name}</span>
      <strong class="tile-value">{value}</strong>
      {children}
      <span class="tile-note">{note}</span>
    </div>
  );
}

// zoom shows a part of the time that somebody marked.
function zoom(from: number, to: number): void {
  setParams({ from: String(Math.floor(from)), to: String(Math.ceil(to)) });
}

function RangeTabs({ r }: { r: Range }) {
  return (
    <div class="tabs" role="group" aria-label="How far back">
      {ranges.map((it) => (
        <button key={it.key} type="button" class="tab" aria-pressed={it.key === r.key} onClick={() => setParams({ range: it.key, from: '', to: '' })}>{it.label}</button>
      ))}
    </div>
  );
}

const History = memo(function History({ device: d, r }: { device: Device; r: Range }) {
  const uuid = d.uuid;
  const [kept, setKept] = useState<{ past?: Past; absent?: Absent }>({});
  const store = settings.value === undefined ? undefined : (settings.value.past?.store ?? 'on');
  const began = useRef(0);
  const [took, setTook] = useState(0);
  useEffect(() => { began.current = performance.now(); }, [r.key]);
  const polled = usePolled<{ past?: Past; absent?: Absent } | undefined>(async (signal) => (store === undefined ? undefined : loadPast(uuid, r, now.peek() / 1000, store === 'off', signal)), r.step === 1 ? 10_000 : everyMs(r), [uuid, r.key, store]);
  useEffect(() => {
    if (polled.data === undefined) return;
    setKept(polled.data);
    if (began.current > 0) {
      setTook(performance.now() - began.current);
      began.current = 0;
    }
  }, [polled.data]);
  const shown = kept.past?.range.key === r.key ? kept.past : undefined;
  const busy = polled.data === undefined || (polled.data.past !== undefined && polled.data.past.range.key !== r.key);
  return (
    <Panel
      title="Over time"
      note={r.until === undefined ? <span class="not-phone">mark a part to zoom</span> : <>the {r.words} <button type="button" class="plain" onClick={() => setParams({ from: '', to: '' })}>Back</button></>}
      aside={<RangeTabs r={r} />}
    >
      {kept.absent && !busy && <NoPast absent={kept.absent} r={r} some={shown !== undefined} />}
      {shown
        ? <Curves past={shown} device={d} onZoom={zoom} />
        : busy && <p class="empty plots-wait" role="status">Asking for the {r.words} …</p>}
      <span class="hidden" data-took={Math.round(took)} data-range={shown?.range.key ?? ''} />
    </Panel>
  );
}, equal);

// NoPast says kindly why there are no curves, or shorter ones.
function NoPast({ absent, r, some }: { absent: Absent; r: Range; some: boolean }) {
  return (
    <p class="notice tone-info" role="status">
      {absent.off
        ? <>This daemon remembers no past: <code>past.store</code> is off. {some ? 'The curves show the samples that it has in memory, ten minutes or so.' : `There is nothing to show for the ${r.words}.`} With <code>past: {'{'}store: "on"{'}'}</code> in its configuration it keeps two days of samples and three months of averages.</>
        : <>The past could not be asked: {absent.why} {some && 'The curves show the samples that the daemon has in memory.'}</>}
    </p>
  );
}

const Leases = memo(function Leases({ uuid, leases }: { uuid: string; leases: readonly Lease[] }) {
  const part = (l: Lease) => l.parts.find((p) => p.gpu === uuid);
  const columns = useMemo<Column<Lease>[]>(() => [
    { name: 'Lease', sort: (l) => l.id, cell: (l) => <a href={to.lease(l.holder.user, l.id)}>{l.id}</a> },
    { name: 'Holder', sort: (l) => l.holder.user ?? '', cell: (l) => [l.holder.user, l.holder.service].filter(Boolean).join(', ') || 'another user', hide: 'phone' },
    { name: 'State', sort: (l) => l.state, cell: (l) => l.state, hide: 'phone' },
    { name: 'Leased', numeric: true, sort: (l) => part(l)?.memory_mb ?? 0, cell: (l) => memory(part(l)?.memory_mb) },
    { name: 'Used', numeric: true, sort: (l) => part(l)?.measured_mb ?? 0, cell: (l) => memory(part(l)?.measured_mb) },
    { name: 'Slots', numeric: true, sort: (l) => part(l)?.slots ?? 0, cell: (l) => part(l)?.slots ?? 0, hide: 'phone' },
    { name: 'Held for', numeric: true, sort: (l) => -Date.parse(l.granted ?? ''), cell: (l) => <For since={l.granted} />, hide: 'phone' },
  ], [uuid]);
  return (
    <Panel title="Leases" note={leases.length === 0 ? undefined : plural(leases.length, 'lease')}>
      <Table label="Leases on this GPU" columns={columns} rows={leases} id={(l) => l.fence} empty={<>Nobody holds a lease on this GPU. <code>berth exec --gpu {device(uuid).value?.device.index} --memory 8GiB -- COMMAND</code> runs a program on it.</>} />
    </Panel>
  );
});

interface Trend {
  direction: string;
  covers_seconds: number;
  slope_celsius_per_minute?: number;
  without?: { lease: string; power_watts: number; settles_celsius: number }[];
}

function Forecast({ s }: { s: Status }) {
  const o = s.outlook;
  const trend = usePolled((signal) => call<Trend>('/api/gpu/temperature/trend', { query: { gpu: s.device.uuid, minutes: 5 }, signal }), 15_000, [s.device.uuid]).data;
  return (
    <Panel title="Forecast">
      {o === undefined
        ? <p class="empty">berth does not know yet where the temperature goes: it has not watched this GPU long enough, or the GPU does not measure its power.</p>
        : (
          <>
            <p>At {watts(o.power_watts)} the temperature ends at <strong>{celsius(o.settles_celsius)}</strong> ({Math.round(o.settles_low_celsius)} to {celsius(o.settles_high_celsius)}, nine times of ten). One more watt adds {o.celsius_per_watt.toFixed(2)} °C.</p>
            <ul class="plain-list">{o.thresholds.map((t) => <li key={t.threshold}>{t.threshold} ({celsius(t.limit_celsius)}): {t.text}</li>)}</ul>
          </>
        )}
      {trend?.without && trend.without.length > 0 && (
        <Table
          label="Where the temperature would end without a lease"
          columns={[
            { name: 'Without', cell: (w: { lease: string }) => w.lease },
            { name: 'Power', numeric: true, cell: (w: { power_watts: number }) => watts(w.power_watts) },
            { name: 'Ends at', numeric: true, cell: (w: { settles_celsius: number }) => celsius(w.settles_celsius) },
          ] as Column<{ lease: string; power_watts: number; settles_celsius: number }>[]}
          rows={trend.without}
          id={(w) => w.lease}
          empty=""
        />
      )}
      {trend && trend.direction !== 'unknown' && trend.covers_seconds >= 120 && (
        <p class="quiet">In the last 5 minutes it was {trend.direction}{trend.slope_celsius_per_minute !== undefined && trend.direction !== 'stable' ? `, by ${Math.abs(trend.slope_celsius_per_minute).toFixed(1)} °C a minute` : ''}.</p>
      )}
    </Panel>
  );
}

interface EnergyAnswer {
  price_per_kwh?: number;
  currency?: string;
  gpus: { gpu: string; since: string; energy_joules: number; leases_joules: number; others_joules: number; idle_joules: number; idle_watts: number; unmeasured_seconds: number }[];
}

const Energy = memo(function Energy({ uuid }: { uuid: string }) {
  const answer = usePolled((signal) => call<EnergyAnswer>('/api/energy', { signal }), 10_000, [uuid]).data;
  const e = answer?.gpus.find((g) => g.gpu === uuid);
  const cost = (j: number) => (answer?.price_per_kwh === undefined ? '' : ` (${((j / 3_600_000) * answer.price_per_kwh).toFixed(2)} ${answer.currency ?? ''})`);
  return (
    <Panel title="Energy">
      {e === undefined ? <p class="empty">Nothing was measured yet.</p> : (
        <>
          <div class="bar-row" role="img" aria-label={`Of ${joules(e.energy_joules)}, leases used ${joules(e.leases_joules)}, others ${joules(e.others_joules)}, and the device by itself ${joules(e.idle_joules)}.`}>
            <Share class="fill-lease-1" value={e.leases_joules} of={e.energy_joules} />
            <Share class="fill-stranger" value={e.others_joules} of={e.energy_joules} />
            <Share class="fill-quiet" value={e.idle_joules} of={e.energy_joules} />
          </div>
          <Facts>
            <Fact name="In all">{joules(e.energy_joules)}{cost(e.energy_joules)}</Fact>
            <Fact name="Leases">{joules(e.leases_joules)}{cost(e.leases_joules)}</Fact>
            <Fact name="Others">{joules(e.others_joules)}</Fact>
            <Fact name="By itself">{joules(e.idle_joules)}{e.idle_watts > 0 ? `, ${watts(e.idle_watts)}` : ''}</Fact>
            <Fact name="Measured since"><Ago at={e.since} /></Fact>
            <Fact name="Not measured">{e.unmeasured_seconds > 1 ? duration(e.unmeasured_seconds) : ''}</Fact>
          </Facts>
        </>
      )}
    </Panel>
  );
});

function Share({ class: name, value, of }: { class: string; value: number; of: number }) {
  if (value <= 0 || of <= 0) return null;
  return <span class={`share ${name}`} style={{ flexGrow: value / of }} />;
}

const linkWords: Record<string, string> = { nvlink: 'NVLink', pcie_switch: 'PCIe switch', host_bridge: 'host bridge', numa_node: 'NUMA node', system: 'system' };

const About = memo(function About({ device: d, policy }: { device: Device; policy: NonNullable<Status['throttling']>['policy'] | undefined }) {
  return (
    <Panel title="The device">
      <Facts>
        <Fact name="UUID" wide><code>{d.uuid}</code></Fact>
        <Fact name="Name">{d.name}</Fact>
        <Fact name="Backend">{d.backend}</Fact>
        <Fact name="Driver">{d.driver}</Fact>
        <Fact name="PCI">{d.pci_bus_id}</Fact>
        <Fact name="Memory">{memory(d.memory_total_mb)}</Fact>
        <Fact name="Compute capability">{d.compute_capability}</Fact>
        <Fact name="NUMA node">{d.numa_node === undefined ? '' : String(d.numa_node)}</Fact>
        <Fact name="Slows itself down at">{d.temp_slowdown_celsius === undefined ? '' : celsius(d.temp_slowdown_celsius)}</Fact>
        <Fact name="Switches itself off at">{d.temp_shutdown_celsius === undefined ? '' : celsius(d.temp_shutdown_celsius)}</Fact>
        <Fact name="When too hot, berth">{policy ? { advise: 'advises', slots: 'grants fewer slots', pace: 'paces leases', power: 'lowers the power limit' }[policy] : ''}</Fact>
        <Fact name="Links" wide>{(d.links ?? []).map((l) => `${deviceLabel(l.to)} (${linkWords[l.kind] ?? l.kind}${l.lanes ? ` ×${l.lanes}` : ''})`).join(', ')}</Fact>
        <Fact name="Part of">{d.parent ? <a href={to.gpu(d.parent)}>{deviceLabel(d.parent)}</a> : ''}</Fact>
      </Facts>
    </Panel>
  );
}, equal);
