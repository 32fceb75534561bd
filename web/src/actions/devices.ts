import { call } from '../api/client';
import type { Drain, DeviceLease, Status } from '../api/types';
import { duration, memory, plural } from '../ui/format';
import type { Act } from './act';
import type { Around } from './leases';
import { mayOperate } from './rights';

interface Drained {
  changed: boolean;
  drain?: Drain;
  leases: DeviceLease[];
}

interface Check {
  verdict: 'passed' | 'failed' | 'could_not_be_asked';
  reason: string;
  steps: { name: string; verdict: string; detail?: string }[];
  memory_mb: number;
  took_seconds: number;
}

// deviceActs lists what the caller may do to a device.
export function deviceActs(s: Status, leases: number, a: Around): Act[] {
  if (!mayOperate(a.me)) return [];
  return [s.drain ? undrain(s, a) : drain(s, leases, a), check(s, leases, a)];
}

function drain(s: Status, leases: number, a: Around): Act {
  const it = a.gpu(s.device.uuid);
  return {
    key: 'drain', label: 'Drain', title: `Drain ${it}?`, confirm: 'Drain',
    says: [
      `This takes ${it} out of use: berth grants nothing new there, and requests wait for other devices.`,
      leases === 0 ? 'No lease is on it, so nobody is stopped.' : `${plural(leases, 'lease')} on it ${leases === 1 ? 'goes' : 'go'} on until ${leases === 1 ? 'it ends' : 'they end'}. No program is stopped.`,
    ],
    fields: [
      { name: 'reason', label: 'Reason', kind: 'text', value: '', maxLength: 200, hint: 'What others read about it.' },
      { name: 'hours', label: 'For', kind: 'number', value: '', unit: 'hours', min: 0.01, max: 8760, hint: 'Empty: until somebody ends it.' },
    ],
    run: async (v) => {
      const until = v.hours ? new Date(Date.now() + Number(v.hours) * 3600_000).toISOString() : undefined;
      const done = await call<Drained>('/api/gpu/drain', { method: 'POST', body: { gpu: s.device.uuid, reason: v.reason || undefined, until } });
      return {
        text: `${it} is drained. ${done.leases.length === 0 ? 'No lease is left on it.' : `${plural(done.leases.length, 'lease')} on it ${done.leases.length === 1 ? 'goes' : 'go'} on.`}`,
        undo: { ...undrain(s, a), label: 'Undo' },
      };
    },
  };
}

function undrain(s: Status, a: Around): Act {
  const it = a.gpu(s.device.uuid);
  return {
    key: 'undrain', label: 'End the drain', title: `Let ${it} be used again?`, confirm: 'End the drain',
    says: [`This ends the drain of ${it}${s.drain?.by ? ` by ${s.drain.by}` : ''}. berth grants leases there again, and whoever waits may get one at once.`, 'No program is stopped.'],
    run: async () => {
      await call<Drained>('/api/gpu/undrain', { method: 'POST', body: { gpu: s.device.uuid } });
      return { text: `${it} can be used again.` };
    },
  };
}

const verdicts = { passed: 'passed the check', failed: 'failed the check', could_not_be_asked: 'could not be checked' };

function check(s: Status, leases: number, a: Around): Act {
  const it = a.gpu(s.device.uuid);
  return {
    key: 'check', label: 'Check', title: `Check ${it}?`, confirm: 'Check',
    says: [
      `This tests the memory of ${it} that is free and not leased, its copies, its clocks and its link.`,
      leases === 0 ? 'No lease is on it.' : `${plural(leases, 'lease')} on it ${leases === 1 ? 'goes' : 'go'} on, and ${leases === 1 ? 'is' : 'are'} slower meanwhile. No program is stopped.`,
    ],
    fields: [{
      name: 'kind', label: 'Kind', kind: 'choice', value: 'quick',
      choices: [
        { value: 'quick', label: 'quick: some seconds' },
        { value: 'long', label: 'long: some minutes, more patterns' },
        { value: 'residue', label: 'residue: look for what earlier programs left' },
      ],
    }],
    run: async (v) => {
      const done = await call<Check>('/api/gpu/check', { method: 'POST', timeout: 0, body: { gpu: s.device.uuid, kind: v.kind || 'quick' } });
      return {
        text: `${it} ${verdicts[done.verdict]} in ${duration(done.took_seconds)}, with ${memory(done.memory_mb)} of memory. ${done.reason}`,
        details: done.steps.map((step) => `${step.name.replaceAll('_', ' ')}: ${step.verdict.replaceAll('_', ' ')}${step.detail ? `, ${step.detail}` : ''}`),
        bad: done.verdict !== 'passed',
      };
    },
  };
}
