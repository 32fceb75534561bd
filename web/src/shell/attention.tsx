import { computed, useComputed } from '@preact/signals';
import { useState } from 'preact/hooks';
import { attention, type Item } from '../live/attention';
import { equal } from '../live/share';
import { answeredAt, freshness, minute, needs, now, waiting } from '../live/state';
import { signInProblem } from '../live/session';
import { to } from '../router';
import { duration, plural } from '../ui/format';

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

// Attention says in one line what needs a person: the worst, and how many things there
// are. Pressing it opens the others. well: say so too if nothing does.
export function Attention({ well }: { well?: boolean }) {
  const [open, setOpen] = useState(false);
  const failed = signInProblem.value;
  const list: Item[] = failed === '' ? items.value : [{ key: 'sign-in', tone: 'warn', what: 'Not signed in', text: failed }, ...items.value];
  if (freshness.value === 'connecting') {
    return <div class="attention" role="status"><p class="attention-calm">Asking the daemon…</p></div>;
  }
  if (list.length === 0) {
    return <div class="attention" role="status">{well && <p class="attention-well"><span class="tick" aria-hidden="true" /><span>All well{waiting.value.length > 0 && <span class="quiet">, {plural(waiting.value.length, 'request')} {waiting.value.length === 1 ? 'waits' : 'wait'}</span>}</span></p>}</div>;
  }
  const worse = list.filter((i) => i.tone === 'bad').length;
  const others = list.length - 1;
  return (
    <div class={`attention tone-${list[0]!.tone}`} role="alert">
      <ul id="attention-list" class={open ? 'open' : undefined}>
        {(open ? list : list.slice(0, 1)).map((item) => (
          <li key={item.key} class={`attention-item tone-${item.tone}`}>
            <strong>{item.what}</strong>
            <span class="attention-text">{item.to === undefined ? item.text : <a href={href(item.to)}>{item.text}</a>}</span>
          </li>
        ))}
      </ul>
      {others > 0 && (
        <button type="button" class="plain attention-more" aria-expanded={open} aria-controls="attention-list" onClick={() => setOpen(!open)}>
          {open ? 'Only the worst' : `${others} more${worse > 1 ? `, ${plural(worse - 1, 'critical', 'critical')}` : ''}`}
        </button>
      )}
    </div>
  );
}

// Age says how old what the page shows is, while the daemon does not answer.
export function Age() {
  const old = useComputed(() => {
    now.value; // moves every second
    return answeredAt.value === undefined ? '' : duration((Date.now() - answeredAt.value) / 1000);
  });
  if (answeredAt.value === undefined) return null;
  return <p class="age" role="note">This is {old} old: the daemon does not answer.</p>;
}

function href(target: NonNullable<Item['to']>): string {
  if ('gpu' in target) return to.gpu(target.gpu);
  if ('lease' in target) return to.lease(target.user, target.lease);
  return to.page(target.page);
}
