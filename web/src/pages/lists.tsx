import { useEffect, useMemo, useRef } from 'preact/hooks';
import { Acts } from '../actions/dialog';
import { around } from '../live/around';
import { batches } from '../lists/batches';
import { events } from '../lists/events';
import { jobs } from '../lists/jobs';
import { leases } from '../lists/leases';
import { services } from '../lists/services';
import type { Subject } from '../lists/subject';
import { tokens } from '../lists/tokens';
import { users } from '../lists/users';
import { asCSV, asJSON, colsAfter, nextSort, shownFields, view } from '../lists/view';
import { type List as Name, place, replace, setParams, to } from '../router';
import { count } from '../ui/format';
import { save } from '../ui/save';
import { Blank } from '../ui/nothing';
import { type Field, List } from '../ui/table';
import '../style/views.css';
import '../style/lists.css';

const subjects = { jobs, services, leases, users, batches, events, tokens } as unknown as Record<Name, Subject>;

// ListPage lists the rows of a subject. What is filtered, sorted and shown is in the
// address, so that it can be sent to somebody, and survives a reload.
export function ListPage({ name, open }: { name: Name; open: string }) {
  return <Shown key={name} name={name} subject={subjects[name]} open={open} />;
}

function Shown({ name, subject, open }: { name: Name; subject: Subject; open: string }) {
  const { params } = place.value;
  const search = params.toString();
  const { rows, error, note } = subject.useRows();
  const all = rows ?? none;
  const v = useMemo(() => view(subject.fields, all, params, subject.always), [all, search]);
  const cols = params.get('cols');
  const fields = useMemo(() => shownFields(subject.fields, cols), [subject, cols]);
  const chosen = subject.Detail === undefined ? '' : open;
  const row = useMemo(() => (chosen === '' ? undefined : all.find((r) => subject.id(r) === chosen)), [all, chosen]);
  const a = around();
  const href = (r: object) => subject.href?.(r) ?? (subject.Detail && to.row(name, subject.id(r), params));
  const close = () => { location.hash = to.page(name, params); };
  const Detail = subject.Detail;
  const links = subject.links?.(a) ?? [];
  const export_ = (type: 'csv' | 'json') => save(
    `berth-${name}-${new Date().toISOString().slice(0, 10)}.${type}`, type === 'csv' ? 'text/csv' : 'application/json', type === 'csv' ? asCSV(fields, v.rows) : asJSON(fields, v.rows),
  );
  return (
    <section class="list-page" data-list={name} aria-labelledby="list-title">
      <header class="list-head">
        <h1 id="list-title">{subject.title}</h1>
        <span class="quiet list-count" role="status">{rows === undefined ? '' : v.filtered ? `${count(v.rows.length)} of ${count(all.length)}` : count(all.length)}{note ? `, ${note}` : ''}</span>
        {links.map((l) => <a key={l.href} href={l.href}>{l.label}</a>)}
        <Acts acts={subject.acts?.(a) ?? []} label={`What you can do with ${name}`} />
      </header>
      <div class="list-tools">
        <input type="search" aria-label={`Filter ${name}`} placeholder="Filter  /" value={params.get('text') ?? ''} onInput={(e) => setParams({ text: e.currentTarget.value })} />
        {subject.fields.filter((f) => f.chips).map((f) => <Chips key={f.key} field={f} rows={all} value={params.get(f.key) ?? ''} />)}
        {subject.fields.filter((f) => f.choose).map((f) => <Choice key={f.key} field={f} rows={all} value={params.get(f.key) ?? ''} />)}
        {v.filtered && <button type="button" onClick={() => setParams(Object.fromEntries([['text', ''], ...subject.fields.filter((f) => f.choose || f.chips).map((f) => [f.key, ''])]))}>Show all</button>}
        <span class="grow" />
        <Columns fields={subject.fields} shown={fields} />
        <div class="exports" role="group" aria-label="Export what is shown">
          <button type="button" onClick={() => export_('csv')}>CSV</button>
          <button type="button" onClick={() => export_('json')}>JSON</button>
        </div>
      </div>
      {error && <p class="notice tone-warn" role="status">{error.message}</p>}
      <div class={chosen === '' ? 'list-body' : 'list-body split'}>
        <List
          label={subject.title}
          fields={fields}
          rows={v.rows}
          id={subject.id}
          href={href}
          open={chosen}
          sort={v.sort}
          onSort={(key) => {
            const field = subject.fields.find((f) => f.key === key);
            if (field) setParams({ sort: nextSort(field, v.sort) });
          }}
          onOpen={(r) => { const link = href(r); if (link !== undefined) location.hash = link; }}
          onMove={(r) => replace(to.row(name, subject.id(r), params))}
          onEscape={() => { if (chosen !== '') close(); }}
          rowClass={subject.rowClass}
          empty={rows === undefined ? error ? null : <p class="empty list-empty">Asking the daemon …</p> : v.filtered ? <p class="empty list-empty">No {subject.one} fits the filter.</p> : <Blank of={subject.empty} />}
        />
        {chosen !== '' && Detail && (
          <section class="peek view" aria-label={`${subject.one} ${chosen}`}>
            <button type="button" class="plain round peek-close" aria-label="Close" title="Close (Esc)" onClick={close}>×</button>
            <Detail key={chosen} id={chosen} row={row} />
          </section>
        )}
      </div>
    </section>
  );
}

