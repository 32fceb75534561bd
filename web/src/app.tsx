import type { ComponentChildren } from 'preact';
import { AlertsPage } from './pages/alerts';
import { BatchesPage } from './pages/batches';
import { DevicePage } from './pages/device';
import { EventsPage } from './pages/events';
import { LeasePage } from './pages/lease';
import { Overview } from './pages/overview';
import { PlansPage } from './pages/plans';
import { place, type Route, to } from './router';

const pages: [string, string, Route['page']][] = [
  ['Overview', to.overview(), 'overview'],
  ['Events', to.page('events'), 'events'],
  ['Batches', to.page('batches'), 'batches'],
  ['Plans', to.page('plans'), 'plans'],
  ['Alerts', to.page('alerts'), 'alerts'],
];

export function App() {
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById('main')?.focus(); }}>Skip to the content</a>
      <header class="top">
        <a class="brand" href={to.overview()}>berth</a>
        <nav aria-label="Pages">
          {pages.map(([name, href, page]) => (
            <a key={page} href={href} aria-current={place.value.route.page === page ? 'page' : undefined}>{name}</a>
          ))}
        </nav>
      </header>
      <main id="main" tabIndex={-1}><Content /></main>
    </>
  );
}

function Content(): ComponentChildren {
  const { route } = place.value;
  switch (route.page) {
    case 'overview': return <Overview />;
    case 'gpu': return <DevicePage key={route.uuid} uuid={route.uuid} />;
    case 'lease': return <LeasePage key={`${route.user}/${route.id}`} user={route.user} id={route.id} />;
    case 'events': return <EventsPage />;
    case 'batches': return <BatchesPage />;
    case 'plans': return <PlansPage />;
    case 'alerts': return <AlertsPage />;
    case 'unknown': return <section><h1>There is no such page</h1><p><a href={to.overview()}>To the overview</a></p></section>;
  }
}
