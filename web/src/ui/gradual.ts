import { useEffect, useState } from 'preact/hooks';

// useGradual returns how many of count things to show: a few at once, and a few more
// with every frame, so that a long list never blocks the page.
export function useGradual(count: number, first: number, step: number): number {
  const [shown, setShown] = useState(first);
  useEffect(() => {
    if (shown >= count) return;
    const frame = requestAnimationFrame(() => setShown((n) => n + step));
    return () => cancelAnimationFrame(frame);
  }, [shown, count, step]);
  return Math.min(shown, count);
}
