import type { Holder, Role, Settings, Whoami } from '../api/types';

const order: readonly Role[] = ['stranger', 'scraper', 'viewer', 'user', 'operator', 'admin'];

// atLeast reports whether a caller has a role, or a greater one.
export function atLeast(me: Whoami | undefined, role: Role): boolean {
  return me !== undefined && order.indexOf(me.role) >= order.indexOf(role);
}

// owns reports whether a lease is the caller's. The daemon compares user ids, and
// names only where there is none; so does the page.
export function owns(me: Whoami | undefined, holder: Holder): boolean {
  if (me === undefined) return false;
  if (me.uid !== undefined && holder.uid !== undefined) return me.uid === holder.uid;
  if (me.uid === undefined && holder.uid === undefined) return me.user !== '' && me.user !== 'unknown' && me.user === holder.user;
  return false;
}

// mayChange reports whether a caller may change a lease: its owner from the role
// user on, others from the role operator on. The daemon decides; the page only
// leaves out what it would refuse.
export function mayChange(me: Whoami | undefined, holder: Holder): boolean {
  return atLeast(me, 'operator') || (atLeast(me, 'user') && owns(me, holder));
}

// mayOperate reports whether a caller may drain and check devices, set priorities
// and acknowledge alerts.
export function mayOperate(me: Whoami | undefined): boolean {
  return atLeast(me, 'operator');
}

// ownsName reports whether a thing is the caller's of which only the name of the user is
// known. A name with a colon is that of a token or a certificate.
export function ownsName(me: Whoami | undefined, user: string | undefined): boolean {
  return me !== undefined && user !== undefined && user === me.user && (me.uid !== undefined || user.includes(':'));
}

// cannotRun says why berth runs no jobs for a caller, and what to do; empty: it does. The
// daemon runs them for users whom the kernel or an administrator has named.
export function cannotRun(me: Whoami | undefined, settings: Settings | undefined): string {
  if (me === undefined) return 'The daemon has not said who you are yet.';
  if (settings?.jobs === 'off') return 'This daemon runs no jobs: jobs is off in its configuration. berth exec runs a program itself.';
  if (!atLeast(me, 'user')) return `To run jobs, you need the role user, and you have the role ${me.role}. Sign in: berth open on the machine gives a link.`;
  const bound = me.token ?? me.session?.token;
  if (bound !== undefined) return me.uid === undefined ? 'You are here by a token that is bound to no user, so berth does not know as whom to run a job. An administrator can bind one: berth token create NAME --role user --as USER.' : '';
  if (me.session === undefined && me.door === 'tcp') return 'To run jobs from the page, sign in: berth open on the machine gives a link. Or use berth submit in a terminal there.';
  if (me.uid === 0) return 'Jobs of root do not start from the page: use berth submit in a terminal, or sign in as yourself.';
  return '';
}
