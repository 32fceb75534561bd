import { call, path } from '../api/client';
import type { Lease, Settings, Waiting, Whoami } from '../api/types';
import { memory, plural } from '../ui/format';
import type { Act, Outcome } from './act';
import { atLeast, mayChange, mayOperate, owns } from './rights';

// Around is what a sentence about a lease needs besides the lease.
export interface Around {
  me: Whoami | undefined;
  settings: Settings | undefined;
  gpu: (uuid: string) => string; // what people call a device: GPU 0
}

// whose names the owner of a lease for a sentence.
function whose(l: { id: string; holder: Lease['holder'] }, a: Around): string {
  return owns(a.me, l.holder) ? `your lease ${l.id}` : `the lease ${l.id} of ${l.holder.user ?? 'another user'}`;
}

// held says what a lease holds: 20 GiB and 1 slot on GPU 0.
export function held(l: Pick<Lease, 'parts'>, gpu: Around['gpu']): string {
  const parts = l.parts.map((p) => {
    const what = [p.memory_mb > 0 ? memory(p.memory_mb) : '', p.slots > 0 ? plural(p.slots, 'slot') : ''].filter((x) => x !== '');
    return `${what.join(' and ') || 'nothing'} on ${gpu(p.gpu)}`;
  });
  return parts.join(', ') || 'nothing';
}

// programs names the processes of a lease, a few of them by name.
export function programs(l: Pick<Lease, 'processes' | 'holder'>): string {
  const seen = new Map<number, string>();
  let hidden = 0;
  for (const p of l.processes ?? []) {
    if (p.pid > 0) seen.set(p.pid, p.name ?? '');
    else hidden++;
  }
  const count = seen.size + hidden;
  if (count === 0) return '';
  const named = [...seen].slice(0, 3).map(([pid, name]) => (name === '' ? `process ${pid}` : `${name}, process ${pid}`));
  const list = named.length > 0 ? ` (${named.join('; ')}${count > named.length ? '; …' : ''})` : '';
  return `${plural(count, 'process', 'processes')}${list}`;
}

// audited is added where somebody acts on what is not theirs.
function audited(l: { holder: Lease['holder'] }, a: Around): string[] {
  return owns(a.me, l.holder) ? [] : ['It is not yours: the audit log keeps that you did it.'];
}

function at(l: { id: string; holder: Lease['holder'] }, ...rest: string[]): [string, { query: { user: string | undefined } }] {
  return [path('api', 'leases', l.id, ...rest), { query: { user: userOf(l.holder) } }];
}

// userOf names the user of a lease for a question to the daemon.
export function userOf(h: Lease['holder']): string | undefined {
  return h.user === undefined || h.user === 'another user' ? undefined : h.user;
}

// leaseActs lists what the caller may do to a lease, in the state that it is in.
export function leaseActs(l: Lease, a: Around): Act[] {
  if (!mayChange(a.me, l.holder) || l.state === 'released') return [];
  if (l.state === 'waiting') return l.waiting ? [withdraw(l.waiting, a)] : [];
  const acts: Act[] = [];
  if (l.state === 'active') {
    const part = l.parts.some((p) => p.memory_mb > 0);
    if (part) acts.push(resize(l, a));
    acts.push(pace(l, a));
    if (part) acts.push(trim(l, a), park(l, a));
  }
  if (l.state === 'parked') acts.push(resume(l, a));
  if (l.holder.service && mayPrefer(l.holder.service, a)) acts.push(priority(l.holder.service, a));
  if (l.cancelled === undefined && !l.scope) acts.push(cancel(l, a));
  if (l.state === 'active') acts.push(release(l, a));
  return acts;
}

// cancel ends the programs of a lease, and the lease with them.
function cancel(l: Lease, a: Around): Act {
  const who = programs(l);
  const how = l.state === 'parked' ? 'They are parked, so berth kills them at once.' : 'They are asked to end, and what still runs after optimization.deallocation_timeout is killed.';
  return {
    key: 'cancel', label: 'End its programs', title: `End the programs of ${l.id}?`, confirm: 'End its programs', ends: true,
    says: [
      `This ends ${whose(l, a)} with its programs. ${held(l, a.gpu)} can then be leased by others.`,
      who === '' ? `No process of it is on a GPU now; those that hold the lease end too. ${how}` : `Its programs: ${who}. ${how}`,
      l.parent ? `It is a part of ${l.parent}: the program that started both ends.` : 'What they have not saved is lost. Release lets them run on without the lease.',
      ...audited(l, a),
    ],
    fields: [{ name: 'reason', label: 'Reason', kind: 'text', value: '', maxLength: 256, hint: 'What its user and operators read about it.' }],
    run: async (v) => {
      const [where, o] = at(l, 'cancel');
      await call(where, { method: 'POST', ...o, body: { fence: l.fence, reason: v.reason || undefined } });
      return { text: `${l.id} ends, with its programs.` };
    },
  };
}

