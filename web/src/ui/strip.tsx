import type { Piece } from '../history/strip';
import { shares } from '../history/strip';
import { clock } from './format';

// Strip shows what held when as coloured pieces, below curves with the same times.
export function Strip({ name, pieces, from, to, tone, label }: {
  name: string;
  pieces: Piece[];
  from: number; // seconds
  to: number;
  tone: (word: string) => string;
  label?: (word: string) => string;
}) {
  const span = Math.max(1, to - from);
  const said = label ?? ((word: string) => word);
  const words = shares(pieces).map((s) => `${said(s.word)} ${s.share > 0.995 ? 'all the time' : `${Math.max(1, Math.round(s.share * 100))} % of the time`}`);
  return (
    <div class="strip">
      <span class="strip-name">{name}</span>
      <svg class="strip-line" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label={`${name}: ${words.join(', ') || 'nothing known'}.`}>
        {pieces.map((p) => {
          const x = Math.max(0, ((p.from - from) / span) * 1000);
          const end = Math.min(1000, ((p.to - from) / span) * 1000);
          return end <= x ? null : (
            <rect key={`${p.word}${p.from}`} class={`fill-${tone(p.word)}`} x={x} y={0} width={Math.max(end - x, 1.5)} height={10}>
              <title>{`${said(p.word)}, ${clock(p.from * 1000)} to ${clock(p.to * 1000)}`}</title>
            </rect>
          );
        })}
      </svg>
    </div>
  );
}
