import { memo } from 'preact/compat';
import type { Event } from '../api/types';
import { Ago } from './time';

const tones = { info: 'quiet', warning: 'warn', critical: 'bad' } as const;

// EventRow shows an event; more: how many others of its kind stand behind it.
export const EventRow = memo(function EventRow({ event: e, more = 0 }: { event: Event; more?: number }) {
  return (
    <li class={`event event-${tones[e.severity] ?? 'quiet'}`}>
      <span class="event-time"><Ago at={e.time} /></span>
      <span class="event-mark" role="img" aria-label={e.severity} title={e.severity} />
      <span class="event-text">{e.text}{more > 0 && <span class="quiet">, and {more} more of its tasks</span>}</span>
    </li>
  );
});
