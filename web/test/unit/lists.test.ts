import { afterEach, describe, expect, it, vi } from 'vitest';
import { changing, inOrder } from '../../src/lists/jobs';
import { arranged } from '../../src/lists/leases';
import { clean } from '../../src/lists/log';
import { asCSV, asJSON, colsAfter, nextSort, shownFields, sortOf, view } from '../../src/lists/view';
import type { Job } from '../../src/api/schemas';
import type { Lease, PastLease, Waiting } from '../../src/api/types';
import { type Field, sorted } from '../../src/ui/table';

interface Row { id: string; state: string; size?: number }
const fields: Field<Row>[] = [
  { key: 'id', name: 'Id', value: (r) => r.id },
  { key: 'state', name: 'State', choose: true, value: (r) => r.state },
  { key: 'size', name: 'Size', numeric: true, value: (r) => r.size },
  { key: 'more', name: 'More', off: true, value: () => 'x' },
];
const rows: Row[] = [{ id: 'a-10', state: 'done', size: 3 }, { id: 'a-9', state: 'running' }, { id: 'b', state: 'done', size: 20 }];
const ids = (search: string) => view(fields, rows, new URLSearchParams(search)).rows.map((r) => r.id);

describe('an address', () => {
  it('filters, by words and by values', () => {
    expect(ids('')).toEqual(['a-10', 'a-9', 'b']);
    expect(ids('text=A-')).toEqual(['a-10', 'a-9']);
    expect(ids('text=a+running')).toEqual(['a-9']);
    expect(ids('state=done')).toEqual(['a-10', 'b']);
    expect(ids('state=done&text=b')).toEqual(['b']);
    expect(ids('state=%3Cb%3E')).toEqual([]);
    expect(view(fields, rows, new URLSearchParams('text=nothing'), (r) => r.id === 'b').rows.map((r) => r.id)).toEqual(['b']);
    expect(ids('size=3')).toEqual(['a-10', 'a-9', 'b']); // nobody can choose by size
  });
  it('sorts, numbers in names as numbers, and what is not known last', () => {
    expect(ids('sort=id')).toEqual(['a-9', 'a-10', 'b']);
    expect(ids('sort=-size')).toEqual(['b', 'a-10', 'a-9']);
    expect(ids('sort=size')).toEqual(['a-10', 'b', 'a-9']);
    expect(ids('sort=nothing')).toEqual(['a-10', 'a-9', 'b']);
    expect(sortOf('-')).toBeUndefined();
    expect(sorted(rows, (r) => r.size, true).map((r) => r.id)).toEqual(['b', 'a-10', 'a-9']);
  });
  it('goes round: usual order, the other one, none', () => {
    expect(nextSort(fields[2]!, undefined)).toBe('-size');
    expect(nextSort(fields[2]!, { key: 'size', down: true })).toBe('size');
    expect(nextSort(fields[2]!, { key: 'size', down: false })).toBe('');
    expect(nextSort(fields[0]!, undefined)).toBe('id');
    expect(nextSort(fields[0]!, { key: 'id', down: false })).toBe('-id');
  });
  it('chooses columns', () => {
    const keys = (cols: string | null) => shownFields(fields, cols).map((f) => f.key);
    expect(keys(null)).toEqual(['id', 'state', 'size']);
    expect(keys('more,size')).toEqual(['id', 'size', 'more']);
    expect(keys('none')).toEqual(['id']);
    expect(colsAfter(fields, shownFields(fields, null), 'more')).toBe('state,size,more');
    expect(colsAfter(fields, shownFields(fields, 'state,size,more'), 'more')).toBe('');
    expect(colsAfter(fields, shownFields(fields, 'state'), 'state')).toBe('none');
  });
});

describe('exports', () => {
  const bad: Row[] = [{ id: '=cmd|x', state: 'a "b",\nc', size: -1 }, { id: '@x', state: '' }];
  it('have what is shown, and nothing that a spreadsheet runs', () => {
    expect(asCSV(fields.slice(0, 3), bad)).toBe('id,state,size\r\n\'=cmd|x,"a ""b"",\nc",-1\r\n\'@x,,\r\n');
    expect(JSON.parse(asJSON(fields.slice(0, 3), bad))).toEqual([{ id: '=cmd|x', state: 'a "b",\nc', size: -1 }, { id: '@x', state: '' }]);
  });
});

