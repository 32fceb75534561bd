import { effect, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { type Curve, sparkSpan } from '../live/history';
import { drawnOf, historyOf } from '../live/state';
import { forget, visible } from './visible';

export interface Mark {
  at: number;
  tone: 'warn' | 'bad' | 'quiet';
}

// pointed is how many seconds before the newest sample somebody points at, on any
// of the curves; undefined: nobody points. All curves show the same moment.
export const pointed = signal<number | undefined>(undefined);

interface Ink {
  curve: string;
  wash: string;
  warn: string;
  bad: string;
  quiet: string;
}

const inks = new Map<string, Ink>();
if (typeof matchMedia === 'function') {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    inks.clear();
    for (const draw of redraw) draw();
  });
}
const redraw = new Set<() => void>();

function ink(tone: string): Ink {
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

// Spark draws the last minutes of one figure of a device, small, without axes. All
// sparks of the page have the same time axis.
export function Spark({ uuid, curve, tone, top, bottom = 0, marks }: {
  uuid: string;
  curve: Curve;
  tone: 'load' | 'heat' | 'power' | 'memory';
  top: number;
  bottom?: number;
  marks?: Mark[];
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
    const resize = new ResizeObserver(() => {
      const w = canvas.clientWidth;
      const h = canvas.clientHeight;
      if (w === width && h === height) return;
      width = w;
      height = h;
      canvas.width = Math.round(w * devicePixelRatio);
      canvas.height = Math.round(h * devicePixelRatio);
      draw();
    });
    resize.observe(canvas);
    redraw.add(draw);
    let cancel = () => {};
    const stop = effect(() => {
      drawnOf(uuid).value;
      pointed.value;
      cancel();
      cancel = visible(canvas, draw);
    });
    return () => {
      stop();
      cancel();
      forget(canvas);
      redraw.delete(draw);
      resize.disconnect();
    };
  }, [uuid, curve, tone]);

  return (
    <canvas
      ref={box}
      class="spark"
      aria-hidden="true"
      onPointerMove={(e) => {
        const at = e.currentTarget.getBoundingClientRect();
        pointed.value = Math.max(0, Math.round((1 - (e.clientX - at.left) / at.width) * sparkSpan));
      }}
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
  const h = historyOf(uuid);
  const times = h.times;
  const values = h[curve];
  c.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  c.clearRect(0, 0, width, height);
  const end = times[times.length - 1];
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
  if (end === undefined) return;
  const scale = width / sparkSpan;
  let first = times.length - 1;
  while (first > 0 && times[first - 1]! >= end - sparkSpan) first--;
  c.strokeStyle = colours.curve;
  c.fillStyle = colours.wash;
  c.lineWidth = 1.25;
  c.lineJoin = 'round';
  // One path for each stretch without a gap. A gap is a missing value, or ten
  // seconds without a sample.
  for (let i = first; i < times.length; ) {
    if (Number.isNaN(values[i]!)) {
      i++;
      continue;
    }
    const from = i;
    c.beginPath();
    c.moveTo((times[i]! - end + sparkSpan) * scale, y(values[i]!));
    for (i++; i < times.length && !Number.isNaN(values[i]!) && times[i]! - times[i - 1]! < 10; i++) {
      c.lineTo((times[i]! - end + sparkSpan) * scale, y(values[i]!));
    }
    c.stroke();
    c.lineTo((times[i - 1]! - end + sparkSpan) * scale, height);
    c.lineTo((times[from]! - end + sparkSpan) * scale, height);
    c.fill();
  }
  const point = pointed.peek();
  if (point !== undefined) {
    const x = Math.round((sparkSpan - point) * scale) + 0.5;
    c.strokeStyle = colours.quiet;
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(x, 0);
    c.lineTo(x, height);
    c.stroke();
  }
}

// valueAt returns what a curve had some seconds before its newest sample.
export function valueAt(uuid: string, curve: Curve, before: number): number | undefined {
  const h = historyOf(uuid);
  const end = h.times[h.times.length - 1];
  if (end === undefined) return undefined;
  const at = end - before;
  let low = 0;
  let high = h.times.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (h.times[middle]! < at) low = middle + 1;
    else high = middle;
  }
  return Math.abs(h.times[low]! - at) > 10 ? undefined : h[curve][low];
}
