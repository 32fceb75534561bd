import { useState } from 'preact/hooks';
import { api } from '../api/client';
import { refresh } from '../live/loop';
import { signInProblem } from '../live/session';
import { refusedWhy } from '../live/state';

// SignIn is shown when the daemon wants to know who asks.
export function SignIn() {
  return (
    <section class="signin">
      <h1>Sign in</h1>
      <p>{refusedWhy.value}</p>
      <SignInForm onDone={() => undefined} />
    </section>
  );
}

// SignInForm takes a token. The daemon answers with a cookie that scripts cannot read;
// the page keeps nothing.
export function SignInForm({ onDone }: { onDone: () => void }) {
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const send = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    try {
      await api.signIn({ token: token.trim() });
      signInProblem.value = '';
      refresh();
      onDone();
    } catch (err) {
      setProblem(err instanceof Error ? err.message : String(err));
      setBusy(false);
    }
  };
  const why = problem || signInProblem.value;
  return (
    <>
      <p>On the machine itself, <code>berth open</code> opens this page with a link that signs you in. Elsewhere, paste a token; <code>berth token create</code> makes one.</p>
      <form class="signin-form" onSubmit={(e) => void send(e)}>
        <label for="token">Token</label>
        <input id="token" type="password" autoComplete="off" spellcheck={false} required value={token} onInput={(e) => setToken(e.currentTarget.value)} />
        <button type="submit" class="main" disabled={busy || token.trim() === ''}>Sign in</button>
      </form>
      {why !== '' && <p class="problem" role="alert">{why}</p>}
    </>
  );
}
