import { call, path } from '../api/client';
import type { Service } from '../api/schemas';
import { memory, plural } from '../ui/format';
import type { Act } from './act';
import type { Around } from './leases';
import { atLeast, mayOperate, ownsName } from './rights';

// serviceActs lists what the caller may do to a service whose program berth runs. gpus are
// the devices that it could move to.
export function serviceActs(s: Service, gpus: readonly string[], a: Around): Act[] {
  if (!mayOperate(a.me) && !(atLeast(a.me, 'user') && ownsName(a.me, s.user))) return [];
  const here = !['away', 'stopped', 'failed', 'parked', 'asleep'].includes(s.state);
  const acts: Act[] = [];
  if (!here) acts.push(start(s, a));
  if (here) acts.push(restart(s, a));
  const others = gpus.filter((g) => !(s.devices ?? []).includes(g));
  if (here && others.length > 0) acts.push(move(s, others, a));
  if (s.state !== 'stopped') acts.push(stop(s, a));
  return acts;
}

const audited = (s: Service, a: Around) => (ownsName(a.me, s.user) ? [] : [`Its programs run as ${s.user}, not as you: the audit log keeps that you did it.`]);
const why = { name: 'why', label: 'Reason', kind: 'text', value: '', maxLength: 256, hint: 'What those read whose requests are refused.' } as const;
const order = (s: Service, what: string, body: unknown) => call<Service>(path('api', 'services', s.name, what), { method: 'POST', body });

// requests says what a service has to do now.
function requests(s: Service): string {
  if (s.open === 0 && s.waiting === 0) return 'It answers no request now.';
  return `It answers ${plural(s.open, 'request')} now, and ${s.waiting === 0 ? 'none waits' : `${plural(s.waiting, 'request')} ${s.waiting === 1 ? 'waits' : 'wait'}`}.`;
}

function start(s: Service, a: Around): Act {
  const size = s.memory_mb ? memory(s.memory_mb) : 'a whole GPU, because its size is not known yet';
  return {
    key: 'start-service', label: 'Start', title: `Start ${s.name}?`, confirm: 'Start',
    says: [`This starts the program of ${s.name} as ${s.user}, with ${size}. It takes requests again.`, 'If there is no room, it waits in the queue, and berth may send an idle service away for it. No program of a user is stopped.', ...audited(s, a)],
    fields: [why],
    run: async (v) => {
      await order(s, 'start', { why: v.why || undefined });
      return { text: `${s.name} starts.` };
    },
  };
}

function stop(s: Service, a: Around): Act {
  const where = (s.devices ?? []).map(a.gpu).join(', ');
  return {
    key: 'stop-service', label: 'Stop', title: `Stop ${s.name}?`, confirm: 'Stop', ends: true,
    says: [
      `This stops ${s.name} until somebody starts it, also after a restart of the daemon. ${requests(s)} Those that it answers end first; those that wait are refused, and new ones, too.`,
      where === '' ? `Its program does not run, so none ends.` : `Then its program, which runs as ${s.user}, ends, and ${s.memory_mb ? memory(s.memory_mb) : 'its memory'} on ${where} can be leased by others.`,
      ...audited(s, a),
    ],
    fields: [why],
    run: async (v) => {
      await order(s, 'stop', { why: v.why || undefined });
      return { text: `${s.name} stops.`, undo: { ...start(s, a), label: 'Start it again' } };
    },
  };
}

function restart(s: Service, a: Around): Act {
  return {
    key: 'restart-service', label: 'Restart', title: `Restart ${s.name}?`, confirm: 'Restart', ends: true,
    says: [`This ends the program of ${s.name}, which runs as ${s.user}, and starts it again. ${requests(s)} Those that it answers end first; those that come meanwhile wait.`, ...audited(s, a)],
    fields: [why],
    run: async (v) => {
      await order(s, 'restart', { why: v.why || undefined });
      return { text: `${s.name} restarts.` };
    },
  };
}

function move(s: Service, gpus: string[], a: Around): Act {
  return {
    key: 'move-service', label: 'Move', title: `Move ${s.name}?`, confirm: 'Move',
    says: [`The program of ${s.name}, which runs as ${s.user}, goes away from ${(s.devices ?? []).map(a.gpu).join(', ') || 'its GPU'} and comes to another one. ${requests(s)} Those that it answers end first; those that come meanwhile wait.`, 'If there is no room there, it waits. No other program is stopped.', ...audited(s, a)],
    fields: [{ name: 'gpu', label: 'To', kind: 'choice', value: gpus[0]!, choices: gpus.map((g) => ({ value: g, label: a.gpu(g) })) }, why],
    run: async (v) => {
      await order(s, 'move', { gpu: v.gpu || gpus[0], why: v.why || undefined });
      return { text: `${s.name} moves to ${a.gpu(v.gpu || gpus[0]!)}.` };
    },
  };
}
