import { describe, expect, it, vi } from 'vitest';
import { alertActs } from '../../src/actions/alerts';
import { type Field, wrong } from '../../src/actions/act';
import { deviceActs } from '../../src/actions/devices';
import { jobActs, submit } from '../../src/actions/jobs';
import { type Around, leaseActs, withdraw } from '../../src/actions/leases';
import { cannotRun, mayChange, owns } from '../../src/actions/rights';
import { serviceActs } from '../../src/actions/services';
import type { Job, Service } from '../../src/api/schemas';
import type { Alert, Lease, Role, Settings, Status, Whoami } from '../../src/api/types';

const who = (role: Role, uid?: number, user = 'ada'): Whoami => ({ user, uid, role, why: [], door: 'socket' });
const lease = (more: Partial<Lease> = {}): Lease => ({
  id: 'train', fence: 3, state: 'active', holder: { user: 'ada', uid: 1000 }, binding: 'process', priority: 0, enforced_by: 'watchdog',
  parts: [{ gpu: 'GPU-a', memory_mb: 20480, slots: 1, measured_mb: 18000 }], ...more,
});
const around = (me: Whoami | undefined, settings: Partial<Settings> = {}): Around => ({ me, settings: settings as Settings, gpu: () => 'GPU 0' });
const keys = (list: { key: string }[]) => list.map((a) => a.key);

describe('rights', () => {
  it('go by uid, and by name only where neither has one', () => {
    expect(owns(who('user', 1000, 'other name'), { user: 'ada', uid: 1000 })).toBe(true);
    expect(owns(who('user', 1001, 'ada'), { user: 'ada', uid: 1000 })).toBe(false);
    expect(owns(who('user', undefined, 'token:ci'), { user: 'token:ci' })).toBe(true);
    expect(owns(who('user', undefined, 'ada'), { user: 'ada', uid: 1000 })).toBe(false);
    expect(owns(who('viewer', undefined, 'unknown'), { user: 'unknown' })).toBe(false);
  });
  it('let owners and operators change a lease', () => {
    const h = lease().holder;
    expect(mayChange(undefined, h)).toBe(false);
    expect(mayChange(who('viewer', 1000), h)).toBe(false);
    expect(mayChange(who('user', 1000), h)).toBe(true);
    expect(mayChange(who('user', 1001), h)).toBe(false);
    expect(mayChange(who('operator', 1001), h)).toBe(true);
  });
});

