import type { ComponentChildren } from 'preact';

// Facts lists what is known about a thing, each with its name.
export function Facts({ children }: { children: ComponentChildren }) {
  return <dl class="facts">{children}</dl>;
}

// Fact is one of them. It is left out where nothing is known.
export function Fact({ name, children, wide }: { name: string; children: ComponentChildren; wide?: boolean }) {
  if (children === undefined || children === null || children === false || children === '') return null;
  return (
    <div class={wide ? 'fact wide' : 'fact'}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
