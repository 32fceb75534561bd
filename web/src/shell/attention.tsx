import { computed } from '@preact/signals';
import { useState } from 'preact/hooks';
import { attention, type Item } from '../live/attention';
import { equal } from '../live/share';
import { answeredAt, freshness, minute, needs } from '../live/state';
import { signInProblem } from '../live/session';
import { to } from '../router';

// items is what needs a person now. It is the same list until something changes.
let before: Item[] = [];
export const items = computed(() => {
  const lost = freshness.value === 'gone' || freshness.value === 'stale';
  const found = attention({
    freshness: freshness.value,
    answeredAt: lost ? answeredAt.peek() : undefined,
    needs: needs.value,
    now: minute.value,
  });
  if (equal(found.map(shown), before.map(shown))) return before;
  return (before = found);
});

function shown(item: Item): string {
  return `${item.key} ${item.what} ${item.text}`;
}

const most = 4;

// Attention says what needs a person. well: say so too if nothing does.
export function Attention({ well }: { well?: boolean }) {
  const [all, setAll] = useState(false);
  const failed = signInProblem.value;
  const list: Item[] = failed === '' ? items.value : [{ key: 'sign-in', tone: 'warn', what: 'Not signed in', text: failed }, ...items.value];
  if (freshness.value === 'connecting') {
    return <div class="attention" role="status"><p class="attention-calm">Asking the daemon…</p></div>;
  }
  if (list.length === 0) {
    return <div class="attention" role="status">{well && <p class="attention-well"><span class="tick" aria-hidden="true" />All well</p>}</div>;
  }
  const some = all ? list : list.slice(0, most);
  return (
    <div class="attention" role="alert">
      <ul>
        {some.map((item) => (
          <li key={item.key} class={`attention-item tone-${item.tone}`}>
            <strong>{item.what}</strong>
            <span>{item.to === undefined ? item.text : <a href={href(item.to)}>{item.text}</a>}</span>
          </li>
        ))}
      </ul>
      {list.length > most && (
        <button type="button" class="plain" onClick={() => setAll(!all)}>{all ? 'Show fewer' : `${list.length - most} more`}</button>
      )}
    </div>
  );
}

function href(target: NonNullable<Item['to']>): string {
  if ('gpu' in target) return to.gpu(target.gpu);
  if ('lease' in target) return to.lease(target.user, target.lease);
  return to.page(target.page);
}
