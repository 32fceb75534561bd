const tail = 7;

// Cut shows a name that is cut in its middle where there is no room for all of it, so
// that names with equal beginnings are told apart.
export function Cut({ text }: { text: string }) {
  const letters = [...text];
  if (letters.length <= tail + 3) return <span class="cut-short">{text}</span>;
  return (
    <span class="cut">
      <span class="cut-head">{letters.slice(0, -tail).join('')}</span>
      <span class="cut-tail">{letters.slice(-tail).join('')}</span>
    </span>
  );
}
