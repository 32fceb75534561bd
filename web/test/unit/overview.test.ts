import { describe, expect, it } from 'vitest';
import type { Job, Lease, Need, RangeAnswer, Waiting, Whoami } from '../../src/api/types';
import { stepFor, window, zoomed } from '../../src/history/ranges';
import { read } from '../../src/live/theme';
import { usedOf } from '../../src/overview/berths';
import { asCSV } from '../../src/overview/export';
import { ownOf } from '../../src/overview/mine';
import { ordered, spans, troubles } from '../../src/overview/order';
import { leastUsed, people, sharesOf } from '../../src/overview/people';
import { queued } from '../../src/overview/queue';
import { together } from '../../src/overview/stretch';
import { roomFor } from '../../src/pages/overview';
import { spread } from '../../src/pages/device/compare';
import { csv } from '../../src/ui/save';

const plain = (text: string) => text.replaceAll('\u202f', ' ');

const need = (kind: Need['kind'], gpu: string | undefined): Need => ({ kind, severity: 'critical', subject: gpu ?? '', gpu, text: kind });

describe('the order of GPUs', () => {
  it('has those in trouble first, the worst of each as its trouble', () => {
    const needs = [need('critical', 'C'), need('hog', 'A'), need('throttled', 'B'), need('drained', 'C'), need('alert', 'D'), need('stale', 'gone')];
    expect(ordered(['A', 'B', 'C', 'D'], needs)).toEqual(['C', 'B', 'A', 'D']);
    expect(troubles(needs).get('C')?.kind).toBe('critical');
    expect(troubles(needs).has('A')).toBe(false);
    expect(ordered(['A', 'B'], [])).toEqual(['A', 'B']);
  });
});

const lease = (fence: number, user: string | undefined, asked: number, used: number | undefined, more: Partial<Lease> = {}): Lease => ({
  id: `l${fence}`, fence, state: 'active', holder: { user, uid: user === 'ada' ? 1 : 2 }, binding: 'named', parts: [{ gpu: 'G', memory_mb: asked, slots: 1, measured_mb: used }], priority: 0, enforced_by: 'watchdog', ...more,
});

describe('numbers of GPUs', () => {
  it.each([[[], ''], [[3], '3'], [[1, 2], '1, 2'], [[9, 4, 5, 6, 1], '1, 4 to 6, 9']])('%j are %s', (list, text) => expect(spans(list)).toBe(text));
});

describe('the queue', () => {
  it('has what waits for a limit behind what waits for a GPU, and what is mine first', () => {
    const request = (position: number, user: string, limit?: Waiting['limit']) => ({ id: `r${position}`, position, holder: { user, uid: user === 'ada' ? 1 : 2 }, limit }) as Waiting;
    const list = [request(1, 'bob', 'user'), request(2, 'bob'), request(3, 'ada', 'group'), request(4, 'ada'), request(5, 'bob')];
    expect(queued(list, { user: 'ada', uid: 1 } as Whoami).map((w) => w.position)).toEqual([4, 2, 5, 3, 1]);
    expect(queued(list, undefined).map((w) => w.position)).toEqual([2, 4, 5, 1, 3]);
  });
});

describe('who', () => {
  it('adds up what users hold and use', () => {
    const list = people([lease(1, 'ada', 1000, 900), lease(2, 'ben', 5000, undefined), lease(3, 'ada', 5000, 5000), lease(4, 'ben', 900, 0, { state: 'parked' }), lease(5, undefined, 10, 10)]);
    expect(list).toEqual([{ user: 'ada', leases: 2, holds: 6000, uses: 5900 }, { user: 'ben', leases: 2, holds: 5000, uses: 0 }, { user: '', leases: 1, holds: 10, uses: 10 }]);
    expect(leastUsed(list)?.user).toBe('ben');
  });
  it('counts what was taken from a pool once', () => {
    const pool = lease(1, 'ada', 5000, 0, { pool: { taken_mb: 4000, left_mb: 1000, leases: 1 } });
    const child = lease(2, 'ada', 4000, 3000, { from_pool: 'l1' });
    expect(people([pool, child])).toEqual([{ user: 'ada', leases: 2, holds: 5000, uses: 3000 }]);
    expect(people([child])[0]?.holds).toBe(4000); // the pool has ended
    expect(sharesOf('G', [pool, child]).map((s) => [s.holds, s.lease.id])).toEqual([[5000, 'l1']]);
  });
  it('names nobody who uses most of it, or leaves little', () => {
    expect(leastUsed([{ user: 'ada', leases: 1, holds: 100_000, uses: 80_000 }, { user: 'ben', leases: 1, holds: 900, uses: 0 }])).toBeUndefined();
  });
  it('says who holds most of a device', () => {
    const both = lease(3, 'ada', 100, 0, { parts: [{ gpu: 'H', memory_mb: 9000, slots: 1 }, { gpu: 'G', memory_mb: 100, slots: 1 }] });
    expect(sharesOf('G', [lease(1, 'ada', 300, 0), lease(2, 'ben', 350, 0), both]).map((s) => [s.user, s.holds, s.lease.id])).toEqual([['ada', 400, 'l1'], ['ben', 350, 'l2']]);
  });
  it.each([[undefined, 24576, '0 of 24 GiB'], [0, 24576, '0 of 24 GiB'], [9011, 12288, '8.8 of 12 GiB'], [512, 12288, '512 MiB of 12 GiB'], [100, 200, '100 of 200 MiB'], [5, 0, 'slot only']])('%s of %s is %s', (used, asked, text) => {
    expect(plain(usedOf(used, asked))).toBe(text);
  });
});

