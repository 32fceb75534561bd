import { memo } from 'preact/compat';
import { memory, plural } from './format';
import { hue } from './hue';
import { type Segment, share, type Stack } from './stack';

// MemoryStack draws the memory of a device: a segment for each lease, or for each user
// where there are many, the filled part of it being what its processes use; then strangers, what is free, and what berth
// keeps back.
export const MemoryStack = memo(function MemoryStack({ stack: it, tall }: { stack: Stack; tall?: boolean }) {
  const text = `${memory(it.leased)} of ${memory(it.total)} leased, ${memory(it.used)} of that in use, ${memory(it.strangers)} used under no lease, ${memory(it.free)} free`;
  return (
    <div class={tall ? 'stack tall' : 'stack'} role="img" aria-label={text}>
      {it.segments.map((s) => <Part key={s.key} segment={s} width={share(it, s)} />)}
    </div>
  );
});

function Part({ segment: s, width }: { segment: Segment; width: number }) {
  const full = s.size <= 0 ? 0 : Math.min(100, (s.used * 100) / s.size);
  const over = s.lease !== undefined && s.asked > 0 && s.used > s.asked;
  const kind = s.kind === 'lease' ? `lease hue-${hue(s.lease!.holder)}${over ? ' over' : ''}` : s.kind;
  return (
    <span class={`part ${kind}`} style={{ width: `${width}%` }} title={says(s)}>
      {(s.kind === 'lease' || s.kind === 'rest') && <i style={{ width: `${full}%` }} />}
    </span>
  );
}

function says(s: Segment): string {
  switch (s.kind) {
    case 'lease': return `${s.count > 1 ? `${plural(s.count, 'lease')} of ${s.lease!.holder.user ?? 'another user'}` : s.lease!.id}: asked for ${memory(s.asked)}, uses ${memory(s.used)}`;
    case 'rest': return `${plural(s.count, 'small lease')}: asked for ${memory(s.asked)}, use ${memory(s.used)}`;
    case 'strangers': return `Under no lease: ${memory(s.used)}`;
    case 'driver': return `The driver: ${memory(s.used)}`;
    case 'reserve': return `Kept back: ${memory(s.size)}`;
    case 'free': return `Free: ${memory(s.size)}`;
  }
}

// Fill shows how much of what was asked for is used.
export function Fill({ used, asked, tone }: { used: number; asked: number; tone: string }) {
  const full = asked <= 0 ? 0 : (used * 100) / asked;
  return (
    <span class={`fill ${tone}${full > 102 ? ' over' : ''}`} aria-hidden="true">
      <i style={{ width: `${Math.min(100, full)}%` }} />
    </span>
  );
}
