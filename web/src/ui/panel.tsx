import type { ComponentChildren } from 'preact';

// Panel is a part of a page with a heading.
export function Panel({ title, note, aside, children, id }: {
  title: string;
  note?: ComponentChildren; // beside the heading, in quiet letters
  aside?: ComponentChildren; // buttons
  children: ComponentChildren;
  id?: string;
}) {
  return (
    <section class="panel" id={id}>
      <header class="panel-head">
        <h2>{title}</h2>
        {note && <p class="quiet">{note}</p>}
        {aside}
      </header>
      {children}
    </section>
  );
}
