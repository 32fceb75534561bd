import { afterEach, describe, expect, it, vi } from 'vitest';
import { refusal } from '../../src/api/client';
import type { Event, Sample, Whoami } from '../../src/api/types';
import { deviceLabels } from '../../src/live/around';
import { aboutAlerts, aboutLeases, folded, mergeEvents } from '../../src/live/events';
import { judge } from '../../src/live/freshness';
import { addBefore, addSample, curves, emptyHistory, fromRange, fromSamples, type History, span } from '../../src/live/history';
import { askAhead, ownerOf, ownJobs } from '../../src/live/own';
import { equal, keepSame } from '../../src/live/share';
import { Parser } from '../../src/live/sse';
import { device } from '../../src/live/state';
import { thresholds } from '../../src/live/thresholds';

const t0 = Date.parse('2026-11-16T08:00:00Z') / 1000;
const sample = (at: number, more: Partial<Sample> = {}): Sample => ({ gpu: 'G', time: new Date((t0 + at) * 1000).toISOString(), utilization_percent: at, ...more });

function whole(h: History): boolean {
  return curves.every((c) => h[c].length === h.times.length) && h.times.every((t, i) => i === 0 || t > h.times[i - 1]!);
}

describe('history', () => {
  it('adds samples, each once, and knows what was not measured', () => {
    const h = emptyHistory();
    expect(addSample(h, sample(1))).toBe(true);
    expect(addSample(h, sample(1))).toBe(false);
    expect(addSample(h, sample(2, { power_watts: 80 }))).toBe(true);
    expect(h.load).toEqual([1, 2]);
    expect(h.power).toEqual([NaN, 80]);
    expect(addSample(h, { gpu: 'G', time: 'nonsense' })).toBe(false);
    expect(whole(h)).toBe(true);
  });

  it('goes on when the clock of the daemon goes back an hour', () => {
    const h = fromSamples([sample(3600), sample(3601), sample(3602)]);
    addSample(h, sample(1));
    addSample(h, sample(2));
    expect(h.load).toEqual([1, 2]);
    expect(whole(h)).toBe(true);
  });

  it('keeps what lies before a small step back', () => {
    const h = fromSamples([sample(1), sample(2), sample(3), sample(4)]);
    addSample(h, sample(2.5));
    expect(h.load).toEqual([1, 2, 2.5]);
  });

  it('drops what is old, also when the clock jumps a day ahead', () => {
    const h = fromSamples(Array.from({ length: 1000 }, (_, i) => sample(i)));
    expect(h.times.length).toBeLessThan(span + 100);
    addSample(h, sample(86_400));
    expect(h.load).toEqual([86_400]);
    expect(whole(h)).toBe(true);
  });

  it('puts older samples before, and none twice', () => {
    const h = fromSamples([sample(5), sample(6)]);
    addBefore(h, fromSamples([sample(3), sample(4), sample(5), sample(6)]));
    expect(h.load).toEqual([3, 4, 5, 6]);
    expect(whole(h)).toBe(true);
  });

  it('reads an answer about several devices and figures', () => {
    const h = fromRange('G', {
      resultType: 'matrix',
      result: [
        { metric: { __name__: 'gpu_utilization_percent', gpu: 'G' }, values: [[1, '10'], [3, '30']] },
        { metric: { __name__: 'gpu_temperature_celsius', gpu: 'G' }, values: [[1, '40'], [2, '41']] },
        { metric: { __name__: 'gpu_temperature_celsius', gpu: 'H' }, values: [[9, '99']] },
        { metric: { __name__: 'toString', gpu: 'G' }, values: [[7, '7']] },
      ],
    });
    expect(h.times).toEqual([1, 2, 3]);
    expect(h.load).toEqual([10, NaN, 30]);
    expect(h.temperature).toEqual([40, 41, NaN]);
  });
});

const event = (id: number, more: Partial<Event> = {}): Event => ({ id, time: '2026-11-16T08:00:00Z', code: 'lease_granted', severity: 'info', text: `event ${id}`, ...more });

