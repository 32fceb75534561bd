import { useComputed } from '@preact/signals';
import { Acts } from '../actions/dialog';
import { leaseActs } from '../actions/leases';
import { api, Refusal } from '../api/client';
import type { Estimate, Explanation, Lease, PastLease } from '../api/types';
import { obstacles } from '../lease/obstacles';
import { enforced, ends, evidence, isolated } from '../lease/words';
import { rows, tree } from '../lease/tree';
import { around, deviceLabel, deviceLabels } from '../live/around';
import { sentence } from '../live/attention';
import { usePolled } from '../live/poll';
import { useOlder } from '../live/older';
import { events, leases, leasesKnown, waiting } from '../live/state';
import { Starts } from '../overview/queue';
import { to } from '../router';
import { Badge, type Tone } from '../ui/badge';
import { EventList } from '../ui/eventlist';
import { Fact, Facts } from '../ui/facts';
import { duration, joules, memory, percent, plural } from '../ui/format';
import { Meter } from '../ui/meter';
import { Panel } from '../ui/panel';
import { Table } from '../ui/table';
import { Ago, For } from '../ui/time';
import { Ended } from './lease/ended';
import { Used } from './lease/used';
import '../style/views.css';

type Found =
  | { kind: 'lease'; lease: Lease; why?: Explanation }
  | { kind: 'past'; list: PastLease[] };

// LeasePage shows one lease, one waiting request, or what a lease was that has ended.
export function LeasePage({ user, id }: { user: string; id: string }) {
  // The list of leases tells at once that one came, changed or went.
  const mark = useComputed(() => {
    const l = leases.value.find((it) => it.id === id && (user === '' || it.holder.user === user));
    const w = waiting.value.find((it) => it.id === id && (user === '' || it.holder.user === user));
    return l ? `${l.fence} ${l.state}` : w ? 'waiting' : '';
  });
  const polled = usePolled((signal) => look(user, id, leasesKnown.peek() && mark.peek() === '', signal), 4000, [user, id, mark.value]);
  const found = polled.data;
  const name = user === '' ? id : `${user}/${id}`;
  if (found === undefined) {
    return (
      <article class="view">
        <p class="crumbs"><a href={to.overview()}>Leases</a> /</p>
        <h1>{id}</h1>
        <p class={polled.error ? '' : 'empty'}>{polled.error ? polled.error.message : 'Asking the daemon …'}</p>
      </article>
    );
  }
  if (found.kind === 'past') {
    if (found.list.length > 0) return <Ended list={found.list} id={id} />;
    return (
      <article class="view">
        <p class="crumbs"><a href={to.overview()}>Leases</a> /</p>
        <h1>There is no such lease</h1>
        <p>There is no lease and no request {name}, and none among the leases that have ended and that the daemon remembers.</p>
      </article>
    );
  }
  return <Shown l={found.lease} why={found.why} error={polled.error} />;
}

// look asks for a lease, or, if it is not in the list, for those that have ended.
async function look(user: string, id: string, ended: boolean, signal: AbortSignal): Promise<Found> {
  const whose = user === '' || user === 'another user' ? undefined : user;
  if (ended) return past(whose, id, signal);
  try {
    const lease = await api.lease(whose, id, { signal });
    if (lease.waiting === undefined) return { kind: 'lease', lease };
    const why = await api.explain(whose, id, { signal }).catch(() => undefined);
    return why ? { kind: 'lease', lease, why } : { kind: 'lease', lease };
  } catch (err) {
    if (!(err instanceof Refusal) || err.status !== 404) throw err;
  }
  return past(whose, id, signal);
}

async function past(user: string | undefined, id: string, signal: AbortSignal): Promise<Found> {
  const { leases: list } = await api.past({ user, limit: 2000 }, { signal });
  return { kind: 'past', list: list.filter((l) => l.id === id) };
}

const stateTones: Record<Lease['state'], Tone> = { active: 'good', parking: 'info', parked: 'off', resuming: 'info', waiting: 'warn', released: 'off' };

