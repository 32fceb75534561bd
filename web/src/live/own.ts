import { call } from '../api/client';
import type { Jobs, Whoami } from '../api/types';

// ownerOf returns whose jobs the page shows a person as their own; undefined: nobody's.
export function ownerOf(who: Whoami | undefined): string | undefined {
  if (who === undefined || who.role === 'stranger' || who.role === 'scraper' || who.user === 'unknown') return undefined;
  return who.uid === undefined ? who.user : String(who.uid);
}

function ask(user: string, signal?: AbortSignal): Promise<Jobs> {
  return call<Jobs>('/api/jobs', { signal, query: { user, state: 'held,waiting,starting,running', limit: 20 } });
}

let ahead: { user: string; answer: Promise<Jobs> } | undefined;

// askAhead asks for the jobs of a person before there is anything on the screen that
// shows them.
export function askAhead(who: Whoami): void {
  const user = ownerOf(who);
  if (user === undefined) return;
  ahead = { user, answer: ask(user) };
  ahead.answer.catch(() => undefined); // whoever takes the answer says why there is none
}

// ownJobs returns the jobs of a person that wait or run: those asked for ahead, the
// first time.
export function ownJobs(user: string, signal: AbortSignal): Promise<Jobs> {
  const it = ahead;
  ahead = undefined;
  return it?.user === user ? it.answer : ask(user, signal);
}
