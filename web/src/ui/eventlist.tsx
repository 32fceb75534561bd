import type { Event } from '../api/types';
import { Badge, type Tone } from './badge';
import { Ago } from './time';

const tones: Record<Event['severity'], Tone> = { info: 'info', warning: 'warn', critical: 'bad' };

// EventList shows a few events, the first of the list on top.
export function EventList({ events, empty }: { events: readonly Event[]; empty: string }) {
  if (events.length === 0) return <p class="empty">{empty}</p>;
  return (
    <ul class="event-list" tabIndex={0} aria-label="Events">
      {events.map((e) => (
        <li key={e.id}>
          <span class="event-when"><Ago at={e.time} /></span>
          <Badge tone={tones[e.severity] ?? 'info'}>{e.severity}</Badge>
          <span class="event-text">{e.text}</span>
        </li>
      ))}
    </ul>
  );
}