function Shown({ l, why, error }: { l: Lease; why: Explanation | undefined; error: Error | undefined }) {
  const a = around();
  const about = useComputed(() => events.value.filter((e) => e.lease === l.id && (e.user === undefined || e.user === l.holder.user)).slice(-30).reverse());
  useOlder({ lease: l.holder.user === undefined ? l.id : `${l.holder.user}/${l.id}`, newest: 30 });
  return (
    <article class="view" data-lease={l.id}>
      <header class="view-head">
        <div>
          <p class="crumbs"><a href={to.overview()}>{l.state === 'waiting' ? 'Requests' : 'Leases'}</a> / {l.holder.user ?? 'another user'} /</p>
          <h1>{l.id}</h1>
          <p class="state-line">
            <Badge tone={stateTones[l.state]}>{l.state}</Badge>{' '}
            <span>{headline(l)}</span>
            {l.waiting && <strong class="starts">{startOf(l, why) === undefined ? 'start not known' : <Starts estimate={startOf(l, why)!} why />}</strong>}
          </p>
        </div>
        <Acts acts={leaseActs(l, a)} label={`What you can do with ${l.id}`} />
      </header>
      {error && <p class="notice tone-warn" role="status">This is the last answer: {error.message}</p>}
      {l.parking?.failed && <p class="notice tone-bad" role="status">{l.parking.failed}</p>}
      {l.paced?.refused && <p class="notice tone-warn">{l.paced.refused}</p>}
      {l.note && <p class="notice tone-info">{l.note}</p>}
      {l.waiting && <Waits l={l} why={why} />}
      {l.parts.length > 0 && l.state !== 'parked' && <Parts l={l} />}
      {l.state !== 'waiting' && <Used name={`${l.holder.user ?? ''}/${l.id}`} parts={l.parts} since={l.granted} until={undefined} />}
      <Panel title="What it is">
        <Facts>
          <Fact name="Program">{l.holder.name}</Fact>
          <Fact name="Holder">{l.holder.user ?? 'another user'}</Fact>
          <Fact name="Service">{l.holder.service}</Fact>
          <Fact name="Process">{l.holder.pid ? String(l.holder.pid) : ''}</Fact>
          <Fact name="Granted">{l.granted ? <Ago at={l.granted} /> : ''}</Fact>
          <Fact name="Ends">{l.state === 'waiting' ? '' : ends(l)}</Fact>
          <Fact name="Expires">{l.expires ? <><Ago at={l.expires} /> unless it is renewed</> : ''}</Fact>
          <Fact name="Time limit">{l.ends ? <>over <Ago at={l.ends} />, and its processes end with it</> : ''}</Fact>
          <Fact name="Priority">{String(l.priority)}</Fact>
          <Fact name="Part of">{l.parent ? <a href={to.lease(l.holder.user, l.parent)}>{l.parent}</a> : ''}</Fact>
          <Fact name="Unit">{l.unit}</Fact>
          <Fact name="Scope" wide>{l.scope?.join(', ')}</Fact>
          <Fact name="Energy">{l.energy_joules === undefined ? '' : `${joules(l.energy_joules)} above what the GPU draws by itself`}</Fact>
          <Fact name="Idle">{l.idle ? <>for <For since={l.idle.since} />, with {memory(l.idle.memory_mb)}{l.idle.utilization_percent === undefined ? '' : ` at ${percent(l.idle.utilization_percent)}`}</> : ''}</Fact>
          <Fact name="Asked for">{l.asked_mb ? `${memory(l.asked_mb)}, before an optimization made it smaller` : ''}</Fact>
          <Fact name="May be parked">{l.parkable ? 'yes, while others wait for its GPU' : ''}</Fact>
          <Fact name="Comment" wide>{l.comment}</Fact>
          <Fact name="Fence">{l.fence ? String(l.fence) : ''}</Fact>
        </Facts>
      </Panel>
      {l.state !== 'waiting' && (
        <div class="two">
          <Panel title="How it is held">
            <Facts>
              <Fact name="Memory limit" wide><strong>{enforced[l.enforced_by]?.title ?? l.enforced_by}</strong><br />{enforced[l.enforced_by]?.text}</Fact>
              <Fact name="Kept from other GPUs" wide><strong>{isolated(l.isolated_by).title}</strong><br />{isolated(l.isolated_by).text}</Fact>
            </Facts>
          </Panel>
          <Panel title="Parking and pace"><Moved l={l} /></Panel>
        </div>
      )}
      {l.state !== 'waiting' && <Tree l={l} />}
      <Panel title="Events"><EventList events={about.value} empty="berth knows of no event about it." /></Panel>
    </article>
  );
}

