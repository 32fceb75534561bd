import type { ComponentChildren } from 'preact';
import type { DeviceState } from '../api/types';

// Tone is what a colour means, everywhere on the page.
export type Tone = 'good' | 'calm' | 'warn' | 'bad' | 'off' | 'info';

const stateTone: Record<DeviceState, Tone> = {
  OPTIMAL: 'good',
  NORMAL: 'calm',
  THROTTLED: 'warn',
  CRITICAL: 'bad',
  UNAVAILABLE: 'off',
};

// Badge shows one word with a mark whose shape says the same as its colour.
export function Badge({ tone, title, children }: { tone: Tone; title?: string; children: ComponentChildren }) {
  return <span class={`badge tone-${tone}`} title={title}>{children}</span>;
}

export function StateBadge({ state, title }: { state: DeviceState; title?: string }) {
  return <Badge tone={stateTone[state] ?? 'off'} title={title}>{state}</Badge>;
}
