import type { ComponentProps } from 'preact';
import { useCallback, useState } from 'preact/hooks';
import { ranges, zoomed } from '../history/ranges';
import { sparkSpan } from '../live/history';
import { useStable } from '../live/hooks';
import { narrow, screen } from '../live/narrow';
import { answeredAt, available, device, leases, leasesAsked, leasesOn, machine, minute, needs, uuids, waiting } from '../live/state';
import { Card } from '../overview/card';
import { asCSV, asJSON, type Exported } from '../overview/export';
import { fits } from '../overview/filter';
import { Latest } from '../overview/latest';
import { Mine } from '../overview/mine';
import { ordered, spans, troubles } from '../overview/order';
import { Queue } from '../overview/queue';
import { Row } from '../overview/row';
import { useStrays } from '../overview/strays';
import { useStretch } from '../overview/stretch';
import { Summary } from '../overview/summary';
import { Who } from '../overview/who';
import { place, setParams } from '../router';
import { clock, duration, plural } from '../ui/format';
import { useGradual, useLater } from '../ui/gradual';
import { keep, kept } from '../ui/kept';
import { save } from '../ui/save';
import { driver } from '../ui/stack';
import '../style/overview.css';

const short = 5; // so few GPUs leave room below them
const dense = 16; // more GPUs than these stand close together

// Overview answers on one screen: which GPU is in trouble, how hot and full they are,
// who holds what and how much of it they use, what of the person who looks waits, when
// it starts and how to stop it.
export function Overview() {
  const { params } = place.value;
  const filter = params.get('text') ?? '';
  const late = useLater(filter, 1);
  const view = viewOf(params.get('view') ?? kept('view'));
  const zoom = zoomed(params.get('from'), params.get('to'), minute.peek() / 1000 + 60);
  const chosen = ranges.find((r) => r.key === params.get('range'));
  const range = zoom ?? (chosen === undefined || chosen.seconds <= sparkSpan ? undefined : chosen);
  const problem = useStretch(range);
  useStrays();
  const list = useStable(() => ordered(uuids.value, needs.value));
  // Parts come one after the other, so that none of them blocks the page: a few GPUs
  // with every frame, then, with the first list of leases, what is beside them. A card
  // is drawn once with its leases, not twice: first without and then with them.
  const asked = leasesAsked.value;
  const drawn = useGradual(asked || view === 'rows' ? list.length : 0, view === 'cards' ? 0 : 8, view === 'cards' ? 1 : 8);
  const shown = useGradual(asked ? 4 : 0, 0, 2);
  if (machine.value === undefined) return <div class="loading" />;
  // Few rows leave room below them.
  const below = view === 'rows' && list.length <= short && !narrow.value;
  const rest = (
    <>
      {shown > 2 && <Queue filter={late} />}
      {shown > 3 && <Latest />}
    </>
  );
  const gpus = list.slice(0, drawn);
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <Summary />
      {narrow.value && shown > 0 && <Mine />}
      <div class="overview">
        <section class="devices" aria-labelledby="devices">
          <header class="panel-head">
            <h2 id="devices" class={narrow.value ? 'hidden' : undefined}>GPUs</h2>
            <Ranges range={chosen?.key ?? ranges[0]!.key} zoomed={zoom !== undefined} />
            {zoom && <span class="quiet">{clock(zoom.until! * 1000 - zoom.seconds * 1000)} to {clock(zoom.until! * 1000)} <button type="button" class="plain" onClick={() => setParams({ from: '', to: '' })}>Back</button></span>}
            {problem !== '' && <span class="text-warn" role="status">{problem}</span>}
            <input
              type="search"
              aria-label="Filter GPUs, leases and requests"
              placeholder="Filter  /"
              value={filter}
              onInput={(e) => setParams({ text: e.currentTarget.value })}
            />
            <Views view={view} />
            {!narrow.value && <Exports />}
          </header>
          {list.length === 0
            ? <p class="empty">{machine.value.note || 'This machine has no GPU that berth knows.'}</p>
            : view === 'cards'
              ? <div class={`cards ${list.length > 8 ? 'many' : ''}`}>{gpus.map((uuid, i) => <LaterCard key={uuid} uuid={uuid} filter={filter} index={i} />)}</div>
              : <Rows list={gpus} all={list.length} filter={late} />}
          {below && <div class="below">{rest}</div>}
        </section>
        <div class="aside">
          <div class="aside-part">
            {shown > 0 && !narrow.value && <Mine />}
            {shown > 1 && <Who filter={late} />}
          </div>
          {!below && <div class="aside-part">{rest}</div>}
        </div>
      </div>
    </>
  );
}

