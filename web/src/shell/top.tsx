import { useComputed } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../api/client';
import { refresh } from '../live/loop';
import { answeredAt, freshness, machine, me, now } from '../live/state';
import { place, type Route, to } from '../router';
import { Dialog } from '../ui/dialog';
import { duration } from '../ui/format';
import { items } from './attention';
import { SignInForm } from './signin';
import { ThemeSwitch } from './theme';

export const pages: { name: string; href: string; page: Route['page']; key: string }[] = [
  { name: 'Overview', href: to.overview(), page: 'overview', key: 'o' },
  { name: 'Jobs', href: to.page('jobs'), page: 'jobs', key: 'j' },
  { name: 'Services', href: to.page('services'), page: 'services', key: 's' },
  { name: 'Leases', href: to.page('leases'), page: 'leases', key: 'l' },
  { name: 'Users', href: to.page('users'), page: 'users', key: 'u' },
  { name: 'Batches', href: to.page('batches'), page: 'batches', key: 'b' },
  { name: 'Reports', href: to.page('reports'), page: 'reports', key: 'r' },
  { name: 'Events', href: to.page('events'), page: 'events', key: 'e' },
  { name: 'Plans', href: to.page('plans'), page: 'plans', key: 'p' },
  { name: 'Alerts', href: to.page('alerts'), page: 'alerts', key: 'a' },
];

// Top is the line that all places of the page have.
export function Top({ onHelp }: { onHelp: () => void }) {
  const here = place.value.route.page;
  const nav = useRef<HTMLElement>(null);
  useEffect(() => nav.current?.querySelector('[aria-current]')?.scrollIntoView?.({ block: 'nearest', inline: 'center' }), [here]);
  return (
    <header class="top">
      <a class="brand" href={to.overview()}>
        <Mark />
        <span>berth</span>
        <span class="host" title={`berth ${machine.value?.version ?? ''}`}>{machine.value?.host}</span>
      </a>
      <nav aria-label="Pages" ref={nav}>
        {pages.map((p) => (
          <a key={p.page} href={p.href} aria-current={here === p.page ? 'page' : undefined}>{p.name}</a>
        ))}
      </nav>
      <div class="top-end">
        <Live />
        <Person />
        <a href="help" title="The manual of this release">Manual</a>
        <ThemeSwitch />
        <button type="button" class="plain round help-button" aria-label="Keyboard help" title="Keyboard help (?)" onClick={onHelp}>?</button>
      </div>
    </header>
  );
}

function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <rect x="4" y="4" width="5" height="24" rx="2" />
      <rect x="12" y="4" width="16" height="6.5" rx="2" />
      <rect x="12" y="12.75" width="11" height="6.5" rx="2" opacity=".7" />
      <rect x="12" y="21.5" width="16" height="6.5" rx="2" opacity=".45" />
    </svg>
  );
}

// Live says whether what the page shows is of now.
function Live() {
  const old = useComputed(() => {
    now.value; // moves every second
    return answeredAt.value === undefined ? '' : duration((Date.now() - answeredAt.value) / 1000);
  });
  switch (freshness.value) {
    case 'fresh':
      return <span class="live tone-good" title="The daemon answers every second.">live</span>;
    case 'stale':
      return <span class="live tone-warn">stale, {old}</span>;
    case 'gone':
      return <span class="live tone-bad">no daemon{answeredAt.value === undefined ? '' : <> for {old}</>}</span>;
    case 'refused':
      return <span class="live tone-warn">not signed in</span>;
    case 'connecting':
      return <span class="live tone-off">connecting</span>;
  }
}

function Person() {
  const [asking, setAsking] = useState(false);
  const who = me.value;
  if (who === undefined) return null;
  return (
    <span class="person" title={who.why.join('\n')}>
      <b class="person-name">{who.user}</b> <span class="quiet person-role">{who.role}</span>
      {who.session
        ? <button type="button" class="plain" onClick={() => void api.signOut().then(refresh, refresh)}>Sign out</button>
        : who.token === undefined && who.role !== 'admin' && <button type="button" class="plain" onClick={() => setAsking(true)}>Sign in</button>}
      {asking && <Dialog title="Sign in" onClose={() => setAsking(false)}><SignInForm onDone={() => setAsking(false)} /></Dialog>}
    </span>
  );
}

// title is what the tab of the browser says: how many things need a person.
export function title(): string {
  const n = items.value.length;
  const host = machine.value?.host;
  return `${n > 0 ? `(${n}) ` : ''}berth${host ? ` · ${host}` : ''}`;
}
