import { describe, expect, it } from 'vitest';
import type { DeviceAvailable, Lease, Need, Status } from '../../src/api/types';
import { attention, type Facts, sentence } from '../../src/live/attention';
import { fits } from '../../src/overview/filter';
import { notesOn } from '../../src/overview/notes';
import { ago, celsius, clock, count, duration, joules, memory, memoryOn, moment, percent, plural, quoted, shortName, watts } from '../../src/ui/format';
import { hue, hues } from '../../src/ui/hue';
import { share, stack } from '../../src/ui/stack';
import { sorted } from '../../src/ui/table';

const plain = (text: string) => text.replaceAll('\u202f', ' ');

describe('numbers for people', () => {
  it.each([[undefined, '–'], [NaN, '–'], [0, '0 MiB'], [615, '615 MiB'], [1024, '1 GiB'], [1536, '1.5 GiB'], [10_240, '10 GiB'], [143_771, '140 GiB'], [-2048, '-2 GiB']])('%s MiB is %s', (value, text) => {
    expect(plain(memory(value))).toBe(text);
  });
  it.each([[0, '0 s'], [59.4, '59 s'], [60, '1 min'], [95, '1 min 35 s'], [700, '11 min'], [3600, '1 h'], [5400, '1 h 30 min'], [90_000, '1 d 1 h'], [86_400 * 12 + 7200, '12 d'], [-3, '0 s'], [undefined, '–']])('%s seconds are %s', (value, text) => {
    expect(plain(duration(value))).toBe(text);
  });
  it.each([[0, '0 J'], [999, '999 J'], [3600, '1 Wh'], [36_000, '10 Wh'], [360_000, '100 Wh'], [1_800_000, '500 Wh'], [7_200_000, '2.00 kWh'], [undefined, '–']])('%s joules are %s', (value, text) => {
    expect(plain(joules(value))).toBe(text);
  });
  it('percent, degrees and watts', () => {
    expect([percent(49.6), celsius(71.4), watts(undefined), watts(NaN)].map(plain)).toEqual(['50 %', '71 °C', '–', '–']);
  });
  it('nouns', () => {
    expect([plural(0, 'lease'), plural(1, 'lease'), plural(2000, 'process', 'processes')]).toEqual(['0 leases', '1 lease', '2,000 processes']);
  });
  it.each([['NVIDIA H200 (simulated)', 'H200'], ['NVIDIA GeForce RTX 4060', 'RTX 4060'], ['AMD Instinct MI300X', 'Instinct MI300X'], ['recording x.csv', 'recording x.csv']])('%s is %s', (name, short) => {
    expect(shortName(name)).toBe(short);
  });
});