describe('a log', () => {
  it('loses what a terminal obeys', () => {
    expect(clean('\x1b[31mred\x1b[0m\r\nplain')).toBe('red\nplain');
    expect(clean('10 %\r50 %\r100 %\ndone')).toBe('100 %\ndone');
    expect(clean('\x1b]0;title\x07x\x00')).toBe('x\ufffd');
  });
});

describe('leases', () => {
  const lease = (id: string, more: Partial<Lease> = {}): Lease => ({ id, fence: id.length, state: 'active', holder: { user: 'ada' }, binding: 'named', priority: 0, enforced_by: 'none', parts: [], ...more });
  it('stand below their pool, and ended ones last', () => {
    const past = { id: 'past', fence: 99, holder: { user: 'ada' }, binding: 'named', granted: '', ended: '', how: 'released', parts: [], peak_mb: 0 } as PastLease;
    const list = arranged([lease('pool', { pool: { taken_mb: 1, left_mb: 1, leases: 1 } }), lease('part', { from_pool: 'pool', fence: 50 }), lease('other'), lease('lone', { from_pool: 'gone', fence: 51 })], [], [past]);
    expect(list.map((r) => r.id)).toEqual(['lone', 'other', 'pool', 'part', 'past']);
    expect(list.at(-1)!.state).toBe('ended');
  });
});

describe('the list of jobs', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.useRealTimers();
  });

  it('has what runs first, then what failed lately, then what waits by its turn', () => {
    const at = Date.parse('2026-11-19T12:00:00Z');
    const job = (id: string, state: Job['state'], more: Partial<Job> = {}) => ({ id, state, user: 'ada', ...more }) as Job;
    const request = (id: string, position: number, user = 'ada') => ({ id, position, holder: { user } }) as Waiting;
    const list = [
      job('a-9', 'held'), job('a-8', 'waiting'), job('b-7', 'waiting'), job('a-6', 'waiting', { user: 'bob' }), job('a-5', 'waiting'),
      job('a-4', 'failed', { ended: '2026-11-19T10:00:00Z' }), job('a-3', 'running'), job('a-2', 'lost', { ended: '2026-11-17T10:00:00Z' }), job('a-1', 'done', { ended: '2026-11-19T11:00:00Z' }), job('a-0', 'parked'),
    ];
    const requests = [request('a-5', 1), request('b-7.2', 3), request('b-7.3', 4), request('a-6', 2, 'bob'), request('a-8', 5, 'bob')];
    expect(inOrder(list, requests, at).map((j) => j.id)).toEqual(['a-3', 'a-0', 'a-4', 'a-5', 'a-6', 'b-7', 'a-8', 'a-9', 'a-2', 'a-1']);
  });

  it('reads jobs that ended long ago every ten minutes', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const asked: (string | null)[] = [];
    let there: { id: string; ended?: string }[] = [];
    vi.stubGlobal('fetch', async (at: string) => {
      const since = new URLSearchParams(at.split('?')[1]).get('since');
      asked.push(since);
      return new Response(JSON.stringify({ jobs: there.filter((j) => since === null || j.ended === undefined || j.ended >= since) }));
    });
    const read = changing();
    const { signal } = new AbortController();
    const ids = async () => (await read(signal)).map((j) => j.id);

    there = [{ id: 'a-2' }, { id: 'a-1' }];
    expect(await ids()).toEqual(['a-2', 'a-1']);
    there = [{ id: 'b-b-3' }, { id: 'a-2', ended: '2026-01-01T12:05:00Z' }, { id: 'a-1', ended: '2026-01-01T12:00:00Z' }];
    expect(await ids()).toEqual(['b-b-3', 'a-2', 'a-1']); // none had ended, so all were read
    there = [{ id: 'a-10' }, { id: 'b-b-3' }, { id: 'a-2', ended: '2026-01-01T12:05:00Z' }, { id: 'a-1', ended: '2026-01-01T12:00:00Z' }];
    expect(await ids()).toEqual(['a-10', 'b-b-3', 'a-2', 'a-1']);
    expect(asked).toEqual([null, null, '2026-01-01T12:04:00.000Z']);

    there = [{ id: 'a-10' }, { id: 'b-b-3', ended: '2025-01-01T00:00:00Z' }, { id: 'a-2', ended: '2026-01-01T12:05:00Z' }];
    expect(await ids()).toEqual(['a-10', 'b-b-3', 'a-2']); // the clock went back, so all are read
    there = [{ id: 'a-10' }];
    expect(await ids()).toEqual(['a-10', 'b-b-3', 'a-2']);
    vi.advanceTimersByTime(600_000);
    expect(await ids()).toEqual(['a-10']); // forgotten
  });
});
