import { describe, expect, it } from 'vitest';
import { order, resolvedLately, shownLabels } from '../../src/alert/list';
import type { Alert, Belonging, Event, Explanation, Lease, Problem } from '../../src/api/types';
import { quantile } from '../../src/batches/latency';
import { obstacles } from '../../src/lease/obstacles';
import { placed } from '../../src/lease/strangers';
import { rows, tree } from '../../src/lease/tree';
import { ends } from '../../src/lease/words';
import type { PlannedPipeline, PlannedStep } from '../../src/api/types';
import { draw, inWords } from '../../src/plan/layout';
import { problemsOf } from '../../src/plan/problems';

const step = (name: string, more: Partial<PlannedStep> = {}): PlannedStep => ({
  name, signature: name, input: 'numpy', output: 'numpy', on_gpu: false, memory_mb: 0, held_mb: 0, peak_mb: 0, ...more,
});
const pipeline = (steps: PlannedStep[], more: Partial<PlannedPipeline> = {}): PlannedPipeline => ({
  name: 'p', steps, runs: [{ name: 'p' }], memory_mb: 0, peak_mb: 0, context_mb: 0, slots: 0, ...more,
});

describe('the picture of a plan', () => {
  const p = pipeline(
    [
      step('load'),
      step('filter', { on_gpu: true, after: ['load'], peak_mb: 1000, conversions: [{ step: 'load', from: 'numpy', to: 'cupy', cost: 'host_copy' }] }),
      step('find', { on_gpu: true, after: ['filter'], peak_mb: 2000, held_mb: 500 }),
      step('again', { on_gpu: true, after: ['filter', 'gone'], peak_mb: 500 }),
    ],
    { memory_mb: 2600, peak_mb: 2000, peak_step: 'find' },
  );
  const d = draw(p);
  it('has a box for each step, none on another', () => {
    expect(d.boxes.map((b) => b.step.name)).toEqual(['load', 'filter', 'find', 'again']);
    for (let i = 1; i < d.boxes.length; i++) expect(d.boxes[i]!.x).toBeGreaterThan(d.boxes[i - 1]!.x + d.boxes[i - 1]!.width);
    expect(d.boxes[0]!.y).toBeGreaterThan(d.boxes[1]!.y + d.boxes[1]!.height);
    const last = d.boxes.at(-1)!;
    expect(d.width).toBeGreaterThanOrEqual(last.x + last.width);
  });
  it('has an arrow for each output that is taken, with its conversion', () => {
    expect(d.arrows.map((a) => `${a.from}>${a.to}`)).toEqual(['load>filter', 'filter>find', 'filter>again']);
    expect(d.arrows[0]!.conversion?.cost).toBe('host_copy');
    expect(d.arrows[1]!.conversion).toBeUndefined();
  });
  it('has bars as high as the memory, below what a run leases', () => {
    const [, filter, find] = d.bars;
    expect(find!.height).toBeCloseTo(2 * filter!.height);
    expect(find!.peak).toBe(true);
    expect(find!.held).toBeCloseTo(find!.height / 4);
    for (const b of d.bars) expect(b.y).toBeGreaterThanOrEqual(d.limit!);
  });
  it('has no bars without memory, and no lane without steps', () => {
    const none = draw(pipeline([step('collect')]));
    expect(none.bars).toEqual([]);
    expect(none.lanes.gpu).toBeUndefined();
    expect(Number.isFinite(draw(pipeline([])).width)).toBe(true);
  });
  it('can be read aloud', () => expect(inWords(p)).toBe('One run of p: load on the CPU, then filter on the GPU, then find on the GPU, then again on the GPU.'));
  it('has all problems of a refused file', () => {
    const problem = { fields: [{ field: 'a', detail: 'b' }], extra: { problems: [{ line: 4, pipeline: 'a', step: 'x', reason: 'r', remedy: 'm' }, { reason: 'z' }] } } as unknown as Problem;
    expect(problemsOf(problem)).toEqual([{ where: 'a/x', line: 4, reason: 'r', remedy: 'm' }, { where: 'the file', line: undefined, reason: 'z', remedy: '' }]);
    expect(problemsOf({ fields: [{ field: 'a', detail: 'b' }] } as Problem)).toEqual([{ where: 'a', line: undefined, reason: 'b', remedy: '' }]);
    expect(problemsOf(undefined)).toEqual([]);
  });
});

