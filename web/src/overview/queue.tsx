import { effect, signal } from '@preact/signals';
import { memo } from 'preact/compat';
import { useEffect, useState } from 'preact/hooks';
import { api } from '../api/client';
import { owns } from '../actions/rights';
import type { Estimate, Explanation, Waiting, Whoami } from '../api/types';
import { freshness, leases, leasesKnown, me, waiting } from '../live/state';
import { to } from '../router';
import { Badge } from '../ui/badge';
import { memory, plural } from '../ui/format';
import { useGradual } from '../ui/gradual';
import { Ago, For } from '../ui/time';
import { fits } from './filter';

const few = 6;
const explained = 2; // how many requests are explained without being asked

// queued puts requests in the order in which they are looked at: those that wait for a
// limit, so that others pass them, come last, and those of the person who looks before others.
export function queued(requests: readonly Waiting[], who: Whoami | undefined): Waiting[] {
  const rank = (w: Waiting) => (w.limit === undefined ? 0 : 2) + (owns(who, w.holder) ? 0 : 1);
  return [...requests].sort((a, b) => rank(a) - rank(b) || a.position - b.position);
}

const limits: Record<NonNullable<Waiting['limit']>, string> = { user: 'limit of its user', group: 'limit of a group', service: 'limit of its service' };

// Queue lists who waits, and why: for a GPU, in the order of the queue, and then for a limit.
export function Queue({ filter }: { filter: string }) {
  const [all, setAll] = useState(false);
  const found = queued(waiting.value.filter((w) => fits(w, filter)), me.value);
  const limited = waiting.value.filter((w) => w.limit !== undefined).length;
  const shown = found.slice(0, useGradual(all ? found.length : few, few, 5));
  return (
    <section class="panel" aria-labelledby="queue">
      <header class="panel-head">
        <h2 id="queue">Waiting</h2>
        {waiting.value.length > 0 && <span class="quiet">{plural(waiting.value.length, 'request')}{limited > 0 && `, ${limited} for ${limited === 1 ? 'a limit' : 'limits'}`}</span>}
      </header>
      {found.length === 0 ? (
        <p class="empty">{!leasesKnown.value ? 'Asking…' : filter !== '' && waiting.value.length > 0 ? 'No request fits the filter.' : <>Nobody waits. What finds no room stands here, with when it starts: <code>berth submit -- COMMAND</code>.</>}</p>
      ) : (
        <ol class="queue">
          {shown.map((w, i) => <Entry key={`${w.holder.user ?? ''}/${w.id}`} request={w} why={i < explained} />)}
        </ol>
      )}
      {found.length > few && (
        <button type="button" class="plain" onClick={() => setAll(!all)}>{all ? 'Show fewer' : `${found.length - few} more`}</button>
      )}
    </section>
  );
}

const Entry = memo(function Entry({ request: w, why }: { request: Waiting; why: boolean }) {
  const [open, setOpen] = useState(false);
  const asks = [w.gpus > 1 ? `${w.gpus} × ` : '', w.memory_mb > 0 ? memory(w.memory_mb) : plural(w.slots, 'slot')].join('');
  return (
    <li class="waiting">
      <span class="waiting-place" aria-label={`Place ${w.position}`}>{w.position}</span>
      <div class="waiting-what">
        <a href={to.lease(w.holder.user, w.id)}>{w.id}</a>
        <span class="quiet">{w.holder.user}</span>
        {w.limit && <Badge tone="off" title="It waits for this, and not for a GPU. Others pass it.">{limits[w.limit]}</Badge>}
        {w.for && <Badge tone="info">{`to ${w.for}`}</Badge>}
        {w.priority !== 0 && <Badge tone="off">{`priority ${w.priority}`}</Badge>}
      </div>
      <span class="waiting-asks">{asks}</span>
      <div class="waiting-why">
        {why || open ? <Why request={w} /> : <button type="button" class="plain" onClick={() => setOpen(true)}>Why?</button>}
        <span class="quiet waiting-since">for <For since={w.since} />{w.estimate && <>, <Starts estimate={w.estimate} /></>}{w.deadline && <>, gives up <Ago at={w.deadline} /></>}</span>
      </div>
    </li>
  );
}, (a, b) => a.request === b.request && a.why === b.why);

// Starts says when a request will probably be granted. why: say why that is not known.
export function Starts({ estimate: e, why }: { estimate: Estimate; why?: boolean }) {
  if (!e.likely) return <span title={e.unknown}>start not known{why && e.unknown ? `: ${e.unknown}` : ''}{e.latest && <>, at the latest <Ago at={e.latest} />{e.passable && ', if nobody passes it'}</>}</span>;
  return <>starts probably <Ago at={e.likely} />{!e.late ? ', if nobody comes who goes first' : e.late > e.likely && <>, nine times of ten before <Ago at={e.late} /></>}</>;
}

// Why asks the daemon what a request waits for, again whenever leases have changed,
// but not more often than every few seconds.
function Why({ request }: { request: Waiting }) {
  const [it, setIt] = useState<Explanation | string | undefined>(undefined);
  const { id } = request;
  const user = request.holder.user;
  useEffect(() => {
    const stop = new AbortController();
    let last = -Infinity;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const again = signal(0);
    const ask = () => {
      timer = undefined;
      last = performance.now();
      api.explain(user, id, { signal: stop.signal, query: { brief: true } }).then(
        (found) => setIt(found),
        (err: unknown) => {
          if (!stop.signal.aborted) setIt(err instanceof Error ? err.message : String(err));
        },
      );
    };
    const end = effect(() => {
      leases.value;
      again.value;
      if (freshness.value !== 'fresh' || timer !== undefined) return;
      timer = setTimeout(ask, Math.max(0, 10_000 - (performance.now() - last)));
    });
    return () => {
      end();
      stop.abort();
      clearTimeout(timer);
    };
  }, [id, user]);
  if (it === undefined) return <span class="quiet">Asking why…</span>;
  if (typeof it === 'string') return <span class="quiet">{it}</span>;
  return (
    <span title={it.hint}>
      {it.text}
      {!it.possible && <> <Badge tone="bad">can never be granted</Badge></>}
    </span>
  );
}
