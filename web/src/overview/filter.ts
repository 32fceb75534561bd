import type { Holder } from '../api/types';

// fits reports whether a lease or a request has a text in its id or its holder. An
// empty text fits everything.
export function fits(it: { id: string; holder: Holder }, text: string): boolean {
  if (text === '') return true;
  const wanted = text.toLowerCase();
  return [it.id, it.holder.user, it.holder.service, it.holder.name].some((part) => part?.toLowerCase().includes(wanted));
}
