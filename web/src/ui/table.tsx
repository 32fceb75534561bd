import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';

export interface Column<T> {
  name: string;
  cell: (row: T) => ComponentChildren;
  sort?: (row: T) => number | string; // absent: the column does not sort
  numeric?: boolean;
  wide?: boolean; // takes the room that is left
  hide?: 'phone'; // left out on a narrow screen
}

// sorted returns the rows in the order of a key; equal ones stay as they are.
export function sorted<T>(rows: readonly T[], key: (row: T) => number | string, down: boolean): T[] {
  const sign = down ? -1 : 1;
  return rows
    .map((row, i) => ({ row, i, k: key(row) }))
    .sort((a, b) => {
      const order = typeof a.k === 'number' && typeof b.k === 'number' ? a.k - b.k : String(a.k).localeCompare(String(b.k), 'en', { numeric: true });
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
