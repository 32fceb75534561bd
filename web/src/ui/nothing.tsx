// Nothing says what a list would show, and how the first of it comes.
export interface Nothing {
  title: string;
  shows: string;
  first: string; // a command, or lines of berth.yaml and the command after them
  topic: string; // of the manual
}

// Blank stands in the place of a list that is empty.
export function Blank({ of: { title, shows, first, topic } }: { of: Nothing }) {
  return (
    <div class="list-empty">
      <h2>{title}</h2>
      <p>{shows}</p>
      <pre class="command" tabIndex={0} aria-label="How the first one comes">{first}</pre>
      <p class="quiet">More in <a href={`help/${topic}`}>the manual</a>.</p>
    </div>
  );
}
