import { folded } from '../live/events';
import { events, following } from '../live/state';
import { to } from '../router';
import { EventRow } from '../ui/event';

// Latest shows what just happened.
export function Latest() {
  const list = folded(events.value, 9);
  return (
    <section class="panel" aria-labelledby="latest">
      <header class="panel-head">
        <h2 id="latest">What just happened</h2>
        <a href={to.page('events')}>All events</a>
      </header>
      {list.length === 0
        ? <p class="empty">{following.value ? <>Nothing yet. The first lease is here: <code>berth exec -- COMMAND</code>.</> : 'Asking…'}</p>
        : <ol class="events">{list.map((f) => <EventRow key={f.event.id} event={f.event} more={f.more} />)}</ol>}
    </section>
  );
}