function release(l: Lease, a: Around): Act {
  const who = programs(l);
  const foreign = a.settings?.foreign;
  let processes = 'No process of it is on a GPU now.';
  if (who !== '') {
    processes = foreign === 'kill' || foreign === 'kill_orphans'
      ? `berth then ends what still uses the GPU without a lease, because gpu.foreign is ${foreign}: ${who}.`
      : `Its programs are not ended: ${who}. They run on under no lease, and others may get the memory that they use.`;
  }
  return {
    key: 'release', label: 'Release', title: `Release ${l.id}?`, confirm: 'Release', ends: true,
    says: [`This ends ${whose(l, a)}. ${held(l, a.gpu)} can then be leased by others.`, processes, ...audited(l, a)],
    run: async () => {
      const [where, o] = at(l);
      await call(where, { method: 'DELETE', query: { ...o.query, fence: l.fence } });
      return { text: `${l.id} is released: ${held(l, a.gpu)}.` };
    },
  };
}

// withdraw takes a request out of the queue. It ends no lease: not the one that a request
// waits to change, and not one that was granted while the dialog was open.
export function withdraw(w: Waiting, a: Around): Act {
  return {
    key: 'release', label: 'Withdraw', title: `Withdraw the request ${w.id}?`, confirm: 'Withdraw', ends: true,
    says: [
      `This takes ${owns(a.me, w.holder) ? `your request ${w.id}` : `the request ${w.id} of ${w.holder.user ?? 'another user'}`} out of the queue. ${w.for === undefined ? 'It holds nothing yet, so no program is stopped.' : 'Its lease stays as it is, and no program is stopped.'}`,
      'Whoever waits for its answer is told that it was withdrawn.',
      ...audited(w, a),
    ],
    run: async () => {
      const [where, o] = at(w);
      await call(where, { method: 'DELETE', query: { ...o.query, waiting: true } });
      return { text: `The request ${w.id} is withdrawn.` };
    },
  };
}

function park(l: Lease, a: Around): Act {
  const who = programs(l);
  return {
    key: 'park', label: 'Park', title: `Park ${l.id}?`, confirm: 'Park',
    says: [
      `This moves the GPU memory of ${whose(l, a)} to the memory of the machine. ${held(l, a.gpu)} can then be leased by others.`,
      who === ''
        ? 'Its programs stand still until somebody resumes it.'
        : `Its programs stand still until somebody resumes it: ${who}. Their connections stay open, and nobody answers on them.`,
      'All of it is moved, or nothing is changed.',
      ...audited(l, a),
    ],
    fields: [{ name: 'reason', label: 'Reason', kind: 'text', value: '', maxLength: 256, hint: 'What others read about it.' }],
    run: async (v) => {
      const [where, o] = at(l, 'park');
      const done = await call<Lease>(where, { method: 'POST', ...o, timeout: 0, body: { fence: l.fence, reason: v.reason || undefined } });
      return { text: `${l.id} is parked: its memory takes ${memory(done.parking?.host_mb)} of the machine's memory.` };
    },
  };
}

function resume(l: Lease, a: Around): Act {
  return {
    key: 'resume', label: 'Resume', title: `Resume ${l.id}?`, confirm: 'Resume',
    says: [
      `This gives ${whose(l, a)} its memory and slots again and moves its memory back to ${l.parts.map((p) => a.gpu(p.gpu)).join(', ')}. Then its programs go on.`,
      'If there is no room, it waits in the queue like any request, and stays parked meanwhile.',
      ...audited(l, a),
    ],
    fields: [{ name: 'wait', label: 'Wait for room', kind: 'number', value: '60', unit: 'seconds', min: 0, max: 86400, hint: '0 refuses at once if there is no room.' }],
    run: async (v) => {
      const [where, o] = at(l, 'resume');
      await call(where, { method: 'POST', ...o, timeout: 0, body: { fence: l.fence, timeout_seconds: Number(v.wait || 0) } });
      return { text: `${l.id} is back: it holds ${held(l, a.gpu)}.` };
    },
  };
}

function trim(l: Lease, a: Around): Act {
  return {
    key: 'trim', label: 'Trim', title: `Ask ${l.id} to trim its memory?`, confirm: 'Ask',
    says: [
      `This asks the programs of ${whose(l, a)} to free the memory that their libraries keep for later.`,
      'Nothing is stopped or ended, and the lease stays as large as it is. Programs that do not listen ignore it; what they use now shows the result.',
      ...audited(l, a),
    ],
    run: async () => {
      const [where, o] = at(l, 'trim');
      await call(where, { method: 'POST', ...o });
      return { text: `${l.id} was asked. What it uses shows the result in a few seconds.` };
    },
  };
}

