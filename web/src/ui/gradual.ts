import { useEffect, useLayoutEffect, useState } from 'preact/hooks';

// useGradual returns how many of count things to show: a few at once, and a few more
// with every frame, so that a long list never blocks the page.
export function useGradual(count: number, first: number, step: number): number {
  const [shown, setShown] = useState(first);
  useLayoutEffect(() => { // an effect would run after the next frame, and lose it
    if (shown >= count) return;
    const frame = requestAnimationFrame(() => setShown((n) => n + step));
    return () => cancelAnimationFrame(frame);
  }, [shown, count, step]);
  return Math.min(shown, count);
}

// useLater returns a value as it was, and takes on a new one some frames later, so that
// many parts of the page that follow the same value do not all change at once.
export function useLater<T>(value: T, frames: number): T {
  const [taken, setTaken] = useState(value);
  useEffect(() => {
    if (taken === value) return;
    let left = frames;
    let frame = requestAnimationFrame(function next() {
      if (left-- > 0) frame = requestAnimationFrame(next);
      else setTaken(value);
    });
    return () => cancelAnimationFrame(frame);
  }, [value, taken, frames]);
  return taken;
}
