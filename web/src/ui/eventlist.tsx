import type { ComponentChildren } from 'preact';
import { memo } from 'preact/compat';
import type { Event } from '../api/types';
import { EventRow } from './event';

// EventList shows a few events, the first of the list on top.
export const EventList = memo(function EventList({ events, empty }: { events: readonly Event[]; empty: ComponentChildren }) {
  if (events.length === 0) return <p class="empty">{empty}</p>;
  return <ol class="events some" tabIndex={0} aria-label="Events">{events.map((e) => <EventRow key={e.id} event={e} />)}</ol>;
});
