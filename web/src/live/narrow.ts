import { signal } from '@preact/signals';

// narrow says whether the screen is that of a phone. The style sheets have the same
// width for what needs no other elements.
export const narrow = signal(false);

// screen is how large the window is, in pixels.
export const screen = signal({ width: 1400, height: 900 });

export function beginNarrow(): void {
  const measure = () => (screen.value = { width: innerWidth, height: innerHeight });
  addEventListener('resize', measure);
  measure();
  const it = matchMedia('(max-width: 640px)');
  const read = () => (narrow.value = it.matches);
  it.addEventListener('change', read);
  read();
}
