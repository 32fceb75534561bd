import { Acts } from '../actions/dialog';
import { serviceActs } from '../actions/services';
import { call, path } from '../api/client';
import type { Service, Services, ServiceTimes } from '../api/schemas';
import { around, deviceLabel, deviceLabels } from '../live/around';
import { uuids } from '../live/state';
import { to } from '../router';
import { Badge, type Tone } from '../ui/badge';
import { Fact, Facts } from '../ui/facts';
import { count, duration, memory, quoted } from '../ui/format';
import { Ago, For } from '../ui/time';
import { Log } from './log';
import { iso, Peek, type Subject, useAsked } from './subject';

const tones: Record<Service['state'], Tone> = {
  away: 'off', waiting: 'warn', starting: 'info', ready: 'good', closing: 'info', leaving: 'info', parked: 'off', asleep: 'off', returning: 'info', failed: 'bad', stopped: 'warn',
};

// why says why a service is in its state.
function why(s: Service): string {
  if (s.stopped) return `stopped by ${s.stopped.by}${s.stopped.why ? `: ${s.stopped.why}` : ''}`;
  return s.failure && s.state === 'failed' ? s.failure.why : (s.why ?? '');
}

export const services: Subject<Service> = {
  title: 'Services',
  one: 'service',
  id: (s) => s.name,
  useRows: () => useAsked(async (signal) => (await call<Services>('/api/services', { signal })).services, 2000, (s) => s.name),
  fields: [
    { key: 'name', name: 'Service', width: 14, value: (s) => s.name },
    { key: 'state', name: 'State', width: 7, choose: true, phone: 'side', value: (s) => s.state, cell: (s) => <Badge tone={tones[s.state] ?? 'off'}>{s.state}</Badge> },
    { key: 'why', name: 'Why', phone: 'below', value: why },
    { key: 'open', name: 'Open', width: 5, numeric: true, value: (s) => s.open },
    { key: 'waiting', name: 'Waiting', width: 6, numeric: true, value: (s) => s.waiting },
    { key: 'switches', name: 'Switches', width: 6, numeric: true, value: (s) => s.switches },
    { key: 'gpu', name: 'GPU', width: 6, value: (s) => deviceLabels(s.devices ?? []) || undefined },
    { key: 'memory_mb', name: 'Memory', width: 6, numeric: true, value: (s) => s.memory_mb, cell: (s) => (s.memory_mb ? memory(s.memory_mb) : undefined) },
    { key: 'user', name: 'User', width: 7, choose: true, value: (s) => s.user },
    { key: 'since', name: 'Since', width: 7, numeric: true, value: (s) => iso(s.since), cell: (s) => <Ago at={s.since} /> },
    { key: 'requests', name: 'Requests', width: 6, numeric: true, off: true, value: (s) => s.requests, cell: (s) => count(s.requests) },
    { key: 'failed_requests', name: 'Failed', width: 6, numeric: true, off: true, value: (s) => s.failed_requests },
    { key: 'refused_requests', name: 'Refused', width: 6, numeric: true, off: true, value: (s) => s.refused_requests },
    { key: 'tokens_in', name: 'Tokens in', width: 7, numeric: true, off: true, value: (s) => s.tokens_in, cell: (s) => count(s.tokens_in) },
    { key: 'tokens_out', name: 'Tokens out', width: 7, numeric: true, off: true, value: (s) => s.tokens_out, cell: (s) => count(s.tokens_out) },
    { key: 'last_answer', name: 'Last answer', width: 7, numeric: true, off: true, value: (s) => iso(s.last_answer), cell: (s) => (s.last_answer ? <Ago at={s.last_answer} /> : undefined) },
    { key: 'start', name: 'Starts', width: 7, off: true, value: (s) => s.start.replace('_', ' ') },
    { key: 'away', name: 'Goes away by', width: 8, off: true, value: (s) => s.goes ?? s.away },
    { key: 'models', name: 'Models', width: 14, off: true, value: (s) => s.models?.join(', ') },
  ],
  Detail: ServiceDetail,
  empty: {
    title: 'No services',
    shows: 'A service is a server, such as one of a model, that berth starts when somebody asks for it. Here is which ones answer, which wait, and why one failed. Each stands in berth.yaml with its command:',
    first: 'services:\n  chat:\n    command: [vllm, serve, /models/chat, --port, "${PORT}"]\n    user: ada\n    memory: 40GiB\n\nberth config reload\nberth start chat',
    topic: 'running-services',
  },
};

