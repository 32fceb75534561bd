import { signal } from '@preact/signals';

// narrow says whether the screen is that of a phone. The style sheets have the same
// width for what needs no other elements.
export const narrow = signal(false);

export function beginNarrow(): void {
  const it = matchMedia('(max-width: 640px)');
  const read = () => (narrow.value = it.matches);
  it.addEventListener('change', read);
  read();
}
