import { render } from 'preact';
import { App } from './app';
import { begin, refresh } from './live/loop';
import { beginNarrow } from './live/narrow';
import { signInFromAddress } from './live/session';
import { beginTheme } from './live/theme';
import { listen } from './router';
import './style/tokens.css';
import './style/page.css';

async function start(): Promise<void> {
  beginTheme();
  beginNarrow();
  await signInFromAddress();
  listen(() => void signInFromAddress().then(refresh));
  await begin();
  const at = document.getElementById('page');
  if (at) render(<App />, at);
}

void start();
