import { signal } from '@preact/signals';

// Route is a place of the page. Parts that come from the address are decoded, and
// may hold anything.
export type Route =
  | { page: 'overview' }
  | { page: 'gpu'; uuid: string }
  | { page: 'lease'; user: string; id: string }
  | { page: Plain }
  | { page: List; open: string } // open: the row beside the list; empty: none
  | { page: 'unknown'; text: string };

export const plain = ['plans', 'alerts', 'reports'] as const;
export type Plain = (typeof plain)[number];

// lists are the places that list rows of one kind.
export const lists = ['jobs', 'services', 'leases', 'users', 'batches', 'events', 'tokens'] as const;
export type List = (typeof lists)[number];

function among<T extends string>(all: readonly T[], name: string | undefined): name is T {
  return (all as readonly (string | undefined)[]).includes(name);
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined; // a percent sign with no number behind it
  }
}

// parse reads the part of an address after the #. Parameters follow a question mark.
export function parse(hash: string): { route: Route; params: URLSearchParams } {
  const text = hash.replace(/^#/, '');
  const mark = text.indexOf('?');
  const place = mark < 0 ? text : text.slice(0, mark);
  const params = new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1));
  const parts = place.split('/').filter((p) => p !== '').map(decode);
  const unknown = { route: { page: 'unknown', text: place } as Route, params };
  if (parts.some((p) => p === undefined)) return unknown;
  const [first, second, third] = parts as string[];
  switch (first) {
    case undefined:
      return { route: { page: 'overview' }, params };
    case 'gpu':
      if (second === undefined || parts.length > 2) return unknown;
      return { route: { page: 'gpu', uuid: second }, params };
    case 'lease':
      if (second === undefined || parts.length > 3) return unknown;
      return { route: third === undefined ? { page: 'lease', user: '', id: second } : { page: 'lease', user: second, id: third }, params };
  }
  if (among(plain, first) && parts.length === 1) return { route: { page: first }, params };
  if (among(lists, first) && parts.length <= 2) return { route: { page: first, open: second ?? '' }, params };
  return unknown;
}

// to returns the address of a place, for a link.
export const to = {
  overview: () => '#/',
  gpu: (uuid: string) => `#/gpu/${encodeURIComponent(uuid)}`,
  lease: (user: string | undefined, id: string) =>
    user ? `#/lease/${encodeURIComponent(user)}/${encodeURIComponent(id)}` : `#/lease/${encodeURIComponent(id)}`,
  page: (name: Plain | List, params?: Record<string, string> | URLSearchParams) => withParams(`#/${name}`, params),
  row: (name: List, id: string, params?: Record<string, string> | URLSearchParams) => withParams(`#/${name}/${encodeURIComponent(id)}`, params),
};

function withParams(where: string, params: Record<string, string> | URLSearchParams | undefined): string {
  const search = new URLSearchParams(params).toString();
  return search === '' ? where : `${where}?${search}`;
}

// place is where the page is now. listen keeps it up to date.
export const place = signal(parse(''));

export function listen(onLogin: () => void): void {
  const read = () => {
    if (location.hash.startsWith('#login=')) onLogin(); // a link of berth open, in a page that is open
    place.value = parse(location.hash);
  };
  addEventListener('hashchange', read);
  read();
}

// replace goes to an address without a new entry in the history of the browser.
export function replace(address: string): void {
  history.replaceState(null, '', address);
  place.value = parse(location.hash);
}

// setParams changes the parameters of the present place without a new entry in the
// history of the browser. An empty text removes a parameter.
export function setParams(changes: Record<string, string>): void {
  const [where = '#/', search = ''] = (location.hash || '#/').split('?');
  const params = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === '') params.delete(name);
    else params.set(name, value);
  }
  const text = params.toString();
  replace(text === '' ? where : `${where}?${text}`);
}
