import { useMemo, useState } from 'preact/hooks';
import type { Severity } from '../api/types';
import { matches } from '../live/events';
import { device, events, following, followProblem, uuids } from '../live/state';
import { place, setParams } from '../router';
import { EventRow } from '../ui/event';
import { plural } from '../ui/format';
import { useGradual } from '../ui/gradual';

const step = 100;

// EventsPage lists what happened, the newest first. Its filters are in the address,
// so that a filtered list can be sent to somebody.
export function EventsPage() {
  const { params } = place.value;
  const severity = (params.get('severity') ?? '') as Severity | '';
  const gpu = params.get('gpu') ?? '';
  const code = params.get('code') ?? '';
  const text = params.get('text') ?? '';
  const [wanted, setMost] = useState(step);
  const most = useGradual(wanted, 20, 10);
  const all = events.value;
  const codes = useMemo(() => [...new Set(all.flatMap((e) => [e.code, ...(e.also ?? [])]))].sort(), [all]);
  const found = useMemo(() => all.filter((e) => matches(e, { severity, gpu, code, text })).reverse(), [all, severity, gpu, code, text]);
  const filtered = severity !== '' || gpu !== '' || code !== '' || text !== '';
  return (
    <section class="page" aria-labelledby="events">
      <header class="page-head">
        <h1 id="events">Events</h1>
        <span class="quiet">{filtered ? `${found.length} of ${plural(all.length, 'event')}` : plural(all.length, 'event')}{!following.value && all.length > 0 && ', not live'}</span>
      </header>
      {followProblem.value !== '' && <p class="problem" role="alert">{followProblem.value}</p>}
      <div class="filters">
        <input type="search" aria-label="Filter events" placeholder="Filter  /" value={text} onInput={(e) => setParams({ text: e.currentTarget.value })} />
        <select aria-label="Severity" value={severity} onChange={(e) => setParams({ severity: e.currentTarget.value })}>
          <option value="">every severity</option>
          <option value="warning">warnings and worse</option>
          <option value="critical">critical</option>
        </select>
        <select aria-label="Device" value={gpu} onChange={(e) => setParams({ gpu: e.currentTarget.value })}>
          <option value="">every device</option>
          {uuids.value.map((uuid) => <option key={uuid} value={uuid}>GPU {device(uuid).peek()?.device.index}</option>)}
          {gpu !== '' && !uuids.value.includes(gpu) && <option value={gpu}>{gpu}</option>}
        </select>
        <select aria-label="Code" value={code} onChange={(e) => setParams({ code: e.currentTarget.value })}>
          <option value="">every code</option>
          {(code === '' || codes.includes(code) ? codes : [code, ...codes]).map((c) => <option key={c} value={c}>{c}</option>)}
        </select>
        {filtered && <button type="button" onClick={() => setParams({ text: '', severity: '', gpu: '', code: '' })}>Show all</button>}
      </div>
      {found.length === 0
        ? <p class="empty">{all.length === 0 ? (following.value ? 'Nothing has happened yet.' : 'Asking the daemon…') : 'No event fits the filter.'}</p>
        : <ol class="events wide">{found.slice(0, most).map((e) => <EventRow key={e.id} event={e} wide />)}</ol>}
      {most === wanted && found.length > most && <button type="button" onClick={() => setMost(most + step)}>Show {Math.min(step, found.length - most)} older</button>}
    </section>
  );
}