describe('the tree of processes', () => {
  const p = (pid: number, ancestors: number[] = [], more: Partial<Belonging> = {}): Belonging => ({
    gpu: 'g', pid, name: `n${pid}`, memory_mb: 1, evidence: 'descent', ancestors: ancestors.map((a) => ({ pid: a, name: `n${a}` })), ...more,
  });
  const shape = (list: Belonging[], holder: { pid?: number; name?: string }) => rows(tree(list, holder)).map((r) => `${'.'.repeat(r.depth)}${r.node.pid}`);
  it('has each process below the one that started it', () => {
    expect(shape([p(30, [20, 10]), p(31, [20, 10]), p(40, [10])], { pid: 10, name: 'sh' })).toEqual(['10', '.20', '..30', '..31', '.40']);
  });
  it('has processes beside the holder that belong by other evidence', () => {
    expect(shape([p(30, [], { evidence: 'unit' }), p(0, [], { evidence: 'scope' })], { pid: 10 })).toEqual(['10', '30', '0']);
    expect(shape([], {})).toEqual([]);
  });
  it('adds up what one process uses on several devices', () => {
    const [root] = tree([p(10), p(10, [], { gpu: 'h', memory_mb: 5 })], { pid: 10 });
    expect(root!.uses.map((u) => u.memory_mb)).toEqual([1, 5]);
  });
  it('ends where ancestors go in a circle', () => {
    expect(shape([p(1, [2]), p(2, [1])], {}).sort()).toEqual(['1', '2']);
  });
});

describe('processes on a device', () => {
  const lease = { id: 'train', processes: [{ gpu: 'g', pid: 7 }, { gpu: 'h', pid: 8 }] } as unknown as Lease;
  it('are strangers without a lease', () => {
    const list = [{ pid: 7 }, { pid: 8 }, { pid: 9, memory_mb: 3 }, { pid: 0, memory_mb: 5 }, { pid: 0, memory_mb: 6 }];
    const strays = { orphans: [{ gpu: 'g', pid: 9 }], foreign: [{ gpu: 'g', pid: 0, memory_mb: 5 }, { gpu: 'h', pid: 0, memory_mb: 6 }] };
    expect(placed('g', list, [lease], strays).map((x) => x.kind)).toEqual(['lease', 'stranger', 'orphan', 'stranger', 'unknown']);
    expect(placed('g', [{ pid: 9 }], [lease], undefined)[0]!.kind).toBe('unknown');
  });
});

describe('other lists', () => {
  it('has what needs somebody most first', () => {
    const a = (fingerprint: string, more: Partial<Alert>) => ({ fingerprint, state: 'firing', severity: 'warning', since: '2026-01-01T00:00:00Z', ...more }) as Alert;
    const list = [a('p', { state: 'pending', severity: 'critical' }), a('ack', { severity: 'critical', acknowledged: { by: '', at: '', until: '' } }), a('w', {}), a('c', { severity: 'critical' }), a('n', { since: '2026-01-02T00:00:00Z' })];
    expect(order(list).map((x) => x.fingerprint)).toEqual(['c', 'n', 'w', 'ack', 'p']);
    expect(shownLabels({ alertname: 'x', gpu: 'g', zone: '1', name: 'n' }, true)).toEqual([['zone', '1']]);
    expect(resolvedLately([{ code: 'alert', id: 1 }, { code: 'alert_resolved', id: 2 }] as Event[]).map((e) => e.id)).toEqual([2]);
  });
  it('puts obstacles of one device together', () => {
    const holder = { lease: 'x', holder: { user: 'a' }, memory_mb: 1, slots: 0 };
    const e = { devices: [{ gpu: 'g', code: '', text: 'one', holders: [holder] }, { gpu: 'g', code: '', text: 'two', holders: [holder] }, { gpu: 'h', code: '', text: 'three' }] } as unknown as Explanation;
    expect(obstacles(e)).toEqual([{ gpu: 'g', texts: ['one', 'two'], holders: [holder] }, { gpu: 'h', texts: ['three'], holders: [] }]);
  });
  it('estimates how long records took', () => {
    const l = { bounds: [1, 2, 4], counts: [0, 10, 0, 0], sum_seconds: 0 };
    expect(quantile(l, 0.5)).toBeCloseTo(1.5);
    expect(quantile({ ...l, counts: [0, 0, 0, 3] }, 0.5)).toBe(4);
    expect(quantile({ ...l, counts: [0, 0, 0, 0] }, 0.5)).toBeUndefined();
  });
  it('says what ends a lease', () => {
    expect(ends({ binding: 'process', holder: { pid: 7 } })).toBe('with process 7');
    expect(ends({ binding: 'process', holder: { pid: 7 }, heir_pid: 9 })).toContain('process 9');
    expect(ends({ binding: 'named', holder: {} })).toContain('releases');
  });
});