describe('acts on a lease', () => {
  it('are offered to those who may, in the state that it is in', () => {
    expect(leaseActs(lease(), around(who('viewer', 1000)))).toEqual([]);
    expect(keys(leaseActs(lease(), around(who('user', 1000))))).toEqual(['resize', 'pace', 'trim', 'park', 'cancel', 'release']);
    expect(keys(leaseActs(lease({ state: 'parked' }), around(who('user', 1000))))).toEqual(['resume', 'cancel']);
    expect(keys(leaseActs(lease({ state: 'parking' }), around(who('user', 1000))))).toEqual(['cancel']);
    expect(keys(leaseActs(lease({ holder: { user: 'ada', uid: 1000, service: 'embedder' } }), around(who('admin', 7))))).toContain('priority');
    expect(keys(leaseActs(lease({ holder: { user: 'ada', uid: 1000, service: 'embedder' } }), around(who('operator', 7), { services: { embedder: { quota: {}, match: {} } } } as never)))).toContain('priority');
    expect(keys(leaseActs(lease({ holder: { user: 'ada', uid: 1000, service: 'embedder' } }), around(who('operator', 7))))).not.toContain('priority');
    expect(keys(leaseActs(lease({ holder: { user: 'ada', uid: 1000, service: 'embedder' } }), around(who('user', 1000))))).not.toContain('priority');
  });
  const release = (l: Lease, a: Around) => leaseActs(l, a).find((x) => x.key === 'release')!.says.join(' ');
  it('say whose it is and what becomes of the processes', () => {
    const l = lease({ processes: [{ gpu: 'GPU-a', pid: 42, name: 'python3', memory_mb: 1, evidence: 'descent' }] });
    expect(release(l, around(who('user', 1000)))).toContain('your lease train');
    expect(release(l, around(who('user', 1000)))).toContain('not ended: 1 process (python3, process 42)');
    expect(release(l, around(who('operator', 1)))).toContain('the lease train of ada');
    expect(release(l, around(who('operator', 1)))).toContain('audit log');
    expect(release(l, around(who('user', 1000), { foreign: 'kill_orphans' }))).toContain('berth then ends');
    expect(release(lease(), around(who('user', 1000)))).toContain('No process of it');
  });
  it('end programs, but not those of a pod, and not twice', () => {
    const l = lease({ processes: [{ gpu: 'GPU-a', pid: 42, name: 'python3', memory_mb: 1, evidence: 'descent' }] });
    const says = (it: Lease) => leaseActs(it, around(who('user', 1000))).find((x) => x.key === 'cancel')?.says.join(' ');
    expect(says(l)).toContain('Its programs: 1 process (python3, process 42). They are asked to end');
    expect(says({ ...l, state: 'parked' })).toContain('kills them at once');
    expect(says({ ...l, parent: 'batch-3' })).toContain('part of batch-3');
    expect(says({ ...l, scope: ['pod1'] })).toBeUndefined();
    expect(says({ ...l, cancelled: '2026-11-17T00:00:00Z' })).toBeUndefined();
  });
  it('withdraw a request that waits', () => {
    const w = { id: 'big', position: 1, since: '', holder: { user: 'ada', uid: 1000 }, gpus: 1, memory_mb: 1, slots: 1, priority: 0 };
    const list = leaseActs(lease({ state: 'waiting', parts: [], waiting: w }), around(who('user', 1000)));
    expect(list.map((a) => a.label)).toEqual(['Withdraw']);
  });
  it('end no lease where they withdraw', async () => {
    const asked: string[] = [];
    vi.stubGlobal('fetch', async (at: string) => { asked.push(String(at)); return Response.json({ id: 'train' }); });
    const w = { id: 'train', position: 1, since: '', holder: { user: 'ada', uid: 1000 }, gpus: 1, memory_mb: 1, slots: 1, priority: 0 };
    const grows = withdraw({ ...w, for: 'resize' }, around(who('user', 1000)));
    expect(grows.says[0]).toContain('Its lease stays as it is');
    expect(withdraw(w, around(who('user', 1000))).says[0]).toContain('It holds nothing yet');
    await grows.run({});
    expect(asked).toEqual(['/api/leases/train?user=ada&waiting=true']);
    vi.unstubAllGlobals();
  });
});

describe('acts on devices and alerts', () => {
  const status = { device: { uuid: 'GPU-a', index: 0 } } as Status;
  it('are for operators', () => {
    expect(deviceActs(status, 0, around(who('user', 1)))).toEqual([]);
    expect(keys(deviceActs(status, 2, around(who('operator', 1))))).toEqual(['drain', 'check']);
    expect(keys(deviceActs({ ...status, drain: { since: '' } }, 2, around(who('operator', 1))))).toEqual(['undrain', 'check']);
    const alert = { fingerprint: 'f', alert: 'Hot' } as Alert;
    expect(alertActs(alert, around(who('user', 1)))).toEqual([]);
    expect(keys(alertActs(alert, around(who('admin', 1))))).toEqual(['acknowledge']);
    expect(keys(alertActs({ ...alert, acknowledged: { by: 'a', at: '', until: '' } }, around(who('admin', 1))))).toEqual(['unacknowledge']);
  });
  it('say how many leases go on', () => {
    expect(deviceActs(status, 2, around(who('operator', 1)))[0]!.says.join(' ')).toContain('2 leases on it go on');
    expect(deviceActs(status, 1, around(who('operator', 1)))[0]!.says.join(' ')).toContain('1 lease on it goes on');
  });
});