describe('times for people', () => {
  const now = Date.parse('2026-11-16T12:00:00Z');
  it.each([['2026-11-16T11:59:58Z', 'now'], ['2026-11-16T11:59:20Z', '40 s ago'], ['2026-11-16T10:00:00Z', '2 h ago'], ['2026-11-16T13:42:00Z', 'in 1.7 h'], ['2026-11-15T00:20:00Z', '36 h ago'], ['2026-11-12T00:00:00Z', '4.5 d ago'], ['2026-11-16T12:05:00Z', 'in 5 min'], ['never', '–'], [undefined, '–']])('%s is %s', (time, text) => {
    expect(plain(ago(time, now))).toBe(text);
  });
  it('the day is said of what was long ago', () => {
    expect(clock('2026-11-14T10:00:00Z', now)).toMatch(/14 Nov/);
    expect(clock('2026-11-16T10:00:00Z', now)).toMatch(/^\d\d:\d\d:00$/);
    expect(clock('never')).toBe('–');
  });
  it('times and numbers are written as the browser would', () => {
    for (let month = 0; month < 12; month++) {
      const at = new Date(2026, month, 3 + month * 2, month * 2, 7, 9).getTime();
      expect(moment(at)).toBe(new Date(at).toLocaleString('en-GB'));
      expect(clock(at, at + 9e8)).toBe(new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' }).format(at));
      expect(clock(at, at)).toBe(new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' }).format(at));
    }
    expect(moment(undefined)).toBe('');
    expect(moment('never')).toBe('–');
    for (const n of [0, 7, 999, 1000, 12_345, 1_234_567, -45_678, 1234.5678, -0.25]) expect(count(n)).toBe(n.toLocaleString('en'));
    expect(count(undefined)).toBe('–');
  });
});

describe('commands for people', () => {
  it.each([
    [['python3', 'train.py', '--lr=0.1'], 'python3 train.py --lr=0.1'],
    [['sh', '-c', 'for k in 1 2; do echo $k; done'], "sh -c 'for k in 1 2; do echo $k; done'"],
    [['echo', "it's", ''], "echo 'it'\\''s' ''"],
  ])('%j is %s', (command, text) => expect(quoted(command)).toBe(text));
  it('memory on several GPUs says how much each has', () => {
    expect([memoryOn(1, 9216), memoryOn(2, 9216)].map(plain)).toEqual(['9 GiB', '2 × 9 GiB']);
  });
});

const lease = (fence: number, memory_mb: number, measured_mb?: number, more: Partial<Lease> = {}): Lease => ({
  id: `l${fence}`, fence, state: 'active', holder: { user: 'ada' }, binding: 'named', parts: [{ gpu: 'G', memory_mb, slots: 1, measured_mb }], priority: 0, enforced_by: 'watchdog', ...more,
});
const room = (more: Partial<DeviceAvailable>): DeviceAvailable => ({ gpu: 'G', available_mb: 0, total_mb: 1000, limit_mb: 1000, reserve_mb: 0, leased_mb: 0, foreign_mb: 0, state: 'OPTIMAL', health: 'healthy', ...more });

describe('stack', () => {
  it('divides the memory of a device', () => {
    const s = stack('G', 1000, [lease(1, 200, 150), lease(2, 400, 0)], room({ foreign_mb: 50, reserve_mb: 100 }));
    expect(s.segments.map((p) => [p.kind, p.size, p.used])).toEqual([['lease', 400, 0], ['lease', 200, 150], ['driver', 50, 50], ['free', 250, 0], ['reserve', 100, 0]]);
    expect([s.leased, s.used, s.strangers, s.free]).toEqual([600, 150, 50, 250]);
  });
  it('shows what is used beyond a lease', () => {
    const s = stack('G', 1000, [lease(1, 200, 300)], undefined);
    expect(s.segments[0]).toMatchObject({ size: 300, used: 300, asked: 200 });
    expect(s.free).toBe(700);
  });
  it('takes a parked lease for what it still uses', () => {
    const s = stack('G', 1000, [lease(1, 200, 0, { state: 'parked' })], undefined);
    expect(s.segments.map((p) => p.kind)).toEqual(['free']);
  });
  it('counts what was taken from a pool once', () => {
    const s = stack('G', 1000, [lease(1, 500, 0, { pool: { taken_mb: 400, left_mb: 100, leases: 1 } }), lease(2, 400, 50, { from_pool: 'l1' })], undefined);
    expect(s.segments.map((p) => [p.kind, p.size])).toEqual([['lease', 400], ['lease', 100], ['free', 500]]);
    expect(s.leased).toBe(500);
  });
  it('counts only the part on the device', () => {
    expect(stack('H', 1000, [lease(1, 200)], undefined).leased).toBe(0);
  });
  it('puts small leases together', () => {
    const s = stack('G', 1000, [lease(1, 500), ...Array.from({ length: 10 }, (_, i) => lease(i + 2, 2, 1))], undefined);
    expect(s.segments.map((p) => [p.kind, p.size, p.count])).toEqual([['lease', 500, 1], ['rest', 20, 10], ['free', 480, 0]]);
  });
  it('puts the leases of a user together where there are many', () => {
    const of = (user: string, from: number, n: number) => Array.from({ length: n }, (_, i) => lease(from + i, 20 + i, 10, { holder: { user } }));
    const s = stack('G', 1000, [...of('ada', 1, 5), ...of('bob', 6, 4)], undefined);
    expect(s.segments.map((p) => [p.kind, p.lease?.holder.user, p.size, p.used, p.count])).toEqual([['lease', 'ada', 110, 50, 5], ['lease', 'bob', 86, 40, 4], ['free', undefined, 804, 0, 0]]);
    expect(s.segments[0]?.lease?.fence).toBe(5);
  });
  it('has nothing free where more is taken than there is', () => {
    const s = stack('G', 1000, [lease(1, 900, 0)], room({ foreign_mb: 300, reserve_mb: 50 }));
    expect(s.free).toBe(0);
    expect(s.segments.map((p) => p.kind)).toEqual(['lease', 'driver']);
    expect(s.segments.reduce((sum, p) => sum + share(s, p), 0)).toBeCloseTo(100);
  });
  it('keeps back what is above the limit of the device', () => {
    const s = stack('G', 1000, [], room({ limit_mb: 600, reserve_mb: 100 }));
    expect([s.free, s.segments.at(-1)?.size]).toEqual([500, 500]);
  });
  it('adds up', () => {
    for (const taken of [0, 1, 37, 500, 999, 1000, 4000]) {
      const s = stack('G', 1000, [lease(1, taken, taken / 3)], room({ foreign_mb: 3, reserve_mb: 20 }));
      const sum = s.segments.reduce((all, p) => all + p.size, 0);
      expect(sum).toBe(Math.max(1000, taken + 3));
    }
  });
  it('says nothing of a device without memory', () => {
    const s = stack('G', 0, [], undefined);
    expect(s.segments).toEqual([]);
    expect(share(s, { kind: 'free', key: '', size: 0, used: 0, asked: 0, count: 0 })).toBe(0);
  });
});

describe('hue', () => {
  it('is the same for all leases of a service, and different for few holders', () => {
    const known = new Map<string, number>();
    const of = (service: string | undefined, user: string) => hue({ service, user }, known);
    expect(of('search', 'ada')).toBe(of('search', 'ben'));
    expect(new Set([of('search', 'ada'), of(undefined, 'ada'), of(undefined, 'ben'), of('search ', 'x')]).size).toBe(4);
    for (let i = 0; i < 40; i++) expect(of(`s${i}`, 'x')).toBeLessThanOrEqual(hues);
  });
});

describe('sorted', () => {
  it('sorts numbers and texts, and keeps the order of equals', () => {
    expect(sorted(['b10', 'b9', 'a'], (x) => x, false)).toEqual(['a', 'b9', 'b10']);
    expect(sorted([[1, 'x'], [2, 'y'], [1, 'z']], (x) => x[0] as number, true)).toEqual([[2, 'y'], [1, 'x'], [1, 'z']]);
  });
});

describe('filter', () => {
  it.each([['', true], ['TRAIN', true], ['ada', true], ['search', true], ['resnet', true], ['ben', false]])('%s fits: %s', (text, is) => {
    expect(fits({ id: 'train-7', holder: { user: 'Ada', service: 'search', name: 'ResNet' } }, text)).toBe(is);
  });
});

const status = (more: Partial<Status> = {}): Status => ({
  device: { uuid: 'G', index: 2, name: 'H200', vendor: 'sim', backend: 'sim', memory_total_mb: 1000 },
  state: 'OPTIMAL', since: '2026-11-16T08:00:00Z', reason: '39 °C', multiplier: 1, cause: 'state', health: 'healthy', slots: { active: 1, capacity: 4, usable: 4 }, ...more,
});

describe('notes on a device', () => {
  it.each([
    [{}, ['1 of 4 slots', 'healthy']],
    [{ health: 'unknown' }, ['1 of 4 slots', 'health unknown']],
    [{ health: 'unhealthy', trust: { phase: 'quarantine', slots_withheld: 0 } }, ['1 of 4 slots', 'unhealthy', 'quarantine']],
    [{ multiplier: 0.5, state: 'THROTTLED', slots: { active: 1, capacity: 4, usable: 2 } }, ['1 of 4 slots', '2 usable', 'healthy', '50 % speed']],
    [{ drain: { since: '' }, stale: true }, ['1 of 4 slots', 'healthy', 'draining', 'old sample']],
  ] as [Partial<Status>, string[]][])('%j', (more, texts) => {
    expect(notesOn(status(more)).map((n) => plain(n.text))).toEqual(texts);
  });
});

describe('what needs a person', () => {
  const now = Date.parse('2026-11-16T12:00:00Z');
  const facts = (more: Partial<Facts> = {}): Facts => ({ freshness: 'fresh', answeredAt: now, needs: [], now, ...more });
  const need = (more: Partial<Need> = {}): Need => ({ kind: 'critical', severity: 'critical', subject: 'GPU 2', gpu: 'G', text: 'GPU 2 is CRITICAL: 94 °C', ...more });

  it('is nothing while all is well', () => {
    expect(attention(facts())).toEqual([]);
  });
  it.each([
    [{ freshness: 'gone' }, ['bad No daemon']],
    [{ freshness: 'stale' }, ['bad Stale']],
    [{ needs: [need()] }, ['bad CRITICAL']],
    [{ needs: [need({ kind: 'quarantine', severity: 'warning' })] }, ['warn Quarantine']],
    [{ needs: [need(), need({ kind: 'waiting', severity: 'warning' })], freshness: 'stale' }, ['bad Stale', 'bad CRITICAL', 'warn Waits long']],
    [{ needs: [need({ kind: 'of a newer daemon' as Need['kind'] })] }, ['bad of a newer daemon']],
  ] as [Partial<Facts>, string[]][])('%#', (more, items) => {
    expect(attention(facts(more)).map((i) => `${i.tone} ${i.what}`)).toEqual(items);
  });
  it('has one row for each fact: an alert about a device of which something is said is part of that', () => {
    const items = attention(facts({ needs: [
      need({ kind: 'critical', gpu: 'G' }), need({ kind: 'alert', gpu: 'G', text: 'Hot: GPU 2' }), need({ kind: 'alert', gpu: 'G', text: 'Hotter: GPU 2' }), need({ kind: 'hog', gpu: 'H' }), need({ kind: 'alert', gpu: 'H', text: 'Hot: GPU 3' }),
    ] }));
    expect(items.map((i) => i.what)).toEqual(['CRITICAL', 'Unused', 'Alert']);
    expect(items[0]!.text.match(/An alert fires/g)?.length).toBe(1);
  });
  it('says what helps against a lease that keeps what it does not use, whose name stays as it is', () => {
    const [item] = attention(facts({ needs: [need({ kind: 'hog', severity: 'warning', text: 'hog of ada holds 8 GiB, while train of bob waits', next: 'ask ada' })] }));
    expect(item!.text).toBe('hog of ada holds 8 GiB, while train of bob waits. Next: ask ada.');
  });
  it('says for how long, and leads to more', () => {
    const items = attention(facts({ needs: [
      need({ since: '2026-11-16T11:00:00Z' }), need({ since: '2026-11-16T11:59:30Z' }),
      need({ kind: 'over', gpu: undefined, lease: 'train', user: 'ada' }), need({ kind: 'alert', gpu: undefined }), need({ kind: 'orphans', gpu: undefined }),
    ] }));
    expect(plain(items[0]!.text)).toBe('GPU 2: 94 °C, for 1 h.');
    expect(plain(items[1]!.text)).toBe('GPU 2: 94 °C.');
    expect(items.map((i) => i.to)).toEqual([{ gpu: 'G' }, { gpu: 'G' }, { lease: 'train', user: 'ada' }, { page: 'alerts' }, undefined]);
  });
  it.each([['gpu 2 is hot', 'Gpu 2 is hot.'], ['Done.', 'Done.'], ['', ''], [' why? ', 'Why?']])('%s is the sentence %s', (text, is) => {
    expect(sentence(text)).toBe(is);
  });
});
