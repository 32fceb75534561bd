import type { ComponentChildren } from 'preact';
import { memo } from 'preact/compat';
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { count } from './format';

export interface Column<T> {
  name: string;
  cell: (row: T) => ComponentChildren;
  sort?: (row: T) => number | string; // absent: the column does not sort
  numeric?: boolean;
  wide?: boolean; // takes the room that is left
  hide?: 'phone'; // left out on a narrow screen
}

const collator = new Intl.Collator('en', { numeric: true });

// sorted returns the rows in the order of a key; equal ones stay as they are, and those
// without a key come last.
export function sorted<T>(rows: readonly T[], key: (row: T) => number | string | undefined, down: boolean): T[] {
  const sign = down ? -1 : 1;
  return rows
    .map((row, i) => ({ row, i, k: key(row) }))
    .sort((a, b) => {
      if (a.k === undefined || b.k === undefined) return a.k === b.k ? a.i - b.i : a.k === undefined ? 1 : -1;
      const order = typeof a.k === 'number' && typeof b.k === 'number' ? a.k - b.k : collator.compare(String(a.k), String(b.k));
      return order !== 0 ? sign * order : a.i - b.i;
    })
    .map((it) => it.row);
}

// Table lists rows. Pressing a heading sorts by it.
export function Table<T>({ label, columns, rows, id, empty }: {
  label: string;
  columns: Column<T>[];
  rows: readonly T[];
  id: (row: T) => string | number;
  empty: ComponentChildren;
}) {
  const [by, setBy] = useState<{ column: number; down: boolean } | undefined>(undefined);
  const shown = useMemo(() => {
    const key = by === undefined ? undefined : columns[by.column]?.sort;
    return key === undefined ? rows : sorted(rows, key, by!.down);
  }, [rows, by, columns]);
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  return (
    <div class="table-frame">
      <table class="table">
        <caption class="hidden">{label}</caption>
        <thead>
          <tr>
            {columns.map((c, i) => (
              <th
                key={c.name}
                scope="col"
                class={cellClass(c)}
                aria-sort={by?.column === i ? (by.down ? 'descending' : 'ascending') : undefined}
              >
                {c.sort ? (
                  <button type="button" class="plain" onClick={() => setBy({ column: i, down: by?.column === i ? !by.down : c.numeric === true })}>
                    {c.name}
                  </button>
                ) : c.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <tr key={id(row)}>
              {columns.map((c) => <td key={c.name} class={cellClass(c)}>{c.cell(row)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function cellClass<T>(c: Column<T>): string {
  return [c.numeric ? 'number' : '', c.wide ? 'wide' : '', c.hide === 'phone' ? 'not-phone' : ''].filter((x) => x !== '').join(' ');
}

// Field is a column of a list. The first one of a list is its title.
export interface Field<T> {
  key: string; // in the address and in exports
  name: string;
  value: (row: T) => number | string | undefined; // what sorts, what a filter looks at, and what is exported
  cell?: (row: T) => ComponentChildren; // as shown; absent: the value
  width?: number; // em; absent: it takes the room that is left
  numeric?: boolean;
  off?: boolean; // shown only if somebody chooses it
  choose?: boolean | { value: string; label: string }[]; // a filter of its own, by its values or by these
  chips?: readonly string[]; // a filter of its own, with a chip and a count for each of these values that there is
  label?: (value: string) => string; // of a value in that filter; absent: the value
  fits?: (row: T, wanted: string) => boolean; // whether a row fits that filter; absent: it has the value
  phone?: 'side' | 'below'; // where a narrow screen shows it; absent: nowhere
}

// The heights of a row in CSS pixels, as lists.css has them.
const rowHeight = 36;
const phoneHeight = 60;
const headHeight = 34;
const spare = 8; // rows that are drawn beyond what is seen
const mostPrinted = 2000; // rows on paper

// List lists thousands of rows, of which it draws those that can be seen. One row is
// chosen with the arrow keys or j and k, and opened with Enter or a press.
export function List<T>({ label, fields: wanted, rows, id, href, open, sort, onSort, onOpen, onMove, onEscape, rowClass, empty }: {
  label: string;
  fields: Field<T>[];
  rows: readonly T[];
  id: (row: T) => string;
  href: (row: T) => string | undefined; // where the title leads; absent: nowhere
  open: string; // the id of the row that is shown beside the list; empty: none
  sort: { key: string; down: boolean } | undefined;
  onSort: (key: string) => void;
  onOpen: (row: T) => void;
  onMove: (row: T) => void; // another row was chosen while one was open
  onEscape: () => void;
  rowClass?: ((row: T) => string) | undefined;
  empty: ComponentChildren;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const grid = useRef<HTMLTableElement>(null);
  const narrow = useNarrow();
  const paper = usePaper();
  const height = narrow ? phoneHeight : rowHeight;
  const [range, setRange] = useState({ first: 0, last: 40 });
  const [room, setRoom] = useState(0); // em; 0: not measured
  const fields = useMemo(() => (open === '' || narrow || room === 0 ? wanted : fitting(wanted, room)), [wanted, open === '', narrow, room]);
  const [cursor, setCursor] = useState(open);
  const measure = () => {
    const f = frame.current;
    if (f === null) return;
    const first = Math.max(0, Math.floor(f.scrollTop / height / 4) * 4 - spare);
    const last = Math.ceil((f.scrollTop + f.clientHeight) / height / 4) * 4 + spare;
    setRange((r) => (r.first === first && r.last === last ? r : { first, last }));
    setRoom(Math.floor(f.clientWidth / parseFloat(getComputedStyle(f).fontSize)));
  };
  useLayoutEffect(measure, [rows.length, height]);
  useEffect(() => {
    const f = frame.current;
    if (f === null) return;
    const seen = new ResizeObserver(measure);
    seen.observe(f);
    return () => seen.disconnect();
  }, [rows.length === 0, height]);
  const at = rows.findIndex((row) => id(row) === cursor);
  const show = (i: number) => {
    const f = frame.current;
    if (f === null) return;
    const head = narrow ? 0 : headHeight;
    if (i * height < f.scrollTop) f.scrollTop = i * height;
    else if ((i + 1) * height + head > f.scrollTop + f.clientHeight) f.scrollTop = (i + 1) * height + head - f.clientHeight;
  };
  useEffect(() => {
    if (open === '') return;
    setCursor(open);
    const i = rows.findIndex((row) => id(row) === open);
    if (i >= 0) show(i);
  }, [open, rows.length === 0]);
  const move = (to: number) => {
    const i = Math.max(0, Math.min(rows.length - 1, to));
    const row = rows[i];
    if (row === undefined) return;
    setCursor(id(row));
    show(i);
    grid.current?.focus({ preventScroll: true });
    if (open !== '') onMove(row);
  };
  const pressed = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
    const target = e.target as HTMLElement;
    const search = target.matches('input[type=search]') && (e.key === 'ArrowDown' || e.key === 'Enter');
    if ((!search && target.matches('input, textarea, select, [contenteditable]')) || document.querySelector('dialog[open]')) return;
    const inside = grid.current?.contains(target) === true;
    const mine = search || target === document.body || target === grid.current || target.id === 'main' || (inside && e.key !== 'Enter');
    const page = Math.max(1, Math.floor((frame.current?.clientHeight ?? 400) / height) - 2);
    switch (e.key) {
      case 'j': move(at + 1); break;
      case 'k': move(at < 0 ? 0 : at - 1); break;
      case 'Escape': onEscape(); break;
      default:
        if (!mine) return;
        switch (e.key) {
          case 'ArrowDown': move(search ? Math.max(0, at) : at + 1); break;
          case 'ArrowUp': move(at < 0 ? 0 : at - 1); break;
          case 'PageDown': move(at + page); break;
          case 'PageUp': move(at - page); break;
          case 'Home': move(0); break;
          case 'End': move(rows.length - 1); break;
          case 'Enter':
            if (search) move(Math.max(0, at));
            else if (rows[at] !== undefined) onOpen(rows[at]);
            break;
          default: return;
        }
    }
    e.preventDefault();
  };
  const latest = useRef(pressed);
  latest.current = pressed;
  const opening = useRef(onOpen);
  opening.current = onOpen;
  const press = useCallback((row: object, key: string) => {
    setCursor(key);
    opening.current(row as T);
  }, []);
  useEffect(() => {
    const listen = (e: KeyboardEvent) => latest.current(e);
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, []);
  if (rows.length === 0) return <>{empty}</>;
  const last = Math.min(rows.length, paper ? mostPrinted : range.last);
  const first = paper ? 0 : Math.min(range.first, Math.max(0, last - 1));
  const least = fields.reduce((sum, f) => sum + (f.width ?? titleWidth), lastMore);
  return (
    <div class="list-frame" ref={frame} onScroll={measure}>
      <table
        class="list" role="grid" ref={grid} tabIndex={0} aria-label={label} aria-rowcount={rows.length + 1}
        aria-activedescendant={at >= first && at < last ? `row-${at}` : undefined} style={{ minWidth: narrow ? undefined : `${least}em` }}
      >
        <colgroup>{fields.map((f, i) => <col key={f.key} style={{ width: f.width === undefined ? undefined : `${f.width + (i === fields.length - 1 ? lastMore : 0)}em` }} />)}</colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {fields.map((f) => (
              <th key={f.key} scope="col" class={f.numeric ? 'number' : undefined} aria-sort={sort?.key === f.key ? (sort.down ? 'descending' : 'ascending') : undefined}>
                <button type="button" class="plain" onClick={() => onSort(f.key)}>{f.name}</button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <Gap height={first * height} columns={fields.length} />}
          {rows.slice(first, last).map((row, i) => {
            const key = id(row);
            const name = [rowClass?.(row) ?? '', key === open ? 'open' : ''].filter((x) => x !== '').join(' ') || undefined;
            return <Line key={key} id={key} row={row as object} fields={fields as unknown as Field<object>[]} at={first + i} link={href(row)} chosen={key === cursor} name={name} onPress={press} />;
          })}
          {last < rows.length && !paper && <Gap height={(rows.length - last) * height} columns={fields.length} />}
        </tbody>
      </table>
      {paper && last < rows.length && <p class="list-cut">These are the first {count(last)} of {count(rows.length)} rows. CSV and JSON have all of them.</p>}
    </div>
  );
}

const titleWidth = 16; // em, at least
const lastMore = 1.2; // em, for the edge beside the last column

// fitting returns the fields that have room beside what is open, the first ones before
// others.
function fitting<T>(fields: Field<T>[], room: number): Field<T>[] {
  let left = room;
  return fields.filter((f, i) => {
    const width = f.width ?? titleWidth;
    if (i > 0 && width > left) return false;
    left -= width;
    return true;
  });
}

// Line is one row of a list. It is drawn again only if something of it has changed.
const Line = memo(function Line({ id, row, fields, at, link, chosen, name, onPress }: {
  id: string;
  row: object;
  fields: Field<object>[];
  at: number;
  link: string | undefined;
  chosen: boolean;
  name: string | undefined;
  onPress: (row: object, id: string) => void;
}) {
  return (
    <tr
      id={`row-${at}`} aria-rowindex={at + 2} aria-selected={chosen} data-row={id} class={name}
      onClick={(e) => {
        if (getSelection()?.type !== 'Range' && !(e.target as HTMLElement).closest('a, button')) onPress(row, id);
      }}
    >
      {fields.map((f, n) => {
        const value = f.value(row);
        const shown = (f.cell ? f.cell(row) : value) ?? '–';
        const where = n === 0 ? 'title' : `phone-${shown === '–' || shown === '' ? 'none' : (f.phone ?? 'none')}${f.width === undefined ? ' rest' : ''}`;
        return (
          <td key={f.key} class={f.numeric ? `number ${where}` : where} title={typeof value === 'string' && value.length > 14 ? value : undefined}>
            {n === 0 && link !== undefined ? <a href={link} tabIndex={-1}>{shown}</a> : shown}
          </td>
        );
      })}
    </tr>
  );
});

// Gap stands for rows that are not drawn.
function Gap({ height, columns }: { height: number; columns: number }) {
  return <tr class="gap" aria-hidden="true"><td colSpan={columns} style={{ height: `${height}px` }} /></tr>;
}

// usePaper reports whether the page is being printed.
function usePaper(): boolean {
  const [paper, setPaper] = useState(false);
  useEffect(() => {
    const begin = () => setPaper(true);
    const end = () => setPaper(false);
    addEventListener('beforeprint', begin);
    addEventListener('afterprint', end);
    return () => {
      removeEventListener('beforeprint', begin);
      removeEventListener('afterprint', end);
    };
  }, []);
  return paper;
}

// useNarrow reports whether the screen is as narrow as a phone's.
function useNarrow(): boolean {
  const query = useMemo(() => matchMedia('(max-width: 640px)'), []);
  const [narrow, setNarrow] = useState(query.matches);
  useEffect(() => {
    const changed = () => setNarrow(query.matches);
    query.addEventListener('change', changed);
    return () => query.removeEventListener('change', changed);
  }, [query]);
  return narrow;
}
