import { memo } from 'preact/compat';
import type { Event } from '../api/types';
import { device } from '../live/state';
import { to } from '../router';
import { clock } from './format';
import { Ago } from './time';

const tones = { info: 'quiet', warning: 'warn', critical: 'bad' } as const;

// EventRow shows an event. wide: with its code, and with links to what it is about.
export const EventRow = memo(function EventRow({ event: e, wide }: { event: Event; wide?: boolean }) {
  const index = e.gpu === undefined ? undefined : device(e.gpu).peek()?.device.index;
  return (
    <li class={`event event-${tones[e.severity] ?? 'quiet'}`}>
      <span class="event-time" title={new Date(e.time).toLocaleString('en-GB')}>{wide ? clock(e.time) : <Ago at={e.time} />}</span>
      <span class="event-mark" role="img" aria-label={e.severity} title={e.severity} />
      <span class="event-text">{e.text}</span>
      {wide && (
        <span class="event-about">
          <code>{[e.code, ...(e.also ?? [])].join(' ')}</code>
          {e.gpu !== undefined && <a href={to.gpu(e.gpu)}>{index === undefined ? e.gpu : `GPU ${index}`}</a>}
          {e.lease !== undefined && <a href={to.lease(e.user, e.lease)}>{e.user ? `${e.user}/${e.lease}` : e.lease}</a>}
          {e.by?.user !== undefined && <span>by {e.by.user}</span>}
        </span>
      )}
    </li>
  );
});