const none: readonly object[] = [];
const mostChoices = 200;

// Chips filters by the values of one field, and counts the rows that have each.
function Chips({ field: f, rows, value }: { field: Field<object>; rows: readonly object[]; value: string }) {
  const counts = useMemo(() => {
    const found = new Map<unknown, number>();
    for (const r of rows) found.set(f.value(r), (found.get(f.value(r)) ?? 0) + 1);
    return found;
  }, [f, rows]);
  const shown = (f.chips ?? []).filter((x) => counts.has(x) || x === value);
  if (shown.length === 0) return null;
  return (
    <div class="tabs" role="group" aria-label={f.name}>
      {shown.map((x) => (
        <button key={x} type="button" class="tab" aria-pressed={x === value} onClick={() => setParams({ [f.key]: x === value ? '' : x })}>
          {count(counts.get(x) ?? 0)} {x.replaceAll('_', ' ')}
        </button>
      ))}
    </div>
  );
}

// Choice filters by the values of one field.
function Choice({ field: f, rows, value }: { field: Field<object>; rows: readonly object[]; value: string }) {
  const choices = useMemo(() => {
    if (typeof f.choose !== 'boolean' && f.choose !== undefined) return f.choose;
    const found = [...new Set(rows.map((r) => f.value(r)))].filter((x) => x !== undefined).map(String).sort().slice(0, mostChoices);
    return found.map((x) => ({ value: x, label: f.label?.(x) ?? x.replaceAll('_', ' ') }));
  }, [f, rows]);
  const known = value === '' || choices.some((c) => c.value === value);
  if (choices.length < 2 && value === '') return null;
  return (
    <select aria-label={f.name} value={value} class={value === '' ? undefined : 'chosen'} onChange={(e) => setParams({ [f.key]: e.currentTarget.value })}>
      <option value="">{f.name}</option>
      {!known && <option value={value}>{value}</option>}
      {choices.map((c) => <option key={c.value} value={c.value}>{c.label}</option>)}
    </select>
  );
}

// Columns chooses which columns are shown.
function Columns({ fields, shown }: { fields: Field<object>[]; shown: Field<object>[] }) {
  const box = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const shut = (e: Event) => {
      const it = box.current;
      if (!it?.open) return;
      if (e instanceof KeyboardEvent) {
        if (e.key !== 'Escape') return;
        e.preventDefault();
        it.querySelector('summary')?.focus();
      } else if (it.contains(e.target as Node)) return;
      it.open = false;
    };
    addEventListener('click', shut);
    addEventListener('keydown', shut, true);
    return () => {
      removeEventListener('click', shut);
      removeEventListener('keydown', shut, true);
    };
  }, []);
  const on = new Set(shown.map((f) => f.key));
  return (
    <details class="menu" ref={box}>
      <summary>Columns</summary>
      <div class="menu-box" role="group" aria-label="Columns">
        {fields.slice(1).map((f) => (
          <label key={f.key}><input type="checkbox" checked={on.has(f.key)} onChange={() => setParams({ cols: colsAfter(fields, shown, f.key) })} /> {f.name}</label>
        ))}
      </div>
    </details>
  );
}