// startOf is when a request will probably be granted, by its place in the queue or by
// its explanation.
function startOf(l: Lease, why: Explanation | undefined): Estimate | undefined {
  return l.waiting?.estimate ?? why?.estimate;
}

// headline sums a lease up in a few words.
function headline(l: Lease): string {
  if (l.state === 'waiting') return l.waiting ? `waits for ${memory(l.waiting.memory_mb)} and ${plural(l.waiting.slots, 'slot')} on ${plural(l.waiting.gpus, 'GPU')}` : 'waits';
  const where = deviceLabels(l.parts.map((p) => p.gpu));
  const asked = l.parts.reduce((n, p) => n + p.memory_mb, 0);
  const used = l.parts.reduce((n, p) => n + (p.measured_mb ?? 0), 0);
  if (l.state === 'parked') return `holds nothing now: its memory is in the memory of the machine. When it is resumed, it gets ${memory(asked)} on ${where} again`;
  if (asked === 0) return `slots on ${where}, and no memory`;
  return `${memory(asked)} on ${where}, of which it uses ${memory(used)}`;
}

function Waits({ l, why }: { l: Lease; why: Explanation | undefined }) {
  const w = l.waiting!;
  const what = w.for === 'resume' ? 'to be resumed' : w.for === 'resize' ? 'to become larger' : 'for room';
  return (
    <Panel title="Why it waits" note={<>place {w.position} in the queue</>}>
      <p>It has waited {what} for <strong><For since={w.since} /></strong>{w.deadline ? <>, and gives up <Ago at={w.deadline} /></> : ''}.</p>
      {why === undefined ? <p class="empty">The daemon gives no explanation.</p> : (
        <>
          <p>{why.text}</p>
          {why.hint && !why.text.includes(why.hint) && <p class="notice tone-info">{sentence(why.hint)}</p>}
          {why.behind && why.behind.length > 0 && <p>Ahead of it: {why.behind.join(', ')}.</p>}
          <Table
            label="What is in the way on each GPU"
            columns={[
              { name: 'GPU', cell: (d) => <a href={to.gpu(d.gpu)}>{deviceLabel(d.gpu)}</a> },
              { name: 'What is in the way', wide: true, cell: (d) => d.texts.map((t) => <div key={t}>{sentence(t)}</div>) },
              {
                name: 'Who holds it', hide: 'phone',
                cell: (d) => (d.holders ?? []).slice(0, 4).map((h) => (
                  <div key={h.lease}><a href={to.lease(h.holder.user, h.lease)}>{h.lease}</a> {memory(h.memory_mb)}{h.until ? <>, ends <Ago at={h.until} /></> : ''}{h.parkable ? ', may be parked' : ''}</div>
                )),
              },
            ]}
            rows={obstacles(why)}
            id={(d) => d.gpu}
            empty="Nothing is in the way."
          />
          <p class="quiet">The most that would be granted now is {memory(why.largest_now_mb)}; if nobody else used this machine, {memory(why.largest_ever_mb)}.</p>
        </>
      )}
    </Panel>
  );
}