describe('events', () => {
  it('of the tasks of a job stand together, and what berth notes for itself is left out', () => {
    const e = (id: number, code: string, lease?: string) => ({ id, code, lease, user: 'ada' }) as Event;
    const list = [e(1, 'state_change'), e(2, 'lease_granted', 'fit-3'), e(3, 'job_started', 'sweep-4.1'), e(4, 'lease_bound', 'fit-3'), e(5, 'job_started', 'sweep-4.2'), e(6, 'job_ended', 'sweep-4.1'), e(7, 'job_started', 'sweep-4.10')];
    expect(folded(list, 9).map((f) => [f.event.id, f.more])).toEqual([[7, 2], [6, 0], [2, 0], [1, 0]]);
    expect(folded(list, 1).map((f) => [f.event.id, f.more])).toEqual([[7, 2]]);
  });
  it.each([
    [[1, 2], [3, 4], [1, 2, 3, 4]],
    [[1, 2, 3], [2, 3, 4], [1, 2, 3, 4]],
    [[5, 6], [1, 2], [1, 2, 5, 6]],
    [[1], [], [1]],
    [[], [1], [1]],
  ])('%j and %j are %j', (list, found, all) => {
    expect(mergeEvents(list.map((i) => event(i)), found.map((i) => event(i))).map((e) => e.id)).toEqual(all);
  });

  it('keeps the list if nothing is new', () => {
    const list = [event(1), event(2)];
    expect(mergeEvents(list, [event(2)])).toBe(list);
    expect(mergeEvents(list, [])).toBe(list);
  });

  it('keeps the newest', () => {
    expect(mergeEvents([event(1), event(2)], [event(3)], 2).map((e) => e.id)).toEqual([2, 3]);
  });

  it('that are missing may have been about leases and alerts', () => {
    const gap = event(3, { code: 'gap', text: 'Some events are no longer kept' });
    expect(aboutLeases(gap)).toBe(true);
    expect(aboutAlerts(gap)).toBe(true);
  });
});

describe('server-sent events', () => {
  const text = ': hello\n\nid: 7\nevent: throttle\ndata: {"a":\ndata: 1}\n\nid: 9\n\nevent: x\r\ndata: y\r\n\r\n';
  const all = [{ id: '7', event: 'throttle', data: '{"a":\n1}' }, { id: '9', event: 'x', data: 'y' }];

  it('reads a stream however it is cut', () => {
    for (let size = 1; size <= text.length; size++) {
      const parser = new Parser();
      const found = [];
      for (let i = 0; i < text.length; i += size) found.push(...parser.push(text.slice(i, i + size)));
      expect(found, `in pieces of ${size}`).toEqual(all);
      expect(parser.lastId).toBe('9');
    }
  });

  it('says nothing about a message that was cut off', () => {
    const parser = new Parser();
    expect(parser.push('id: 3\ndata: {"half"')).toEqual([]);
    expect(parser.lastId).toBe('');
  });
});

describe('freshness', () => {
  it.each([
    [{ answered: undefined, failures: 0, refused: false }, 0, 'connecting'],
    [{ answered: undefined, failures: 1, refused: false }, 9000, 'connecting'],
    [{ answered: undefined, failures: 2, refused: false }, 9000, 'gone'],
    [{ answered: 1000, failures: 0, refused: false }, 6000, 'fresh'],
    [{ answered: 1000, failures: 0, refused: false }, 6001, 'stale'],
    [{ answered: 1000, failures: 1, refused: false }, 2000, 'fresh'],
    [{ answered: 1000, failures: 2, refused: false }, 2000, 'gone'],
    [{ answered: 1000, failures: 0, refused: true }, 2000, 'refused'],
  ] as const)('%j at %d is %s', (contact, now, is) => {
    expect(judge(contact, now)).toBe(is);
  });
});

describe('keepSame', () => {
  it('keeps the objects that say the same', () => {
    const before = [{ id: 'a', n: [1] }, { id: 'b', n: [2] }];
    const after = keepSame(before, [{ id: 'b', n: [2] }, { id: 'a', n: [9] }, { id: 'c', n: [3] }], (x) => x.id);
    expect(after[0]).toBe(before[1]);
    expect(after[1]).toEqual({ id: 'a', n: [9] });
    expect(after).toHaveLength(3);
  });

  it('keeps the list if all do', () => {
    const before = [{ id: 'a' }, { id: 'b' }];
    expect(keepSame(before, [{ id: 'a' }, { id: 'b' }], (x) => x.id)).toBe(before);
    expect(keepSame(before, [{ id: 'b' }, { id: 'a' }], (x) => x.id)).not.toBe(before);
    expect(keepSame(before, [{ id: 'a' }], (x) => x.id)).toEqual([{ id: 'a' }]);
  });

  it.each([
    [1, 1, true], [1, '1', false], [null, {}, false], [[], {}, false], [{ a: 1 }, { a: 1, b: undefined }, false], [{ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }, true],
    [{ a: undefined }, { b: 1 }, false],
  ])('%j and %j are equal: %s', (a, b, same) => {
    expect(equal(a, b)).toBe(same);
  });
});

