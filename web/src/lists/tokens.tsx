import { Acts } from '../actions/dialog';
import { makeToken, mayEntrust, revoke } from '../actions/tokens';
import type { Token, Tokens } from '../api/schemas';
import { around } from '../live/around';
import { Fact, Facts } from '../ui/facts';
import { Ago } from '../ui/time';
import { iso, Peek, type Subject, useAsked, whole } from './subject';

export const tokens: Subject<Token> = {
  title: 'Tokens',
  one: 'token',
  id: (t) => t.name,
  useRows: () => useAsked((signal) => whole<Tokens, Token>('/api/tokens', (a) => a.tokens, { signal }), 10_000, (t) => t.name),
  fields: [
    { key: 'name', name: 'Token', value: (t) => t.name },
    { key: 'role', name: 'Role', width: 7, choose: true, phone: 'side', value: (t) => t.role },
    { key: 'as', name: 'As', width: 8, phone: 'below', value: (t) => t.as },
    { key: 'service', name: 'Service', width: 10, value: (t) => t.service },
    { key: 'created', name: 'Made', width: 8, numeric: true, value: (t) => iso(t.created), cell: (t) => (t.created ? <Ago at={t.created} /> : 'configuration') },
    { key: 'by', name: 'By', width: 8, value: (t) => t.by },
    { key: 'used', name: 'Last used', width: 8, numeric: true, phone: 'below', value: (t) => iso(t.used), cell: (t) => (t.used ? <Ago at={t.used} /> : 'never') },
    { key: 'expires', name: 'Expires', width: 8, numeric: true, value: (t) => iso(t.expires), cell: (t) => (t.expires ? <Ago at={t.expires} /> : 'never') },
  ],
  acts: (a) => [makeToken(a)],
  Detail: ({ id, row: t }) => (t === undefined ? <Peek title={id}><p class="empty">There is no such token.</p></Peek> : (
    <Peek title={t.name} acts={mayEntrust(around()) && t.created ? <Acts acts={[revoke(t)]} label={`What you can do with ${t.name}`} /> : undefined}>
      <Facts>
        <Fact name="Role">{t.role}</Fact>
        <Fact name="As the user">{t.as ?? `token:${t.name}`}</Fact>
        <Fact name="Service">{t.service}</Fact>
        <Fact name="Made">{t.created ? <Ago at={t.created} /> : 'in the configuration'}</Fact>
        <Fact name="By">{t.by}</Fact>
        <Fact name="Last used">{t.used ? <Ago at={t.used} /> : 'never'}</Fact>
        <Fact name="Expires">{t.expires ? <Ago at={t.expires} /> : 'never'}</Fact>
      </Facts>
    </Peek>
  )),
  empty: {
    title: 'No tokens',
    shows: 'A token lets a program, or a person at another machine, ask this daemon. Here is what each may do, who made it, when it was used last and when it ends.',
    first: 'berth token create grafana --role scraper',
    topic: 'access',
  },
};
