import { signal } from '@preact/signals';
import { keep, kept } from '../ui/kept';

// Theme is which colours a person chose.
export type Theme = 'system' | 'light' | 'dark';
export const themes: readonly Theme[] = ['system', 'light', 'dark'];

export const theme = signal<Theme>('system');

// dark says which colours the page has now. What is drawn by hand is drawn again when
// it changes; the style sheet has them by then.
export const dark = signal(false);

// read makes a theme of a text: anything else follows the system.
export function read(text: string): Theme {
  return themes.find((t) => t === text) ?? 'system';
}

function apply(): void {
  const is = theme.peek() === 'system' ? matchMedia('(prefers-color-scheme: dark)').matches : theme.peek() === 'dark';
  document.documentElement.dataset.theme = is ? 'dark' : 'light';
  dark.value = is;
}

// beginTheme gives the page its colours, and follows the system.
export function beginTheme(): void {
  theme.value = read(kept('theme'));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
  apply();
}

export function choose(it: Theme): void {
  theme.value = it;
  keep('theme', it);
  apply();
}
