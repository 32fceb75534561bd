import { useState } from 'preact/hooks';
import { api } from '../api/client';
import { refresh } from '../live/loop';
import { signInProblem } from '../live/session';
import { refusedWhy } from '../live/state';

// SignIn is shown when the daemon wants to know who asks.
export function SignIn() {
  const [token, setToken] = useState('');
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const send = async (e: SubmitEvent) => {
    e.preventDefault();
    setBusy(true);
    try {
      await api.signIn({ token: token.trim() });
      setToken('');
      setProblem('');
      signInProblem.value = '';
      refresh();
    } catch (err) {
      setProblem(err instanceof Error ? err.message : String(err));
    } finally {
      setBusy(false);
    }
  };
  const why = problem || signInProblem.value;
  return (
    <section class="signin">
      <h1>Sign in</h1>
      <p>{refusedWhy.value}</p>
      <p>On the machine itself, <code>berth open</code> opens this page with a link that signs you in once. From another machine, paste a token; <code>berth token create</code> makes one.</p>
      <form onSubmit={(e) => void send(e as unknown as SubmitEvent)}>
        <label for="token">Token</label>
        <input id="token" type="password" autoComplete="off" spellcheck={false} required value={token} onInput={(e) => setToken(e.currentTarget.value)} />
        <button type="submit" class="main" disabled={busy || token.trim() === ''}>Sign in</button>
      </form>
      {why !== '' && <p class="problem" role="alert">{why}</p>}
    </section>
  );
}