describe('refusal', () => {
  it.each([
    ['{"status":409,"code":"no_room","detail":"No device has room."}', 'no_room', 'No device has room.'],
    ['{"detail":"Wrong.","fields":[{"field":"memory_mb","detail":"is missing"}]}', '', 'Wrong. memory_mb: is missing.'],
    ['{"status":"error","errorType":"bad_data","error":"parse error"}', 'bad_data', 'parse error'],
    ['<html>Bad gateway</html>', '', 'The daemon answered with status 409.'],
    ['', '', 'The daemon answered with status 409.'],
    ['null', '', 'The daemon answered with status 409.'],
  ])('%s', (body, code, message) => {
    const it = refusal(409, body);
    expect([it.code, it.message, it.status]).toEqual([code, message, 409]);
  });
});

describe('thresholds', () => {
  const all = { temp_normal: 75, temp_throttle: 85, temp_critical: 90, devices: { G: { temp_critical: 80 }, '1': { temp_throttle: 70 } } } as never;
  it.each([
    ['G', 0, { normal: 75, throttle: 85, critical: 80 }],
    ['H', 1, { normal: 75, throttle: 70, critical: 90 }],
    ['I', 2, { normal: 75, throttle: 85, critical: 90 }],
  ])('of %s', (uuid, index, are) => {
    expect(thresholds(all, uuid, index)).toEqual(are);
  });

  it('are not known before the settings are', () => {
    expect(thresholds(undefined, 'G', 0)).toBeUndefined();
  });
});

describe('devices', () => {
  it.each([[[], ''], [['A'], 'GPU 3'], [['A', 'B'], 'GPU 3, 5'], [['A', 'GPU-gone', 'B'], 'GPU 3, GPU-gone, GPU 5']])('%j are %s', (list, text) => {
    for (const [uuid, index] of [['A', 3], ['B', 5]] as const) device(uuid).value = { device: { uuid, index } } as never;
    expect(deviceLabels(list)).toBe(text);
  });
});

describe('the jobs of the person who looks', () => {
  const ada = { user: 'ada', uid: 1000, role: 'user' } as Whoami;
  const { signal } = new AbortController();
  const addressed: string[] = [];
  const answers = (status: number) => vi.stubGlobal('fetch', async (at: string) => {
    addressed.push(at);
    return new Response(JSON.stringify({ jobs: [], next: String(addressed.length) }), { status });
  });
  afterEach(() => {
    vi.unstubAllGlobals();
    addressed.length = 0;
  });

  it('are of nobody who has none', () => {
    expect(ownerOf(ada)).toBe('1000');
    expect(ownerOf({ user: 'token:ci', role: 'user' } as Whoami)).toBe('token:ci');
    for (const who of [undefined, { ...ada, role: 'stranger' }, { ...ada, role: 'scraper' }, { ...ada, user: 'unknown' }]) expect(ownerOf(who as Whoami)).toBeUndefined();
  });

  it('are asked for ahead once, and that answer is taken once', async () => {
    answers(200);
    askAhead(ada);
    expect((await ownJobs('1000', signal)).next).toBe('1');
    expect((await ownJobs('1000', signal)).next).toBe('2');
    expect(addressed).toEqual(Array(2).fill('/api/jobs?user=1000&state=held%2Cwaiting%2Cstarting%2Crunning&limit=20'));
  });

  it('are not those of somebody else who was there before', async () => {
    answers(200);
    askAhead(ada);
    expect((await ownJobs('1001', signal)).next).toBe('2');
    expect((await ownJobs('1000', signal)).next).toBe('3');
  });

  it('say why there are none', async () => {
    answers(403);
    askAhead(ada);
    await expect(ownJobs('1000', signal)).rejects.toThrow('403');
    askAhead({ ...ada, role: 'stranger' } as Whoami);
    expect(addressed.length).toBe(1);
  });
});
