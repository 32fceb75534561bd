import { call, path } from '../api/client';
import type { NewToken, Token } from '../api/schemas';
import type { Act } from './act';
import type { Around } from './leases';
import { atLeast } from './rights';

// mayEntrust reports whether a caller may make and revoke tokens.
export function mayEntrust(a: Around): boolean {
  return atLeast(a.me, 'admin');
}

// makeToken makes a token for the caller, or for a program or another user.
export function makeToken(a: Around): Act {
  const not = mayEntrust(a) ? undefined : `Administrators make tokens, and you have the role ${a.me?.role ?? 'stranger'}. Ask one, or sign in with berth open if you are one.`;
  return {
    key: 'make-token', label: 'Make a token', title: 'Make a token', confirm: 'Make it', ...(not === undefined ? {} : { not }),
    says: ['Whoever shows the token has its role, from this machine or another one. The secret is shown once: berth keeps only its hash.', 'No lease changes and no program is stopped. The audit log keeps that you made it.'],
    fields: [
      { name: 'name', label: 'Name', kind: 'text', value: '', required: true, maxLength: 64, placeholder: 'laptop', hint: 'Letters, digits, - and _.' },
      { name: 'role', label: 'Role', kind: 'choice', value: 'user', choices: ['viewer', 'user', 'operator', 'admin', 'scraper'].map((r) => ({ value: r, label: r })) },
      { name: 'as', label: 'As the user', kind: 'text', value: '', maxLength: 64, hint: 'Bound to a user of the machine, it can run jobs as that user; your own name makes it yours. Empty: it is nobody.' },
      { name: 'days', label: 'For', kind: 'number', value: '90', unit: 'days', min: 0.01, max: 3650, hint: 'Empty: until somebody revokes it.' },
    ],
    run: async (v) => {
      const made = await call<NewToken>('/api/tokens', { method: 'POST', body: { name: v.name!.trim(), role: v.role || 'user', as: v.as?.trim() || undefined, ttl_seconds: v.days ? Math.round(Number(v.days) * 86_400) : undefined } });
      return { text: `The token ${made.name} is made. Copy its secret now: nobody can see it again.`, ...(made.token ? { secret: made.token } : {}) };
    },
  };
}

// revoke ends a token.
export function revoke(t: Token): Act {
  return {
    key: 'revoke-token', label: 'Revoke', title: `Revoke the token ${t.name}?`, confirm: 'Revoke', ends: true,
    says: [
      `The daemon then refuses the token ${t.name}${t.as ? ` of ${t.as}` : ''}, at once and for good. Sessions, streams and waiting requests that began with it end.`,
      'Its leases stand until they are released or expire, and no program is stopped.',
    ],
    run: async () => {
      await call(path('api', 'tokens', t.name), { method: 'DELETE' });
      return { text: `The token ${t.name} is revoked.` };
    },
  };
}