describe('acts on jobs', () => {
  const job = (state: Job['state'], more: Partial<Job> = {}): Job => ({ id: 'train-1', user: 'ada', state, submitted: '', priority: 0, gpus: 1, memory_mb: 1024, ...more });
  const session = { ...who('user', 1000), session: { id: 's' } } as Whoami;
  it('are offered to owners and operators, in the state that it is in', () => {
    expect(jobActs(job('running'), around(who('viewer', 1000)))).toEqual([]);
    expect(jobActs(job('running'), around(who('user', 1001, 'eve')))).toEqual([]);
    expect(jobActs(job('running'), around(who('user', undefined, 'ada')))).toEqual([]); // a name alone is nobody
    expect(keys(jobActs(job('running'), around(session)))).toEqual(['cancel-job']);
    expect(keys(jobActs(job('waiting'), around(session)))).toEqual(['hold-job', 'priority-job', 'cancel-job']);
    expect(keys(jobActs(job('held'), around(session)))).toEqual(['unhold-job', 'priority-job', 'cancel-job']);
    expect(keys(jobActs(job('failed'), around(session)))).toEqual(['redo-job']);
    expect(keys(jobActs(job('failed'), around(who('operator', 1, 'olga'))))).toEqual([]); // only its owner can
  });
  const cancel = (j: Job) => jobActs(j, around(session)).find((x) => x.key === 'cancel-job')!.says.join(' ');
  it('say what becomes of the programs', () => {
    expect(cancel(job('running', { command: ['python3', 'x.py'] }))).toContain('It runs: python3 x.py. Its programs are asked to end');
    expect(cancel(job('waiting'))).toContain('has not begun, so no program ends');
    expect(cancel(job('running', { tasks: { total: 9, running: 2, waiting: 3, held: 1 } }))).toContain('4 tasks that wait never begin.');
    expect(jobActs(job('waiting'), around(who('operator', 1, 'olga')))[0]!.says.join(' ')).toContain('audit log');
  });
  it('that run something say why they cannot', () => {
    expect(cannotRun(session, undefined)).toBe('');
    expect(cannotRun(who('user', 1000), { jobs: 'off' } as Settings)).toContain('runs no jobs');
    expect(cannotRun(who('viewer', 1000), undefined)).toContain('role user');
    expect(cannotRun({ ...who('user', undefined, 'token:ci'), token: 'ci' }, undefined)).toContain('bound to no user');
    expect(cannotRun({ ...who('user', 1000), token: 'ci' }, undefined)).toBe('');
    expect(cannotRun({ ...who('user', 1000), door: 'tcp' }, undefined)).toContain('berth open');
    expect(cannotRun({ ...session, uid: 0 }, undefined)).toContain('root');
    expect(submit(around(who('viewer', 1000))).not).toContain('role user');
    expect(submit(around(session)).not).toBeUndefined();
  });
});

describe('acts on services', () => {
  const service = (state: Service['state'], more: Partial<Service> = {}) => ({ name: 'chat', user: 'ada', state, since: '', start: 'on_demand', away: 'auto', open: 2, waiting: 1, switches: 0, took: {}, devices: state === 'ready' ? ['GPU-a'] : [], ...more }) as Service;
  it('are for its user and operators, in the state that it is in', () => {
    expect(serviceActs(service('ready'), ['GPU-a', 'GPU-b'], around(who('user', 1001, 'eve')))).toEqual([]);
    expect(keys(serviceActs(service('ready'), ['GPU-a', 'GPU-b'], around(who('user', 1000))))).toEqual(['restart-service', 'move-service', 'stop-service']);
    expect(keys(serviceActs(service('ready'), ['GPU-a'], around(who('operator', 1, 'olga'))))).toEqual(['restart-service', 'stop-service']);
    expect(keys(serviceActs(service('stopped'), ['GPU-a'], around(who('user', 1000))))).toEqual(['start-service']);
    expect(keys(serviceActs(service('away'), ['GPU-a'], around(who('user', 1000))))).toEqual(['start-service', 'stop-service']);
  });
  it('say whose programs end, and what becomes of requests', () => {
    const says = serviceActs(service('ready'), ['GPU-a'], around(who('operator', 1, 'olga'))).at(-1)!.says.join(' ');
    expect(says).toContain('answers 2 requests now, and 1 request waits');
    expect(says).toContain('runs as ada, ends');
    expect(says).toContain('audit log');
  });
});

describe('fields', () => {
  const f: Field = { name: 'share', label: 'Share', kind: 'number', value: '', min: 5, max: 100, required: true };
  it('say what is wrong', () => {
    expect(wrong(f, '')).toBe('Share is missing.');
    expect(wrong(f, 'x')).toBe('Share must be a number.');
    expect(wrong(f, '4')).toBe('Share must be 5 or more.');
    expect(wrong(f, '101')).toBe('Share must be 100 or less.');
    expect(wrong(f, ' 50 ')).toBe('');
    expect(wrong({ ...f, kind: 'text', maxLength: 3 }, 'long')).toContain('at most 3');
  });
});