describe('what is mine', () => {
  const me: Whoami = { user: 'ada', uid: 1, role: 'user', why: [], door: 'tcp' };
  const job = (id: string, state: Job['state'], more: Partial<Job> = {}): Job => ({ id, user: 'ada', state, submitted: '', priority: 0, gpus: 1, memory_mb: 1, ...more });
  const request = (id: string, uid: number): Waiting => ({ id, position: 1, since: '', holder: { user: 'x', uid }, gpus: 1, memory_mb: 1, slots: 1, priority: 0 });
  it('has what waits first, each thing once, and nothing of others', () => {
    const jobs = [job('runs-1', 'running', { lease: 'l7' }), job('late-2', 'waiting', { estimate: { likely: '2026-01-02T00:00:00Z' } }), job('soon-3', 'waiting', { estimate: { likely: '2026-01-01T00:00:00Z' } }), job('held-4', 'held')];
    const list = ownOf(me, jobs, [request('mine', 1), request('theirs', 2), request('soon-3', 1)], [lease(7, 'ada', 1, 1), lease(8, 'ada', 1, 1), lease(9, 'ben', 1, 1), lease(10, 'ada', 1, 1, { parent: 'l8' })]);
    expect(list.map((o) => (o.kind === 'job' ? o.job.id : o.kind === 'request' ? o.request.id : o.lease.id))).toEqual(['mine', 'soon-3', 'late-2', 'held-4', 'runs-1', 'l8']);
    expect(ownOf(undefined, [], [request('mine', 1)], [lease(7, 'ada', 1, 1)])).toEqual([]);
  });
});

describe('a marked part of time', () => {
  const now = 1_800_000_000;
  it.each([[null, null], ['x', 'y'], ['5', '1'], [String(now - 5), String(now)], ['0', String(now)], [String(now - 100), String(now + 1e6)], ['-1', 'NaN'], [`${now - 100}`, 'Infinity']])('%s to %s is none', (from, to) => {
    expect(zoomed(from, to, now)).toBeUndefined();
  });
  it('is asked for with as many points as a chart has, and of minutes where no samples are kept', () => {
    const near = zoomed(String(now - 600), String(now - 300), now)!;
    expect([near.seconds, near.step, near.until]).toEqual([300, 1, now - 300]);
    expect(window(near, now + 99)).toEqual({ start: now - 600, end: now - 300 });
    expect(zoomed(String(now - 10 * 86_400), String(now - 10 * 86_400 + 600), now)!.step).toBe(60);
    for (const s of [60, 3600, 86_400, 30 * 86_400]) expect(s / stepFor(s, 160)).toBeLessThanOrEqual(160);
  });
});

describe('curves of all devices', () => {
  it('come from answers with the same times', () => {
    const answer = (gpu: string, values: [number, string][]): RangeAnswer => ({ resultType: 'matrix', result: [{ metric: { gpu }, values }] });
    const found = together({ load: answer('A', [[10, '5'], [20, '6']]), temperature: answer('A', [[20, '70']]) });
    expect(found.get('A')).toEqual({ times: [10, 20], load: [5, 6], temperature: [NaN, 70], power: [NaN, NaN], memory: [NaN, NaN] });
  });
  it('of many have a least, a middle and a most', () => {
    expect(spread([[1, null, null], [2, 5, null], [9, 7, null]])).toEqual([[1, 5, null], [2, 7, null], [9, 7, null]]);
  });
});

describe('files', () => {
  it('have no formulas', () => {
    expect(csv([{ a: '=1+1', b: 'x,"y"' }, { a: '-2', b: undefined }, { a: -2, b: 'z\n' }], ['a', 'b'])).toBe('a,b\r\n\'=1+1,"x,""y"""\r\n\'-2,\r\n-2,"z\n"\r\n');
  });
  it('have a line for a GPU without leases', () => {
    const gpu = (uuid: string) => ({ device: { uuid, index: 0, name: 'N', memory_total_mb: 9 }, state: 'OPTIMAL', reason: '', health: 'healthy', slots: { active: 0, usable: 1, capacity: 1 } }) as never;
    const text = asCSV({ time: 't', host: 'h', gpus: [gpu('G'), gpu('H')], available: [], leases: [lease(1, 'ada', 5, 4)], waiting: [] });
    expect(text.trimEnd().split('\r\n').length).toBe(3);
    expect(text).toMatch(/ada,,l1,active,5,4/);
  });
});

describe('leases below GPUs', () => {
  it.each([[8, 30, 1400, 900, true], [8, 80, 1400, 900, false], [16, 48, 1400, 900, false], [16, 48, 2560, 1440, true], [64, 64, 2560, 1440, false], [0, 0, 1400, 900, true]])('%s with %s on %s×%s: %s', (gpus, leases, width, height, is) => {
    expect(roomFor(gpus, leases, width, height)).toBe(is);
  });
});

describe('colours', () => {
  it.each([['dark', 'dark'], ['light', 'light'], ['', 'system'], ['<b>', 'system']])('%s is %s', (text, theme) => expect(read(text)).toBe(theme));
});
