import { choose, theme, themes, type Theme } from '../live/theme';

const words: Record<Theme, string> = { system: 'as the system', light: 'light', dark: 'dark' };

// ThemeSwitch goes from the colours of the system to light, to dark, and back.
export function ThemeSwitch() {
  const now = theme.value;
  const next = themes[(themes.indexOf(now) + 1) % themes.length]!;
  const text = `Colours: ${words[now]}. Press for ${words[next]}.`;
  return (
    <button type="button" class="plain round" aria-label={text} title={text} data-theme-now={now} onClick={() => choose(next)}>
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
        <circle cx="8" cy="8" r="5.25" fill={now === 'dark' ? 'currentcolor' : 'none'} stroke="currentcolor" stroke-width="1.5" />
        {now === 'system' && <path d="M8 2.75a5.25 5.25 0 0 1 0 10.5z" fill="currentcolor" />}
      </svg>
    </button>
  );
}
