import { describe, expect, it } from 'vitest';
import { alertActs } from '../../src/actions/alerts';
import { type Field, wrong } from '../../src/actions/act';
import { deviceActs } from '../../src/actions/devices';
import { type Around, leaseActs } from '../../src/actions/leases';
import { mayChange, owns } from '../../src/actions/rights';
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
