import './style/views.css'; // before that of the overview, which has the last word
import { useSignalEffect } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ActHost } from './actions/dialog';
import { freshness } from './live/state';
import { Overview } from './pages/overview';
import { place, to } from './router';
import { Age, Attention } from './shell/attention';
import { Help } from './shell/help';
import { listenKeys } from './shell/keys';
import { SignIn } from './shell/signin';
import { title, Top } from './shell/top';
import { lazy } from './ui/lazy';

// What is not on the first view is loaded when somebody goes there.
const DevicePage = lazy(async () => (await import('./pages/device')).DevicePage);
const LeasePage = lazy(async () => (await import('./pages/lease')).LeasePage);
const ListPage = lazy(async () => (await import('./pages/lists')).ListPage);
const ReportsPage = lazy(async () => (await import('./pages/reports')).ReportsPage);
const PlansPage = lazy(async () => (await import('./pages/plans')).PlansPage);
const AlertsPage = lazy(async () => (await import('./pages/alerts')).AlertsPage);

// App is the whole page.
export function App() {
  const [help, setHelp] = useState(false);
  const main = useRef<HTMLElement>(null);
  const showHelp = () => setHelp(true);
  useEffect(() => listenKeys(showHelp), []);
  useSignalEffect(() => {
    const text = title();
    if (document.title !== text) document.title = text;
  });
  const skip = (e: MouseEvent) => {
    e.preventDefault(); // the address belongs to the router
    main.current?.focus();
  };
  return (
    <>
      <nav aria-label="Skip"><a class="skip" href="#/" onClick={skip}>Skip to the content</a></nav>
      <Top onHelp={showHelp} />
      <main id="main" ref={main} tabIndex={-1}>
        <Content />
      </main>
      <ActHost />
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

function Content(): ComponentChildren {
  const { route } = place.value;
  const at = route.page === 'gpu' ? route.uuid : route.page === 'lease' ? `${route.user}/${route.id}` : route.page;
  useEffect(() => scrollTo(0, 0), [at]);
  if (freshness.value === 'refused') return <SignIn />;
  return (
    <>
      <Attention well={route.page === 'overview'} />
      <Aged><Page key={at} /></Aged>
    </>
  );
}

// Aged turns what the page shows grey while the daemon does not answer, and says how
// old it is.
function Aged({ children }: { children: ComponentChildren }) {
  const old = freshness.value === 'gone' || freshness.value === 'stale';
  return (
    <>
      {old && <Age />}
      <div class={old ? 'content old' : 'content'}>{children}</div>
    </>
  );
}

function Page(): ComponentChildren {
  const { route } = place.value;
  switch (route.page) {
    case 'overview': return <Overview />;
    case 'gpu': return <DevicePage uuid={route.uuid} />;
    case 'lease': return <LeasePage user={route.user} id={route.id} />;
    case 'jobs':
    case 'services':
    case 'leases':
    case 'users':
    case 'batches':
    case 'events':
    case 'tokens': return <ListPage name={route.page} open={route.open} />;
    case 'reports': return <ReportsPage />;
    case 'plans': return <PlansPage />;
    case 'alerts': return <AlertsPage />;
    case 'unknown':
      return (
        <section>
          <h1>There is no such page</h1>
          <p><a href={to.overview()}>To the overview</a></p>
        </section>
      );
  }
}