type View = 'rows' | 'cards';

function viewOf(text: string): View {
  return text === 'cards' ? 'cards' : 'rows';
}

// Views chooses between lines and cards. The choice is kept, and in the address.
function Views({ view }: { view: View }) {
  const choose = (it: View) => {
    keep('view', it);
    setParams({ view: it, open: '' });
  };
  return (
    <div class="tabs" role="group" aria-label="How to show GPUs">
      {(['rows', 'cards'] as const).map((it) => <button key={it} type="button" class="tab" aria-pressed={it === view} onClick={() => choose(it)}>{it === 'rows' ? 'Rows' : 'Cards'}</button>)}
    </div>
  );
}

// Ranges chooses the time that the curves show.
function Ranges({ range, zoomed: is }: { range: string; zoomed: boolean }) {
  return (
    <div class="tabs ranges" role="group" aria-label="Time that the curves show">
      {ranges.slice(0, 5).map((r) => (
        <button key={r.key} type="button" class="tab" aria-pressed={!is && r.key === range} onClick={() => setParams({ range: r.key === ranges[0]!.key ? '' : r.key, from: '', to: '' })}>{r.label}</button>
      ))}
    </div>
  );
}

function exported(): Exported {
  return {
    time: new Date(answeredAt.peek() ?? Date.now()).toISOString(),
    host: machine.peek()?.host ?? '',
    gpus: uuids.peek().map((u) => device(u).peek()).filter((s) => s !== undefined),
    available: [...available.peek().values()],
    leases: leases.peek(),
    waiting: waiting.peek(),
  };
}

function Exports() {
  const name = () => `berth-${(machine.peek()?.host ?? 'machine').replace(/[^A-Za-z0-9.-]/g, '_')}-${exported().time.replace(/[:.]/g, '-')}`;
  return (
    <span class="exports" role="group" aria-label="Save what the overview shows">
      <button type="button" class="plain" title="Save GPUs and leases as comma-separated values" onClick={() => save(`${name()}.csv`, 'text/csv', asCSV(exported()))}>CSV</button>
      <button type="button" class="plain" title="Save GPUs, leases and requests as JSON" onClick={() => save(`${name()}.json`, 'application/json', asJSON(exported()))}>JSON</button>
    </span>
  );
}

// roomFor reports whether so many GPUs and leases fit on a screen, each GPU with its
// leases below it.
export function roomFor(gpus: number, leases: number, width: number, height: number): boolean {
  const columns = Math.max(1, Math.floor((width - (width < 1800 ? 430 : 900)) / (width < 1800 ? 300 : 360)));
  const lines = gpus * Math.ceil(leases / Math.max(1, gpus) / columns); // if they are spread evenly
  return leases <= 120 && gpus * 40 + lines * 21 <= height - 200;
}

