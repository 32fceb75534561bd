import { signal } from '@preact/signals';
import { api } from '../api/client';

// signInProblem is why a link of `berth open` did not work; empty: it did, or there
// was none.
export const signInProblem = signal('');

// signInFromAddress uses the code of a link that `berth open` made, and removes it
// from the address, so that it stays in no history and no bookmark.
export async function signInFromAddress(): Promise<void> {
  const found = /^#login=([^&]+)/.exec(location.hash);
  if (found === null) return;
  history.replaceState(null, '', '#/');
  signInProblem.value = '';
  try {
    await api.signIn({ code: decodeURIComponent(found[1]!) });
  } catch (err) {
    signInProblem.value = err instanceof Error ? err.message : String(err);
  }
}
