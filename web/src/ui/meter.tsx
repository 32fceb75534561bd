// Meter shows how much of something there is, as a bar. The text says the same.
export function Meter({ label, value, most, tone, marks, text }: {
  label: string;
  value: number | undefined;
  most: number | undefined;
  tone: string; // good, warn, bad, calm, or the name of a curve
  marks?: number[];
  text: string;
}) {
  if (value === undefined || most === undefined || most <= 0) return <div class="meter empty-meter" aria-hidden="true" />;
  const share = Math.min(1, Math.max(0, value / most));
  return (
    <div class="meter" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={Math.round(most)} aria-valuenow={Math.min(Math.round(value), Math.round(most))} aria-valuetext={text}>
      <span class={`meter-fill fill-${tone}`} style={{ width: `${share * 100}%` }} />
      {(marks ?? []).map((m) => <span key={m} class="meter-mark" style={{ left: `${Math.min(100, (m / most) * 100)}%` }} />)}
    </div>
  );
}
