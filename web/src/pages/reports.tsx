import { useState } from 'preact/hooks';
import { address } from '../api/client';
import { place, setParams } from '../router';
import '../style/views.css';
import '../style/lists.css';

const lengths = [
  { name: 'hour', since: '1h' },
  { name: 'day', since: '24h' },
  { name: 'week', since: '168h' },
  { name: 'month', since: '720h' },
  { name: '90 days', since: '2160h' },
];

// known reports whether the daemon can read a time: a moment, or how long ago it was.
function known(time: string): boolean {
  return /^\d{1,9}[smh]$/.test(time) || /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(time);
}

// local writes a time as a field for a date and a time has it, in the zone of the browser.
function local(time: string): string {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return '';
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

// ReportsPage shows the report of a range of time in place. The daemon makes it of what
// the caller may see. It comes in a frame in which nothing runs.
export function ReportsPage() {
  const { params } = place.value;
  const since = params.get('since') ?? '168h';
  const until = params.get('until') ?? '';
  const own = Number.isNaN(Date.parse(since)) ? '' : since;
  const [from, setFrom] = useState(local(own));
  const [end, setEnd] = useState(local(until));
  const [shown, setShown] = useState('');
  const [problem, setProblem] = useState('');
  const readable = known(since) && (until === '' || known(until));
  const where = address('/api/report', { since, until: until || undefined });
  const choose = (e: Event) => {
    e.preventDefault();
    const [a, b] = [new Date(from), end === '' ? new Date() : new Date(end)];
    if (Number.isNaN(a.getTime()) || Number.isNaN(b.getTime())) return setProblem('Say where the report begins.');
    if (b.getTime() - a.getTime() < 60_000) return setProblem('The report must begin at least a minute before it ends.');
    setProblem('');
    setParams({ since: a.toISOString(), until: end === '' ? '' : b.toISOString() });
  };
  return (
    <section class="list-page" data-list="reports" aria-labelledby="list-title">
      <header class="list-head">
        <h1 id="list-title">Reports</h1>
        <span class="quiet list-count" role="status">{shown === where || !readable ? '' : 'Making the report …'}</span>
      </header>
      <div class="list-tools">
        <div class="tabs" role="group" aria-label="How far back">
          {lengths.map((l) => (
            <button key={l.since} type="button" class="tab" aria-pressed={since === l.since && until === ''} onClick={() => setParams({ since: l.since, until: '' })}>{l.name}</button>
          ))}
        </div>
        <form class="range" onSubmit={choose}>
          <label>from <input type="datetime-local" value={from} onInput={(e) => setFrom(e.currentTarget.value)} /></label>
          <label>to <input type="datetime-local" value={end} onInput={(e) => setEnd(e.currentTarget.value)} /></label>
          <button type="submit">Show</button>
        </form>
        <span class="grow" />
        {readable && <a href={where} download={`berth-report-${new Date().toISOString().slice(0, 10)}.html`}>Save as a file</a>}
      </div>
      {problem !== '' && <p class="notice tone-bad" role="alert">{problem}</p>}
      {!readable && <p class="notice tone-bad" role="alert">The address has a time that nobody can read. Choose how far back the report goes.</p>}
      {readable && <iframe key={where} class="report" title="Report" sandbox="" src={where} onLoad={() => setShown(where)} />}
    </section>
  );
}
