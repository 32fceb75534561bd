import { sparkSpan } from '../live/history';
import { leasesAsked, machine, uuids } from '../live/state';
import { Card } from '../overview/card';
import { Latest } from '../overview/latest';
import { Queue } from '../overview/queue';
import { Summary } from '../overview/summary';
import { place, setParams } from '../router';
import { useGradual, useLater } from '../ui/gradual';
import { duration } from '../ui/format';

// Overview answers on one screen: which GPUs, how hot, how full, who holds what, who
// waits and why, what just happened.
export function Overview() {
  const filter = place.value.params.get('text') ?? '';
  const late = useLater(filter, 1);
  const list = uuids.value;
  // A card is drawn once with its leases, not twice: first without and then with them.
  // The queue and the events come first, then a card with every frame.
  const shown = useGradual(leasesAsked.value ? list.length + 2 : 0, 0, 1);
  if (machine.value === undefined) return <div class="loading" />;
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <Summary />
      <div class="overview">
        <section class="devices" aria-labelledby="devices">
          <header class="panel-head">
            <h2 id="devices">GPUs</h2>
            <span class="quiet not-phone">the last {duration(sparkSpan)}; heat with temp_throttle and temp_critical</span>
            <input
              type="search"
              aria-label="Filter leases and requests"
              placeholder="Filter leases  /"
              value={filter}
              onInput={(e) => setParams({ text: e.currentTarget.value })}
            />
          </header>
          {list.length === 0
            ? <p class="empty">{machine.value.note || 'This machine has no GPU that berth knows.'}</p>
            : <div class={`cards ${list.length > 8 ? 'many' : ''}`}>{list.slice(0, Math.max(0, shown - 2)).map((uuid, i) => <LaterCard key={uuid} uuid={uuid} filter={filter} index={i} />)}</div>}
        </section>
        <div class="aside">
          {shown > 0 && <Queue filter={late} />}
          {shown > 1 && <Latest />}
        </div>
      </div>
    </>
  );
}

// LaterCard takes on a new filter after the cards before it have.
function LaterCard({ uuid, filter, index }: { uuid: string; filter: string; index: number }) {
  return <Card uuid={uuid} filter={useLater(filter, 2 + index)} />;
}
