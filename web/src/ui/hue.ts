import type { Holder } from '../api/types';

// hues is how many colours there are for holders of leases.
export const hues = 6;

const given = new Map<string, number>();

// hue returns the colour of a holder, from 1 on: the same for all leases of a
// service, or of a user without one. Holders get colours in the order in which the
// page meets them, so that few holders never share one.
export function hue(holder: Holder, known = given): number {
  const name = holder.service ? `s:${holder.service}` : `u:${holder.user ?? ''}`;
  let it = known.get(name);
  if (it === undefined) {
    it = (known.size % hues) + 1;
    known.set(name, it);
  }
  return it;
}
