import { useEffect, useState } from 'preact/hooks';
import { equal } from './share';

// Polled is the newest answer to a question that is asked again and again. After a
// refusal it keeps the last answer, and says why there is no newer one.
export interface Polled<T> {
  data: T | undefined;
  error: Error | undefined;
}

// usePolled asks while the page is open and somebody looks at it. The question is
// asked anew when one of the keys changes.
export function usePolled<T>(ask: (signal: AbortSignal) => Promise<T>, ms: number, keys: unknown[]): Polled<T> {
  const [state, setState] = useState<Polled<T>>({ data: undefined, error: undefined });
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const round = async () => {
      clearTimeout(timer);
      try {
        const data = await ask(stop.signal);
        if (!stop.signal.aborted) setState((s) => (s.error === undefined && equal(s.data, data) ? s : { data, error: undefined }));
      } catch (err) {
        if (stop.signal.aborted) return;
        setState((s) => ({ data: s.data, error: err instanceof Error ? err : new Error(String(err)) }));
      }
      if (!stop.signal.aborted && !document.hidden) timer = setTimeout(() => void round(), ms);
    };
    const seen = () => {
      if (!document.hidden) void round();
    };
    document.addEventListener('visibilitychange', seen);
    void round();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }, keys);
  return state;
}
