import { sparkSpan } from '../live/history';
import { leasesAsked, machine, uuids } from '../live/state';
import { Card } from '../overview/card';
import { Latest } from '../overview/latest';
import { Queue } from '../overview/queue';
import { Summary } from '../overview/summary';
import { place, setParams } from '../router';
import { useGradual } from '../ui/gradual';
import { duration } from '../ui/format';

// Overview answers on one screen: which GPUs, how hot, how full, who holds what, who
// waits and why, what just happened.
export function Overview() {
  const filter = place.value.params.get('text') ?? '';
  const list = uuids.value;
  // A card is drawn once with its leases, not twice: first without and then with them.
  const shown = useGradual(leasesAsked.value ? list.length : 0, 0, 1);
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
            : <div class={`cards ${list.length > 8 ? 'many' : ''}`}>{list.slice(0, shown).map((uuid) => <Card key={uuid} uuid={uuid} filter={filter} />)}</div>}
        </section>
        <div class="aside">
          <Queue filter={filter} />
          <Latest />
        </div>
      </div>
    </>
  );
}
