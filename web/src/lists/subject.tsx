import type { ComponentChildren, ComponentType } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Act } from '../actions/act';
import { done } from '../actions/dialog';
import type { Around } from '../actions/leases';
import { call, type Options } from '../api/client';
import { keepSame } from '../live/share';
import type { Nothing } from '../ui/nothing';
import type { Field } from '../ui/table';

// Subject is what a list is about: its columns, where its rows come from, and what is
// shown beside a row.
export interface Subject<T extends object = object> {
  title: string;
  one: string; // the word for one row
  fields: Field<T>[];
  id: (row: T) => string;
  useRows: () => Rows<T>;
  Detail?: ComponentType<{ id: string; row: T | undefined }>; // absent: a row opens nothing beside the list
  href?: (row: T) => string; // where a row leads that opens elsewhere
  acts?: (a: Around) => Act[]; // on the list as a whole
  links?: (a: Around) => { href: string; label: string }[]; // to lists that belong to it
  rowClass?: (row: T) => string;
  always?: (row: T) => boolean; // no filter leaves such a row out
  empty: Nothing;
}

// Rows are the rows of a list as they are now. They keep the objects that did not change.
export interface Rows<T> {
  rows: readonly T[] | undefined; // undefined: the daemon has not answered yet
  error?: Error | undefined;
  note?: string;
}

// mostRows is how many rows a list reads at most.
const mostRows = 30_000;

// whole reads a list of the daemon page by page.
export async function whole<A extends { next?: string }, T>(where: string, rows: (answer: A) => T[], o: Options): Promise<T[]> {
  const all: T[] = [];
  for (let after: string | undefined; ; ) {
    const answer = await call<A>(where, { ...o, timeout: 60_000, query: { ...o.query, after } });
    all.push(...rows(answer));
    after = answer.next;
    if (after === undefined || all.length >= mostRows) return all;
  }
}

// useAsked asks for rows again and again while somebody looks: after a pause of ms, or a
// longer one where the answer takes long, and at once after an act.
export function useAsked<T extends object>(ask: (signal: AbortSignal) => Promise<T[]>, ms: number, id: (row: T) => string, keys: unknown[] = []): Rows<T> {
  const [state, setState] = useState<Rows<T>>({ rows: undefined });
  const kept = useRef<readonly T[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const round = async () => {
      clearTimeout(timer);
      const began = performance.now();
      try {
        const found = keepSame(kept.current, await ask(stop.signal), id);
        if (stop.signal.aborted) return;
        kept.current = found;
        setState((s) => (s.rows === found && s.error === undefined ? s : { rows: found }));
      } catch (err) {
        if (stop.signal.aborted) return;
        setState((s) => ({ rows: s.rows, error: err instanceof Error ? err : new Error(String(err)) }));
      }
      if (!stop.signal.aborted && !document.hidden) timer = setTimeout(() => void round(), Math.max(ms, 15 * (performance.now() - began)));
    };
    const seen = () => {
      if (!document.hidden) void round();
    };
    document.addEventListener('visibilitychange', seen);
    void round();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, [done.value, ...keys]);
  return state;
}

// iso writes a time for sorting and exports; undefined if there is none.
export function iso(time: string | undefined): string | undefined {
  const at = time === undefined ? NaN : Date.parse(time);
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}

// Peek is the frame of what is shown beside a row.
export function Peek({ title, state, acts, children }: { title: ComponentChildren; state?: ComponentChildren; acts?: ComponentChildren; children: ComponentChildren }) {
  return (
    <>
      <header class="peek-head">
        <h2>{title}</h2>
        {state && <p class="state-line">{state}</p>}
        {acts}
      </header>
      {children}
    </>
  );
}
