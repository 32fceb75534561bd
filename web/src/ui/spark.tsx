import { effect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { Curve } from '../live/history';
import { drawnOf } from '../live/state';
import { marked, pointed, shownOf, stretch } from '../live/stretch';
import { dark } from '../live/theme';
import { forget, visible } from './visible';

export interface Mark {
  at: number;
  tone: 'warn' | 'bad' | 'quiet';
}

interface Ink {
  curve: string;
  wash: string;
  warn: string;
  bad: string;
  quiet: string;
}

const inks = new Map<string, Ink>();
let inked = false; // which colours inks has

function ink(tone: string): Ink {
  if (inked !== dark.peek()) inks.clear();
  inked = dark.peek();
  let it = inks.get(tone);
  if (it === undefined) {
    const style = getComputedStyle(document.documentElement);
    const read = (name: string) => style.getPropertyValue(name).trim();
    const curve = read(`--curve-${tone}`);
    it = { curve, wash: `${curve}26`, warn: read('--warn'), bad: read('--bad'), quiet: read('--rule-strong') };
    inks.set(tone, it);
  }
  return it;
}

const sizes = new Map<Element, (width: number, height: number) => void>();
let observer: ResizeObserver | undefined;

// sized tells how large an element is, now and when that changes. One observer for all
// tells it without another layout of the page.
function sized(element: Element, tell: (width: number, height: number) => void): () => void {
  observer ??= new ResizeObserver((entries) => {
    for (const e of entries) sizes.get(e.target)?.(e.contentRect.width, e.contentRect.height);
  });
  sizes.set(element, tell);
  observer.observe(element);
  return () => {
    sizes.delete(element);
    observer?.unobserve(element);
  };
}

// Spark draws one figure of a device over the stretch of time that the page shows,
// small, without axes. Marking a part of it with the mouse calls onZoom, with seconds.
export function Spark({ uuid, curve, tone, top, bottom = 0, marks, onZoom }: {
  uuid: string;
  curve: Curve;
  tone: 'load' | 'heat' | 'power' | 'memory';
  top: number;
  bottom?: number;
  marks?: Mark[];
  onZoom?: (from: number, to: number) => void;
}) {
  const box = useRef<HTMLCanvasElement>(null);
  const latest = useRef({ top, bottom, marks });
  latest.current = { top, bottom, marks };

  useEffect(() => {
    const canvas = box.current;
    if (canvas === null) return;
    let width = 0;
    let height = 0;
    const draw = () => {
      if (width > 0) paint(canvas, width, height, uuid, curve, ink(tone), latest.current);
    };
    const measured = sized(canvas, (w, h) => {
      if (w === width && h === height) return;
      width = w;
      height = h;
      canvas.width = Math.round(w * devicePixelRatio);
      canvas.height = Math.round(h * devicePixelRatio);
      draw();
    });
    let cancel = () => {};
    const stop = effect(() => {
      if (stretch.value === undefined) drawnOf(uuid).value;
      pointed.value;
      marked.value;
      dark.value;
      cancel();
      cancel = visible(canvas, draw);
    });
    return () => {
      stop();
      cancel();
      forget(canvas);
      measured();
    };
  }, [uuid, curve, tone]);

  const share = (e: PointerEvent & { currentTarget: HTMLCanvasElement }) => {
    const at = e.currentTarget.getBoundingClientRect();
    return Math.min(1, Math.max(0, (e.clientX - at.left) / at.width));
  };
  const began = useRef<number | undefined>(undefined);
  const end = () => {
    const part = marked.peek();
    const it = shownOf(uuid);
    began.current = undefined;
    marked.value = undefined;
    if (part === undefined || it === undefined || part.to - part.from < 0.04) return;
    onZoom?.(it.from + part.from * (it.to - it.from), it.from + part.to * (it.to - it.from));
  };
  return (
    <canvas
      ref={box}
      class="spark"
      aria-hidden="true"
      onPointerDown={(e) => {
        if (onZoom === undefined || e.pointerType !== 'mouse' || e.button !== 0) return;
        e.currentTarget.setPointerCapture(e.pointerId);
        began.current = share(e);
      }}
      onPointerMove={(e) => {
        const at = share(e);
        pointed.value = at;
        if (began.current !== undefined) marked.value = { from: Math.min(at, began.current), to: Math.max(at, began.current) };
      }}
      onPointerUp={end}
      onPointerCancel={end}
      onPointerLeave={() => {
        pointed.value = undefined;
      }}
    />
  );
}

function paint(canvas: HTMLCanvasElement, width: number, height: number, uuid: string, curve: Curve, colours: Ink,
  { top, bottom, marks }: { top: number; bottom: number; marks: Mark[] | undefined }): void {
  const c = canvas.getContext('2d');
  if (c === null) return;
  const it = shownOf(uuid);
  c.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  c.clearRect(0, 0, width, height);
  const y = (v: number) => height - 1 - ((Math.min(Math.max(v, bottom), top) - bottom) / (top - bottom)) * (height - 3);
  c.lineWidth = 1;
  // A threshold is a line with a wash up to the next one.
  for (const [i, mark] of (marks ?? []).entries()) {
    if (mark.at <= bottom || mark.at > top) continue;
    const at = Math.round(y(mark.at));
    c.fillStyle = colours[mark.tone];
    if (mark.tone !== 'quiet') {
      const above = marks![i + 1] === undefined ? 0 : Math.round(y(marks![i + 1]!.at));
      c.globalAlpha = 0.14;
      c.fillRect(0, above, width, at - above);
    }
    c.globalAlpha = 0.7;
    c.fillRect(0, at, width, 1);
  }
  c.globalAlpha = 1;
  if (it === undefined) return;
  const times = it.history.times;
  const values = it.history[curve];
  const scale = width / (it.to - it.from);
  const x = (i: number) => (times[i]! - it.from) * scale;
  let first = times.length - 1;
  while (first > 0 && times[first - 1]! >= it.from) first--;
  let last = times.length;
  while (last > first && times[last - 1]! > it.to) last--;
  const stride = Math.max(1, Math.floor((last - first) / width)); // more points than pixels say nothing more
  c.strokeStyle = colours.curve;
  c.fillStyle = colours.wash;
  c.lineWidth = 1.25;
  c.lineJoin = 'round';
  // One path for each stretch without a gap: a missing value, or too long a time
  // without a sample.
  for (let i = first; i >= 0 && i < last; ) {
    if (Number.isNaN(values[i]!)) {
      i++;
      continue;
    }
    const from = i;
    let drawn = i;
    c.beginPath();
    c.moveTo(x(i), y(values[i]!));
    for (i++; i < last && !Number.isNaN(values[i]!) && times[i]! - times[i - 1]! < it.gap; i++) {
      if (i - drawn < stride && i < last - 1) continue;
      c.lineTo(x(i), y(values[i]!));
      drawn = i;
    }
    c.stroke();
    c.lineTo(x(drawn), height);
    c.lineTo(x(from), height);
    c.fill();
  }
  const part = marked.peek();
  if (part !== undefined) {
    c.fillStyle = colours.quiet;
    c.globalAlpha = 0.4;
    c.fillRect(part.from * width, 0, (part.to - part.from) * width, height);
    c.globalAlpha = 1;
  }
  const point = pointed.peek();
  if (point !== undefined) {
    c.strokeStyle = colours.quiet;
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(Math.round(point * width) + 0.5, 0);
    c.lineTo(Math.round(point * width) + 0.5, height);
    c.stroke();
  }
}
