import { useEffect, useRef, useState } from 'preact/hooks';
import { address, refusal } from '../api/client';

const mostChars = 400_000; // that the page keeps
const asked = 500; // lines

// clean leaves out what a terminal would take for orders, and of a line that was written
// over what it said before.
export function clean(text: string): string {
  return text
    .replace(/\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]/g, '')
    .replace(/\r\n/g, '\n')
    .replace(/[^\n]*\r(?=[^\n])/g, '')
    .replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g, '\ufffd');
}

// Log shows the end of a log, and with live what comes to it.
export function Log({ where, live, label }: { where: string; live: boolean; label: string }) {
  const [text, setText] = useState<string | undefined>(undefined);
  const [problem, setProblem] = useState('');
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async () => {
      let all = '';
      let frame = 0;
      const show = () => {
        frame = 0;
        setText(clean(all));
      };
      try {
        const answer = await fetch(address(where, { lines: asked, follow: live || undefined }), { credentials: 'same-origin', cache: 'no-store', redirect: 'error', signal: stop.signal });
        if (!answer.ok || answer.body === null) {
          setProblem(refusal(answer.status, await answer.text()).message);
          if (live && answer.status >= 429 && !stop.signal.aborted) timer = setTimeout(() => void read(), 5000);
          return;
        }
        setProblem('');
        setText((t) => t ?? '');
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          all += value;
          if (all.length > mostChars) all = all.slice(all.indexOf('\n', all.length - mostChars / 2) + 1);
          if (frame === 0) frame = requestAnimationFrame(show);
        }
        show();
      } catch {
        if (stop.signal.aborted) return;
        if (!live) setProblem('The log could not be read.');
      }
      if (live && !stop.signal.aborted) timer = setTimeout(() => void read(), 3000); // the daemon was replaced, or the task has ended
    };
    timer = setTimeout(() => void read(), 150); // somebody may be on the way to the next row
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [where, live]);
  useEffect(() => {
    const it = box.current;
    if (it && atEnd.current) it.scrollTop = it.scrollHeight;
  }, [text]);
  if (problem !== '' && (text ?? '') === '') return <p class="quiet">{problem}</p>;
  return (
    <pre
      class="log" role="log" aria-label={label} tabIndex={0} ref={box}
      onScroll={(e) => { atEnd.current = e.currentTarget.scrollTop + e.currentTarget.clientHeight >= e.currentTarget.scrollHeight - 8; }}
    >
      {text === undefined ? 'Asking for the log …' : text === '' ? 'Nothing was written yet.' : text}
    </pre>
  );
}
