import { useComputed } from '@preact/signals';
import { memo } from 'preact/compat';
import { useStable } from '../live/hooks';
import { device } from '../live/state';
import { to } from '../router';
import { StateBadge } from '../ui/badge';
import { memory, shortName } from '../ui/format';
import { MemoryStack } from '../ui/memory';
import { Berths } from './berths';
import { dead, type Figure, heat, load, power, Small, useStack, useValue } from './figures';
import { Notes } from './notes';

// Card shows one device: its curves, its memory and who holds it. What changes every
// second is text and canvas; the rest is drawn again only when it says something new.
export const Card = memo(function Card({ uuid, filter }: { uuid: string; filter: string }) {
  const head = useStable(() => {
    const s = device(uuid).value;
    return s && { index: s.device.index, name: s.device.name, state: s.state, reason: s.reason };
  });
  if (head === undefined) return null;
  const id = `gpu-${head.index}`;
  return (
    <article class={`card state-${head.state.toLowerCase()}`} aria-labelledby={id}>
      <header class="card-head">
        <h3 id={id}><a href={to.gpu(uuid)}>GPU {head.index}</a></h3>
        <span class="card-name" title={head.name}>{shortName(head.name)}</span>
        <StateBadge state={head.state} title={head.reason} />
      </header>
      <Notes uuid={uuid} />
      <Curves uuid={uuid} />
      <Memory uuid={uuid} />
      <Berths uuid={uuid} filter={filter} bars />
    </article>
  );
});

// Curves has the three curves of a device, one below the other.
export function Curves({ uuid }: { uuid: string }) {
  return (
    <div class="curves">
      {[load, heat, power].map((f) => (
        <div key={f.name} class={`curve curve-${f.tone}`}>
          <span class="curve-name">{f.name}</span>
          <Value uuid={uuid} figure={f} />
          <Small uuid={uuid} figure={f} />
        </div>
      ))}
    </div>
  );
}

function Value({ uuid, figure }: { uuid: string; figure: Figure }) {
  return <span class="curve-value">{useValue(uuid, figure)}</span>;
}

function Memory({ uuid }: { uuid: string }) {
  const it = useStack(uuid);
  const used = useComputed(() => {
    const s = device(uuid).value;
    return s?.sample === undefined || dead(s) ? '–' : memory(s.sample.memory_used_mb);
  });
  return (
    <div class="card-memory">
      <div class="memory-line">
        <span class="curve-name">Memory</span>
        <span><b>{used}</b> <span class="quiet">of {memory(it.total)}<span class="in-use"> in use</span></span></span>
        <span class="quiet end">{memory(it.leased)} leased</span>
      </div>
      <MemoryStack stack={it} />
    </div>
  );
}
