import { leases, leasesKnown } from '../live/state';
import { to } from '../router';
import { Badge } from '../ui/badge';
import { memory, plural } from '../ui/format';
import { usedOf } from './berths';
import { fits } from './filter';
import { leastUsed, people } from './people';

const few = 5;

// Who lists the users: what they hold of all devices, and how much of it they use.
export function Who({ filter }: { filter: string }) {
  const list = people(leases.value.filter((l) => fits(l, filter)));
  const worst = leastUsed(list);
  const most = list[0]?.holds ?? 0;
  // Who uses least is shown even if others hold more.
  const shown = list.slice(0, few);
  if (worst !== undefined && !shown.includes(worst)) shown.splice(few - 1, 1, worst);
  return (
    <section class="panel" aria-labelledby="who">
      <header class="panel-head">
        <h2 id="who">Who</h2>
        <span class="quiet">uses of what they hold</span>
        <a href={to.page('users')}>All users</a>
      </header>
      {list.length === 0 ? <p class="empty">{leasesKnown.value ? <>Nobody holds anything. <code>berth exec -- COMMAND</code> takes a lease while it runs.</> : 'Asking…'}</p> : (
        <ul class="people">
          {shown.map((p) => (
            <li key={p.user} class="someone" title={`${p.user || 'Others'}: ${plural(p.leases, 'lease')}, ${memory(p.holds)} held, ${memory(p.uses)} used`}>
              <b class="someone-name">{p.user || 'others'}</b>
              <span class="someone-bar" aria-hidden="true"><i class="held" style={{ width: `${most <= 0 ? 0 : (p.holds * 100) / most}%` }}><i style={{ width: `${p.holds <= 0 ? 0 : Math.min(100, (p.uses * 100) / p.holds)}%` }} /></i></span>
              <span class="someone-use">{usedOf(p.uses, p.holds)}</span>
              <span class="someone-tags">
                {p === list[0] && list.length > 1 && p.holds > 0 && <Badge tone="info">holds most</Badge>}
                {p === worst && <Badge tone="warn" title={`${memory(p.holds - p.uses)} of it are not used`}>uses least</Badge>}
              </span>
            </li>
          ))}
        </ul>
      )}
      {list.length > shown.length && <p class="quiet">{plural(list.length - shown.length, 'more user')} with {memory(list.filter((p) => !shown.includes(p)).reduce((n, p) => n + p.holds, 0))}</p>}
    </section>
  );
}