function pace(l: Lease, a: Around): Act {
  const who = programs(l);
  const now = l.paced ? `It is held to ${Math.round(l.paced.share * 100)} % now.` : 'It runs freely now.';
  return {
    key: 'pace', label: 'Pace', title: `Hold ${l.id} to a share?`, confirm: 'Set the share',
    says: [
      `This holds ${whose(l, a)} to a share of what it would get of ${l.parts.map((p) => a.gpu(p.gpu)).join(', ')}. ${now}`,
      `berth stops and continues its programs in cycles of about a second${who === '' ? '' : `: ${who}`}. Nothing is ended. 100 % lets it run freely.`,
      ...audited(l, a),
    ],
    fields: [
      { name: 'share', label: 'Share', kind: 'number', value: String(Math.round((l.paced?.share ?? 1) * 100)), unit: '%', min: 5, max: 100, required: true },
      { name: 'reason', label: 'Reason', kind: 'text', value: '', maxLength: 256, hint: 'What others read about it.' },
    ],
    run: async (v): Promise<Outcome> => {
      const [where, o] = at(l, 'pace');
      const share = Number(v.share) / 100;
      const done = await call<Lease>(where, { method: 'POST', ...o, body: { share, fence: l.fence, reason: v.reason || undefined } });
      if (done.paced?.refused) return { text: `${l.id} has its share, but runs freely: ${done.paced.refused}`, bad: true };
      return { text: done.paced ? `${l.id} is held to ${Math.round(done.paced.share * 100)} %.` : `${l.id} runs freely.` };
    },
  };
}

function resize(l: Lease, a: Around): Act {
  const most = Math.max(...l.parts.map((p) => p.memory_mb));
  const each = l.parts.length > 1 ? ' on each device' : '';
  const used = Math.max(0, ...l.parts.map((p) => p.measured_mb ?? 0));
  const before = l.asked_mb ? ` It had ${memory(l.asked_mb)} before an optimization made it smaller, and can have that back before everybody who waits.` : '';
  return {
    key: 'resize', label: 'Resize', title: `Resize ${l.id}?`, confirm: 'Resize',
    says: [
      `This gives ${whose(l, a)} another amount of memory. It holds ${held(l, a.gpu)}, and uses ${memory(used)} at most.${before}`,
      'Smaller holds at once. Larger needs room. No program is stopped, and those that run keep the limit that their libraries were started with.',
      ...audited(l, a),
    ],
    fields: [
      { name: 'memory', label: `Memory${each}`, kind: 'number', value: String(most), unit: 'MiB', min: 1, max: 1073741824, step: 1, required: true },
      { name: 'wait', label: 'Wait for room', kind: 'number', value: '0', unit: 'seconds', min: 0, max: 86400, hint: '0 refuses at once if there is no room.' },
    ],
    run: async (v) => {
      const [where, o] = at(l, 'resize');
      const body = { memory_mb: Math.round(Number(v.memory)), fence: l.fence, timeout_seconds: Number(v.wait || 0) };
      const done = await call<Lease>(where, { method: 'POST', ...o, timeout: 0, body });
      return { text: `${l.id} holds ${held(done, a.gpu)}.`, details: done.note ? [done.note] : [] };
    },
  };
}

// mayPrefer reports whether a caller may set the priority of a service: operators, if
// the configuration has the service. Only administrators add a service to it.
function mayPrefer(service: string, a: Around): boolean {
  return atLeast(a.me, 'admin') || (mayOperate(a.me) && a.settings?.services?.[service] !== undefined);
}

// priority sets the priority of a service. It is a setting, so operators may.
export function priority(service: string, a: Around): Act {
  const now = a.settings?.services?.[service]?.priority ?? 0;
  return {
    key: 'priority', label: 'Priority', title: `Priority of the service ${service}?`, confirm: 'Set the priority',
    says: [
      `Requests of the service ${service} that wait go before those with a lower priority. It is ${now} now.`,
      `This changes the setting services.${service}.priority, for all leases of the service that are asked for from now on, also after a restart. No lease that stands changes, and no program is stopped.`,
    ],
    fields: [{ name: 'priority', label: 'Priority', kind: 'number', value: String(now), step: 1, min: -1000000, max: 1000000, required: true, hint: 'The highest goes first.' }],
    run: async (v) => {
      await call('/api/gpu/config', { method: 'PUT', body: { services: { [service]: { priority: Math.round(Number(v.priority)) } } } });
      return { text: `The service ${service} has the priority ${Math.round(Number(v.priority))}.` };
    },
  };
}

