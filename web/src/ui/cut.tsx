const tail = 7;

// Cut shows a name that is cut in its middle where there is no room for all of it, so
// that names with equal beginnings are told apart. What stands after it is cut at its end.
export function Cut({ text, after }: { text: string; after?: string }) {
  const letters = [...text];
  const short = letters.length <= tail + 3;
  if (short && !after) return <span class="cut-short">{text}</span>;
  return (
    <span class="cut">
      <span class="cut-head">{short ? text : letters.slice(0, -tail).join('')}</span>
      {!short && <span class="cut-tail">{letters.slice(-tail).join('')}</span>}
      {after && <span class="quiet cut-after">{after}</span>}
    </span>
  );
}
