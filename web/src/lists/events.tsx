import { useEffect, useState } from 'preact/hooks';
import type { Event, Severity } from '../api/types';
import { isGap, mergeEvents } from '../live/events';
import { deviceLabel } from '../live/around';
import { follow } from '../live/sse';
import { events as live, following, followProblem } from '../live/state';
import { to } from '../router';
import { Badge } from '../ui/badge';
import { Cut } from '../ui/cut';
import { Fact, Facts } from '../ui/facts';
import { clock } from '../ui/format';
import { Ago } from '../ui/time';
import { iso, Peek, type Rows, type Subject } from './subject';

const order: Severity[] = ['info', 'warning', 'critical'];
const tones = { info: 'quiet', warning: 'warn', critical: 'bad' } as const;

// most is how many events the list has: those that the daemon keeps.
const most = 20_000;

// codes returns the codes of an event: its own, and those of what it tells beside it.
const codes = (e: Event): string => [e.code, ...(e.also ?? [])].join(' ');

let before: { from: readonly Event[]; rows: Event[] } = { from: [], rows: [] };

// newestFirst turns a list of events around, once for each list.
function newestFirst(list: readonly Event[]): Event[] {
  if (before.from !== list) before = { from: list, rows: [...list].reverse() };
  return before.rows;
}

// useEvents has the events that came while the page was open, and before them those that
// the daemon keeps.
function useEvents(): Rows<Event> {
  const [older, setOlder] = useState<readonly Event[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    let found: Event[] = [];
    follow('/api/events?follow=false', stop.signal, (messages) => {
      for (const m of messages) {
        try {
          found.push(JSON.parse(m.data) as Event);
        } catch {
          // It is no event.
        }
      }
    }, () => undefined).then(() => setOlder(found), () => undefined);
    return () => {
      stop.abort();
      found = [];
    };
  }, []);
  const list = older.length === 0 ? live.value : mergeEvents(older, live.value, most);
  const error = followProblem.value === '' ? undefined : new Error(followProblem.value);
  const asked = following.value || older.length > 0 || live.value.length > 0;
  return { rows: asked ? newestFirst(list) : undefined, error, ...(following.value || !asked ? {} : { note: 'not live' }) };
}

export const events: Subject<Event> = {
  title: 'Events',
  one: 'event',
  id: (e) => String(e.id),
  useRows: useEvents,
  always: isGap, // what is missing may have been what the filter asks for
  rowClass: (e) => `event-row event-${tones[e.severity] ?? 'quiet'}`,
  fields: [
    { key: 'event', name: 'Event', value: (e) => e.text, cell: (e) => <><span class="event-mark" role="img" aria-label={e.severity} />{e.text}</> },
    { key: 'code', name: 'Code', width: 12, choose: true, phone: 'below', value: (e) => codes(e), fits: (e, code) => codes(e).split(' ').includes(code.split(' ')[0] ?? ''), cell: (e) => <code>{codes(e)}</code> },
    {
      key: 'severity', name: 'Severity', width: 6, off: true, value: (e) => e.severity,
      choose: [{ value: 'warning', label: 'warnings and worse' }, { value: 'critical', label: 'critical' }],
      fits: (e, wanted) => order.indexOf(e.severity) >= order.indexOf(wanted as Severity),
    },
    { key: 'gpu', name: 'GPU', width: 6, choose: true, label: deviceLabel, value: (e) => e.gpu, cell: (e) => (e.gpu === undefined ? undefined : deviceLabel(e.gpu)) },
    { key: 'lease', name: 'Lease', width: 16, value: (e) => e.lease, cell: (e) => (e.lease === undefined ? undefined : <Cut text={e.lease} />) },
    { key: 'user', name: 'User', width: 8, choose: true, phone: 'below', value: (e) => e.user },
    { key: 'by', name: 'By', width: 7, off: true, value: (e) => e.by?.user },
    { key: 'time', name: 'When', width: 8, numeric: true, phone: 'side', value: (e) => iso(e.time), cell: (e) => <Ago at={e.time} /> },
  ],
  Detail: EventDetail,
  empty: {
    title: 'No events',
    shows: 'Here is what happens: GPUs that change their state, leases and jobs that come and go, faults, and acts of people. The first lease is an event.',
    first: 'berth exec --memory 8GiB -- python train.py',
    topic: 'events-and-hooks',
  },
};

function EventDetail({ id, row: e }: { id: string; row: Event | undefined }) {
  if (e === undefined) return <Peek title={`Event ${id}`}><p class="empty">The daemon does not keep this event any more.</p></Peek>;
  return (
    <Peek title={e.code} state={<><Badge tone={e.severity === 'critical' ? 'bad' : e.severity === 'warning' ? 'warn' : 'info'}>{e.severity}</Badge> <span class="quiet">{clock(e.time)}, <Ago at={e.time} /></span></>}>
      <p class="event-whole">{e.text}</p>
      <Facts>
        <Fact name="GPU">{e.gpu ? <a href={to.gpu(e.gpu)}>{deviceLabel(e.gpu)}</a> : ''}</Fact>
        <Fact name="Lease">{e.lease ? <a href={to.lease(e.user, e.lease)}>{e.lease}</a> : ''}</Fact>
        <Fact name="User">{e.user}</Fact>
        <Fact name="By">{e.by?.user}</Fact>
        <Fact name="Number">{String(e.id)}</Fact>
      </Facts>
      {e.data && Object.keys(e.data).length > 0 && <><h3>Data</h3><pre class="log short" tabIndex={0} aria-label="Data of the event">{JSON.stringify(e.data, null, 1)}</pre></>}
    </Peek>
  );
}
