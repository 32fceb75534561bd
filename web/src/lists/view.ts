import { csv } from '../ui/save';
import { type Field, sorted } from '../ui/table';

// View is what an address asks a list to show: the parameters sort and text, and one for
// each field that can be chosen.
export interface View<T> {
  rows: readonly T[];
  sort: { key: string; down: boolean } | undefined; // absent: as the rows come
  filtered: boolean;
}

// sortOf reads the parameter sort: a key, with a minus before it for the greatest first.
export function sortOf(text: string | null): { key: string; down: boolean } | undefined {
  if (text === null || text === '' || text === '-') return undefined;
  return text.startsWith('-') ? { key: text.slice(1), down: true } : { key: text, down: false };
}

// nextSort returns the parameter sort after a press on a heading: first the usual order of
// the field, then the other one, then none.
export function nextSort<T>(field: Field<T>, now: { key: string; down: boolean } | undefined): string {
  const usual = field.numeric === true;
  if (now?.key !== field.key) return usual ? `-${field.key}` : field.key;
  if (now.down === usual) return usual ? field.key : `-${field.key}`;
  return '';
}

// shownFields returns the fields that the parameter cols names, or the usual ones. The
// title is always there.
export function shownFields<T>(fields: readonly Field<T>[], cols: string | null): Field<T>[] {
  const named = cols === null ? undefined : cols.split(',');
  return fields.filter((f, i) => i === 0 || (named === undefined ? !f.off : named.includes(f.key)));
}

// colsAfter returns the parameter cols after one field was switched on or off; empty if
// the usual ones are shown then.
export function colsAfter<T>(fields: readonly Field<T>[], shown: readonly Field<T>[], key: string): string {
  const on = new Set(shown.map((f) => f.key));
  if (!on.delete(key)) on.add(key);
  const rest = fields.slice(1);
  if (rest.every((f) => on.has(f.key) !== (f.off === true))) return '';
  return rest.filter((f) => on.has(f.key)).map((f) => f.key).join(',') || 'none';
}

// texts remembers what a filter looks at in a row, by the row.
const texts = new WeakMap<object, string>();

function textOf<T extends object>(row: T, fields: readonly Field<T>[]): string {
  let text = texts.get(row);
  if (text === undefined) {
    text = fields.map((f) => f.value(row)).filter((v) => v !== undefined).join('\n').toLowerCase();
    texts.set(row, text);
  }
  return text;
}

// view applies an address to the rows of a list. No filter leaves out a row that is always
// shown.
export function view<T extends object>(fields: readonly Field<T>[], rows: readonly T[], params: URLSearchParams, always?: (row: T) => boolean): View<T> {
  const words = (params.get('text') ?? '').toLowerCase().split(/\s+/).filter((w) => w !== '');
  const choices = fields.flatMap((f) => {
    const wanted = f.choose || f.chips ? params.get(f.key) : null;
    return wanted === null || wanted === '' ? [] : [{ wanted, fits: f.fits ?? ((row: T, value: string) => String(f.value(row) ?? '') === value) }];
  });
  const filtered = words.length > 0 || choices.length > 0;
  let chosen = rows;
  if (filtered) chosen = rows.filter((row) => always?.(row) === true || (choices.every((c) => c.fits(row, c.wanted)) && words.every((w) => textOf(row, fields).includes(w))));
  const sort = sortOf(params.get('sort'));
  const by = fields.find((f) => f.key === sort?.key);
  return {
    rows: by === undefined || sort === undefined ? chosen : sorted(chosen, by.value, sort.down),
    sort: by === undefined ? undefined : sort, filtered,
  };
}

// asCSV writes the fields of rows as comma-separated values.
export function asCSV<T>(fields: readonly Field<T>[], rows: readonly T[]): string {
  return csv(rows.map((row) => Object.fromEntries(fields.map((f) => [f.key, f.value(row)]))), fields.map((f) => f.key));
}

// asJSON writes rows as a list of objects, by the keys of the fields.
export function asJSON<T>(fields: readonly Field<T>[], rows: readonly T[]): string {
  return JSON.stringify(rows.map((row) => Object.fromEntries(fields.flatMap((f) => {
    const value = f.value(row);
    return value === undefined ? [] : [[f.key, value]];
  }))), null, 1) + '\n';
}
