import type { Holder, Role, Whoami } from '../api/types';

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
