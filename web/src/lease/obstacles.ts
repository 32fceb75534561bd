import type { Explanation, HolderUntil } from '../api/types';

// Blocked is what is in the way of a request on one device.
export interface Blocked {
  gpu: string;
  texts: string[];
  holders: HolderUntil[];
}

// obstacles puts together what an explanation says about each device.
export function obstacles(e: Explanation): Blocked[] {
  const found = new Map<string, Blocked>();
  for (const o of e.devices) {
    const it = found.get(o.gpu) ?? { gpu: o.gpu, texts: [], holders: [] };
    found.set(o.gpu, it);
    if (!it.texts.includes(o.text)) it.texts.push(o.text);
    for (const h of o.holders ?? []) {
      if (!it.holders.some((x) => x.lease === h.lease && x.holder.user === h.holder.user)) it.holders.push(h);
    }
  }
  return [...found.values()];
}
