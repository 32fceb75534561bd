import { takeEarly } from './early';
import type {
  Alerts, Available, Batches, Explanation, InstantAnswer, Lease, Leases, PastLeases, Problem, RangeAnswer, Settings, StatusAll, Whoami,
} from './types';

// Refusal is an answer of the daemon that is an error. Its message is for people.
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly problem: Problem | undefined;

  constructor(status: number, code: string, detail: string, problem?: Problem) {
    super(detail);
    this.name = 'Refusal';
    this.status = status;
    this.code = code;
    this.problem = problem;
  }
}

// Unreachable says that the daemon did not answer at all.
export class Unreachable extends Error {
  constructor() {
    super('The daemon does not answer.');
    this.name = 'Unreachable';
  }
}

// refusal makes an error of the body of an answer from 400 on. The body may be a
// problem document, an error in Prometheus' form, or anything that stands between
// the page and the daemon.
export function refusal(status: number, body: string): Refusal {
  try {
    const it = JSON.parse(body) as Partial<Problem> & { errorType?: string; error?: string };
    if (typeof it.detail === 'string') {
      const fields = (it.fields ?? []).map((f) => ` ${f.field}: ${f.detail}.`).join('');
      return new Refusal(status, it.code ?? '', it.detail + fields, it as Problem);
    }
    if (typeof it.error === 'string') {
      return new Refusal(status, it.errorType ?? '', it.error);
    }
  } catch {
    // Not JSON.
  }
  return new Refusal(status, '', `The daemon answered with status ${status}.`);
}

export interface Options {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  body?: unknown;
  query?: Record<string, string | number | boolean | undefined>;
  signal?: AbortSignal;
  timeout?: number; // milliseconds; 0: none
}

// address returns a path with its parameters. Parts of a path that come from
// elsewhere must have been encoded by the caller: see path.
export function address(path: string, query: Options['query']): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) search.set(name, String(value));
  }
  const text = search.toString();
  return text === '' ? path : `${path}?${text}`;
}

// path builds a path out of parts, each encoded.
export function path(...parts: string[]): string {
  return '/' + parts.map(encodeURIComponent).join('/');
}

// call asks the daemon, and returns the answer, or throws a Refusal or Unreachable.
export async function call<T>(where: string, options: Options = {}): Promise<T> {
  const { method = 'GET', body, query, signal, timeout = 15_000 } = options;
  const signals = [signal, timeout > 0 ? AbortSignal.timeout(timeout) : undefined].filter((s) => s !== undefined);
  const init: RequestInit = { method, credentials: 'same-origin', cache: 'no-store', redirect: 'error', headers: { Accept: 'application/json' } };
  if (signals.length > 0) init.signal = AbortSignal.any(signals);
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...init.headers, 'Content-Type': 'application/json' };
  }
  let answer: Response;
  let text: string;
  try {
    const at = address(where, query);
    answer = (method === 'GET' ? await takeEarly(at) : undefined) ?? (await fetch(at, init));
    text = await answer.text();
  } catch (err) {
    if (signal?.aborted) throw err;
    throw new Unreachable();
  }
  if (!answer.ok) throw refusal(answer.status, text);
  return (text === '' ? undefined : JSON.parse(text)) as T;
}

// The questions that several parts of the page ask.
export const api = {
  status: (o?: Options) => call<StatusAll>('/api/gpu/status/all', o),
  leases: (o?: Options) => call<Leases>('/api/leases', o),
  lease: (user: string | undefined, id: string, o?: Options) => call<Lease>(path('api', 'leases', id), { ...o, query: { user } }),
  explain: (user: string | undefined, id: string, o?: Options) =>
    call<Explanation>(path('api', 'leases', id, 'explain'), { ...o, query: { user, ...o?.query } }),
  available: (o?: Options) => call<Available>('/api/gpu/memory/available', o),
  past: (query: Options['query'], o?: Options) => call<PastLeases>('/api/past/leases', { ...o, query }),
  batches: (o?: Options) => call<Batches>('/api/batches', o),
  alerts: (o?: Options) => call<Alerts>('/api/alerts', o),
  settings: (o?: Options) => call<Settings>('/api/gpu/config', o),
  whoami: (o?: Options) => call<Whoami>('/api/whoami', o),
  signIn: (secret: { code: string } | { token: string }) => call<Whoami>('/api/session', { method: 'POST', body: secret }),
  signOut: () => call<void>('/api/session', { method: 'DELETE' }),

  // range asks for series over a stretch of time; times and step are in seconds.
  range: async (query: string, start: number, end: number, step: number, o?: Options) =>
    (await call<{ data: RangeAnswer }>('/api/v1/query_range', { ...o, query: { query, start, end, step } })).data,
  instant: async (query: string, o?: Options) => (await call<{ data: InstantAnswer }>('/api/v1/query', { ...o, query: { query } })).data,
};