function Parts({ l }: { l: Lease }) {
  return (
    <Panel title="Asked against used">
      <ul class="parts">
        {l.parts.map((p) => {
          const used = p.measured_mb;
          const over = used !== undefined && used > p.memory_mb && p.memory_mb > 0;
          return (
            <li key={p.gpu}>
              <span><a href={to.gpu(p.gpu)}>{deviceLabel(p.gpu)}</a></span>
              <Meter label={`Used of what is leased on ${deviceLabel(p.gpu)}`} value={used ?? 0} most={Math.max(p.memory_mb, used ?? 0)} tone={over ? 'bad' : 'lease-1'} marks={over ? [p.memory_mb] : []} text={`${memory(used)} of ${memory(p.memory_mb)}`} />
              <span class="number">
                {used === undefined ? 'nothing measured' : memory(used)} of {memory(p.memory_mb)}{p.slots > 0 ? `, ${plural(p.slots, 'slot')}` : ''}
                {over && <> <Badge tone="bad">over its lease</Badge></>}
              </span>
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}

function Moved({ l }: { l: Lease }) {
  const p = l.parking;
  return (
    <>
      {p === undefined ? <p class="quiet">It was never parked.</p> : (
        <Facts>
          <Fact name={l.state === 'active' ? 'Back since' : sentence(`${l.state} since`).slice(0, -1)}><Ago at={p.since} /></Fact>
          <Fact name="By">{p.by?.user ?? 'berth itself'}</Fact>
          <Fact name="Reason" wide>{p.reason}</Fact>
          <Fact name="Takes">{p.host_mb ? `${memory(p.host_mb)} of the machine's memory` : ''}</Fact>
          <Fact name="Comes back">{l.state === 'parked' ? (p.returns ? 'at its turn: it waits in the queue' : 'when somebody resumes it') : ''}</Fact>
          <Fact name="Parked">{plural(p.times, 'time')}</Fact>
          <Fact name="Moving took">{duration(p.moving_seconds)}</Fact>
        </Facts>
      )}
      {l.paced === undefined ? <p class="quiet">It runs freely: nobody holds it to a share.</p> : (
        <>
          <p>Held to <strong>{percent(l.paced.share * 100)}</strong>{l.paced.measured === undefined ? '' : `; it gets ${percent(l.paced.measured * 100)}${l.paced.measured_by === 'duty' ? ' (by duty, not measured)' : ''}`}.</p>
          <ul class="plain-list">
            {l.paced.held_by.map((h, i) => (
              <li key={i}>{percent(h.share * 100)} by {h.source === 'throttle' ? 'berth, because the GPU should run slower' : `${h.by?.user ?? 'somebody'} (${h.source})`}{h.reason ? `: ${h.reason}` : ''}</li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

// Tree shows the processes of a lease, each below the one that started it.
function Tree({ l }: { l: Lease }) {
  const list = rows(tree(l.processes ?? [], l.holder));
  const measured = list.filter((r) => r.node.uses.length > 0).length;
  return (
    <Panel title="Processes" note={measured > 0 ? `${plural(measured, 'process', 'processes')} on GPUs` : undefined}>
      <Table
        label="Processes of this lease, each below the one that started it"
        columns={[
          {
            name: 'Process',
            cell: ({ node, depth }) => (
              <span class="tree-row" style={{ paddingLeft: `${depth * 18}px` }}>
                {depth > 0 && <span class="tree-branch" aria-hidden="true">└</span>}
                {node.pid === 0 ? <span class="quiet">of another user</span> : <>{node.name || 'process'} <code>{node.pid}</code></>}
                {node.holder && <Badge tone="info">holder</Badge>}
              </span>
            ),
          },
          { name: 'GPU', cell: ({ node }) => deviceLabels(node.uses.map((u) => u.gpu)) || '–' },
          { name: 'Memory', numeric: true, cell: ({ node }) => (node.uses.length === 0 ? '–' : memory(node.uses.reduce((n, u) => n + u.memory_mb, 0))) },
          { name: 'Belongs, because it', hide: 'phone', wide: true, cell: ({ node }) => (node.evidence ? (evidence[node.evidence] ?? node.evidence) : node.holder ? 'holds the lease' : 'stands between') },
        ]}
        rows={list}
        id={({ node, depth }) => `${node.pid}-${depth}-${node.uses[0]?.gpu ?? ''}`}
        empty={l.holder.pid === undefined && l.binding === 'process' ? 'Its processes are shown to its owner and to operators.' : 'No process of this lease uses a GPU.'}
      />
    </Panel>
  );
}