const comings: [keyof ServiceTimes, string][] = [['start', 'start'], ['stop', 'stop'], ['park', 'park'], ['resume', 'resume'], ['sleep', 'go to sleep'], ['wake', 'wake']];

function ServiceDetail({ id, row: s }: { id: string; row: Service | undefined }) {
  if (s === undefined) return <Peek title={id}><p class="empty">There is no service {id} whose program berth runs.</p></Peek>;
  const took = comings.flatMap(([key, word]) => (s.took[key] ? [`${word} ${duration(s.took[key].seconds)} (${s.took[key].count}×)`] : []));
  return (
    <Peek
      title={s.name}
      state={<><Badge tone={tones[s.state] ?? 'off'}>{s.state}</Badge> <span>for <For since={s.since} />{why(s) === '' ? '' : `: ${why(s)}`}</span></>}
      acts={<Acts acts={serviceActs(s, uuids.value, around())} label={`What you can do with ${s.name}`} />}
    >
      {s.failure && (
        <div class="notice tone-bad">
          <p>It failed {s.failure.count === 1 ? '' : `${s.failure.count} times, the last time `}<Ago at={s.failure.at} />: {s.failure.why}{s.failure.next ? <> It is started again <Ago at={s.failure.next} /> if somebody asks.</> : ''}</p>
          {s.failure.log && s.failure.log.length > 0 && <pre class="log short" tabIndex={0} aria-label="The last lines before it failed">{s.failure.log.join('\n')}</pre>}
        </div>
      )}
      <Facts>
        <Fact name="Answers now">{`${s.open}${s.waiting > 0 ? `, and ${s.waiting} wait` : ''}`}</Fact>
        <Fact name="Requests">{`${count(s.requests)}${s.failed_requests > 0 ? `, ${count(s.failed_requests)} failed` : ''}${s.refused_requests > 0 ? `, ${count(s.refused_requests)} refused` : ''}`}</Fact>
        <Fact name="Tokens">{s.tokens_in + s.tokens_out > 0 ? `${count(s.tokens_in)} in, ${count(s.tokens_out)} out` : ''}</Fact>
        <Fact name="Last answer">{s.last_answer ? <Ago at={s.last_answer} /> : ''}</Fact>
        <Fact name="Came to a GPU">{s.switches === 1 ? 'once' : `${count(s.switches)} times`}</Fact>
        <Fact name="GPU">{(s.devices ?? []).map((g, i) => <>{i > 0 && ', '}<a key={g} href={to.gpu(g)}>{deviceLabel(g)}</a></>)}</Fact>
        <Fact name="Memory">{s.memory_mb ? `${memory(s.memory_mb)}${s.learned ? ', learned' : ''}` : 'not known yet'}</Fact>
        <Fact name="Lease">{s.lease ? <a href={to.lease(s.user, s.lease)}>{s.lease}</a> : ''}</Fact>
        <Fact name="Runs as">{s.user}</Fact>
        <Fact name="Process">{s.pid ? String(s.pid) : ''}</Fact>
        <Fact name="Port">{s.port ? String(s.port) : ''}</Fact>
        <Fact name="Starts">{s.start.replace('_', ' ')}</Fact>
        <Fact name="Goes away by" wide>{s.goes ? `${s.goes}${s.goes_why ? `: ${s.goes_why}` : ''}` : s.away}</Fact>
        <Fact name="It takes to" wide>{took.join(', ')}</Fact>
        <Fact name="Models" wide>{s.models?.join(', ')}</Fact>
        <Fact name="Command" wide>{s.command ? <code>{quoted(s.command)}</code> : ''}</Fact>
        <Fact name="Folder" wide>{s.directory}</Fact>
      </Facts>
      {s.command
        ? <><h3>Log</h3>{s.log ? <Log where={path('api', 'services', s.name, 'log')} live label={`Log of ${s.name}`} /> : <p class="quiet">It has not run yet, so there is no log.</p>}</>
        : <p class="quiet">Its command, its process and its log are shown to {s.user} and to operators.</p>}
    </Peek>
  );
}