// Rows shows a line for each GPU; where there is room for it, with its leases.
function Rows({ list, all, filter }: { list: readonly string[]; all: number; filter: string }) {
  const open = (place.value.params.get('open') ?? '').split(' ').filter((x) => x !== '');
  const trouble = useStable(() => [...troubles(needs.value)]);
  const found = new Map(trouble);
  const count = useStable(() => leases.value.reduce((sum, l) => sum + l.parts.length, 0));
  const known = leasesAsked.value;
  const fitting = filter === '' ? undefined : new Set(leases.value.filter((l) => fits(l, filter)).flatMap((l) => l.parts.map((p) => p.gpu)));
  const shown = fitting === undefined ? list : list.filter((u) => fitting.has(u) || named(u, filter));
  const toggle = useCallback((uuid: string) => {
    const now = (place.peek().params.get('open') ?? '').split(' ').filter((x) => x !== '');
    setParams({ open: (now.includes(uuid) ? now.filter((u) => u !== uuid) : [...now, uuid]).join(' ') });
  }, []);
  const roomy = !narrow.value && roomFor(all, count, screen.value.width, screen.value.height);
  const same = useStable(() => new Set(uuids.value.map((u) => device(u).value?.device.name)).size === 1);
  const columns = { figures: !narrow.value, who: !narrow.value && !roomy, model: !same };
  const [unfolded, setUnfolded] = useState(false);
  // Of many GPUs, those that nobody uses stand together in one line.
  const idle = useStable(() => (uuids.value.length <= dense || !leasesAsked.value ? [] : uuids.value.filter((u) => leasesOn(u).value.length === 0 && (available.value.get(u)?.foreign_mb ?? 0) <= driver)));
  const folded = idle.filter((u) => filter === '' && !found.has(u) && !open.includes(u));
  const hidden = new Set(folded.length > short && !unfolded ? folded : []);
  const width = 4 + (columns.figures ? 3 : 0) + (columns.who ? 1 : 0);
  return (
    <>
      <table class={`rows${roomy ? ' with-leases' : ''}${same ? ' same' : ''}${all > dense ? ' dense' : all <= short ? ' airy' : ''}`}>
        <caption class="hidden">GPUs, those in trouble first</caption>
        <thead>
          <tr>
            <th scope="col" class="row-name">GPU</th>
            {columns.figures && <th scope="col" class="row-state">State</th>}
            <th scope="col" class="row-figure" title="How busy it is">Load</th>
            <th scope="col" class="row-figure" title="Temperature; the bands begin at temp_throttle and temp_critical">Heat</th>
            <th scope="col" class="row-memory">Memory{narrow.value ? ', GiB used' : ''}</th>
            {columns.figures && <th scope="col" class="row-power">Power</th>}
            {columns.figures && <th scope="col" class="row-slots" title="Slots taken, of those that may be. A slot is the right to run one pipeline on a GPU.">Slots</th>}
            {columns.who && <th scope="col" class="row-who" title="Who holds most of its memory, in GiB">Who</th>}
          </tr>
        </thead>
        {shown.filter((u) => !hidden.has(u)).map((uuid, i) => (
          <LaterRow key={uuid} index={i} uuid={uuid} {...columns} filter={filter} leases={known && (roomy || filter !== '')} open={open.includes(uuid)} trouble={found.get(uuid)} onOpen={toggle} />
        ))}
        {folded.length > short && (
          <tbody>
            <tr class="row-fold">
              <td colSpan={width}>
                <button type="button" class="plain" aria-expanded={unfolded} onClick={() => setUnfolded(!unfolded)}>
                  {unfolded ? 'Fold' : 'Show'} {plural(folded.length, 'GPU')} that nobody uses
                </button>
                <span class="quiet">: {spans(folded.flatMap((u) => device(u).value?.device.index ?? []))}</span>
              </td>
            </tr>
          </tbody>
        )}
      </table>
      {filter !== '' && shown.length === 0 && <p class="empty">No GPU and no lease fits the filter.</p>}
      <Legend />
    </>
  );
}

function named(uuid: string, text: string): boolean {
  const s = device(uuid).peek();
  return s !== undefined && [`GPU ${s.device.index}`, s.device.name, s.device.uuid, s.state].some((t) => t.toLowerCase().includes(text.toLowerCase()));
}

// Legend says what the bars of memory and the numbers mean.
function Legend() {
  return (
    <p class="row-legend">
      <span class="legend-key used">used</span>
      <span class="legend-key leased">leased, not used</span>
      <span class="legend-key strange">under no lease</span>
      <span class="legend-key free">free</span>
      <span class="legend-key kept">kept back</span>
      <span class="not-phone">Slots: taken of those that may be taken; a slot is the right to run one pipeline. Curves: the last {duration(sparkSpan)} unless you choose; mark a part to zoom.</span>
    </p>
  );
}

// LaterRow takes on a new filter after the rows before it have.
function LaterRow({ index, filter, leases: shown, ...rest }: ComponentProps<typeof Row> & { index: number }) {
  const late = useLater(`${shown ? '+' : '-'}${filter}`, index);
  return <Row {...rest} filter={late.slice(1)} leases={late.startsWith('+')} />;
}

// LaterCard takes on a new filter after the cards before it have.
function LaterCard({ uuid, filter, index }: { uuid: string; filter: string; index: number }) {
  return <Card uuid={uuid} filter={useLater(filter, 2 + index)} />;
}
