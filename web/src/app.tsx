import { useSignalEffect } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ActHost } from './actions/dialog';
import { freshness } from './live/state';
import { Later } from './lists/later';
import { AlertsPage } from './pages/alerts';
import { DevicePage } from './pages/device';
import { LeasePage } from './pages/lease';
import { Overview } from './pages/overview';
import { PlansPage } from './pages/plans';
import { place, to } from './router';
import { Attention } from './shell/attention';
import { Help } from './shell/help';
import { listenKeys } from './shell/keys';
import { SignIn } from './shell/signin';
import { title, Top } from './shell/top';

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
      <Page key={at} />
    </>
  );
}

const listPage = () => import('./pages/lists').then((m) => m.ListPage);
const reportsPage = () => import('./pages/reports').then((m) => m.ReportsPage);

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
    case 'tokens': return <Later load={listPage} props={{ name: route.page, open: route.open }} />;
    case 'reports': return <Later load={reportsPage} props={{}} />;
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
