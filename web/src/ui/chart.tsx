import { useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { moment } from './format';
import { usePlot } from './plot';

export interface Line {
  label: string;
  tone?: 'load' | 'heat' | 'power' | 'memory' | 'quiet'; // which of the colours of curves
  unit: (value: number) => string;
  band?: [number, number]; // two columns between which it is filled
  dashed?: boolean;
  edge?: boolean; // the edge of a band: drawn thin
  colour?: string; // name of a token, such as --lease-1, in place of the tone's
  bold?: boolean;
}

export interface Threshold {
  at: number;
  label: string;
  tone: 'warn' | 'bad';
}

// Chart draws curves over time. data has the times in seconds first, then a column
// for each line; null: nothing is known there. It is drawn only while it is visible.
export function Chart({ label, lines, data, thresholds, range, height = 180, incrs, onZoom }: {
  label: string;
  lines: Line[];
  data: uPlot.AlignedData;
  thresholds?: Threshold[];
  range?: [number | null, number | null]; // of the vertical axis; null: as the data need
  height?: number;
  incrs?: number[]; // steps of the vertical axis; absent: tens
  onZoom?: (from: number, to: number) => void; // somebody marked a stretch of time
}) {
  const box = useRef<HTMLDivElement>(null);
  const last = useRef({ data, thresholds, range, onZoom });
  last.current = { data, thresholds, range, onZoom };
  const shape = lines.map((l) => l.label).join('\n');

  usePlot(box, height, shape, (at) => new uPlot(options(at, lines, height, incrs, () => last.current), last.current.data, at), () => last.current.data, [data]);

  return <div ref={box} class="chart" role="img" aria-label={label} />;
}

// latest returns the newest value of a column, for a legend that nobody points at.
export function latest(u: uPlot, column: number): number | null {
  const values = u.data[column] as (number | null | undefined)[] | undefined;
  for (let i = (values?.length ?? 0) - 1; i >= 0; i--) if (values![i] != null) return values![i]!;
  return null;
}

export interface Beside {
  text: string;
  y: number; // in the pixels of the canvas
  colour: string;
}

// writeBeside writes names right of a plot, where its lines end. Those that would
// overlap are moved apart.
export function writeBeside(u: uPlot, list: Beside[], font: string): void {
  const line = 12 * devicePixelRatio;
  const [top, bottom] = [u.bbox.top + line / 2, u.bbox.top + u.bbox.height - line / 2];
  const sorted = list.sort((a, b) => a.y - b.y).map((b) => ({ ...b, y: Math.min(Math.max(b.y, top), bottom) }));
  for (let i = 1; i < sorted.length; i++) sorted[i]!.y = Math.max(sorted[i]!.y, sorted[i - 1]!.y + line);
  const over = (sorted[sorted.length - 1]?.y ?? 0) - bottom;
  if (over > 0) {
    let limit = bottom;
    for (let i = sorted.length - 1; i >= 0; i--, limit -= line) sorted[i]!.y = Math.min(sorted[i]!.y, limit);
  }
  u.ctx.save();
  u.ctx.font = `${11 * devicePixelRatio}px ${font}`;
  u.ctx.textAlign = 'left';
  u.ctx.textBaseline = 'middle';
  for (const b of sorted) {
    u.ctx.fillStyle = b.colour;
    u.ctx.fillText(short(b.text), u.bbox.left + u.bbox.width + 5 * devicePixelRatio, b.y);
  }
  u.ctx.restore();
}

// besideWidth is how much room names beside a plot have, in pixels.
export const besideWidth = 84;

function short(text: string): string {
  const letters = [...text];
  return letters.length <= 13 ? text : `${letters.slice(0, 6).join('')}…${letters.slice(-6).join('')}`;
}

function colour(from: Element, name: string): string {
  return getComputedStyle(from).getPropertyValue(name).trim();
}

// timeLabels says how times are written below a chart, by the step of the axis.
export const timeLabels: uPlot.Axis.Values = [
  [3600 * 24 * 28, '{D} {MMM}', '\n{YYYY}', null, null, null, null, null, 1],
  [3600 * 24, '{D} {MMM}', null, null, null, null, null, null, 1],
  [60, '{HH}:{mm}', '\n{D} {MMM}', null, '\n{D} {MMM}', null, null, null, 1],
  [1, '{HH}:{mm}:{ss}', null, null, null, null, null, null, 1],
];

// memorySteps are for an axis of MiB, so that it has whole GiB.
export const memorySteps = Array.from({ length: 31 }, (_, i) => 2 ** i);

interface Latest {
  thresholds?: Threshold[];
  range?: [number | null, number | null];
  onZoom?: (from: number, to: number) => void;
}

function options(at: HTMLElement, lines: Line[], height: number, incrs: number[] | undefined, last: () => Latest): uPlot.Options {
  const ink = colour(at, '--ink-quiet');
  const rule = colour(at, '--rule');
  const font = `11px ${colour(at, '--font') || 'system-ui'}`;
  const unit = lines[0]?.unit ?? String;
  const ofLine = (l: Line) => colour(at, l.colour ?? `--curve-${l.tone ?? 'quiet'}`);
  const bands = lines.flatMap((l) => {
    const stroke = ofLine(l);
    return l.band ? [{ series: l.band, fill: `color-mix(in srgb, ${stroke} 18%, transparent)` } as uPlot.Band] : [];
  });
  return {
    width: Math.max(60, Math.floor(at.clientWidth)),
    height,
    bands,
    padding: [8, lines.some((l) => !l.edge) ? besideWidth : 8, 0, 0],
    legend: { show: true, live: true },
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    scales: {
      y: {
        range: (_u, low, high) => {
          const [least, most] = last().range ?? [null, null];
          const top = Math.max(high ?? 1, ...(last().thresholds ?? []).map((t) => t.at));
          const bottom = least ?? Math.min(low ?? 0, top);
          const peak = most ?? top;
          return [bottom, peak === bottom ? bottom + 1 : peak + (most === null ? (peak - bottom) * 0.08 : 0)];
        },
      },
    },
    axes: [
      { stroke: ink, font, grid: { stroke: rule, width: 1 }, ticks: { show: false }, space: 70, size: 36, values: timeLabels },
      { stroke: ink, font, grid: { stroke: rule, width: 1 }, ticks: { show: false }, size: 62, values: (_u, at) => at.map((v) => unit(v)), ...(incrs ? { incrs } : {}) },
    ],
    series: [
      { value: (_u, v) => (v == null ? 'now' : moment(v * 1000)) },
      ...lines.map((l): uPlot.Series => {
        const stroke = ofLine(l);
        return {
          label: l.label, stroke, class: l.edge ? 'edge' : 'line', width: l.edge ? 0.4 : l.bold ? 2.5 : 1.5, points: { show: false }, spanGaps: false,
          dash: l.dashed ? [4, 4] : undefined,
          // Nobody points: the newest value.
          value: (u: uPlot, v: number | null, column: number, at: number | null) => {
            const shown = at == null ? latest(u, column) : v;
            return shown == null ? '–' : l.unit(shown);
          },
        } as uPlot.Series;
      }),
    ],
    hooks: {
      setSelect: [
        (u) => {
          const onZoom = last().onZoom;
          if (u.select.width > 4 && onZoom) onZoom(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x'));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      draw: [
        (u) => {
          writeBeside(u, lines.flatMap((l, i) => {
            const value = l.edge ? null : latest(u, i + 1);
            return value === null ? [] : [{ text: l.label, y: u.valToPos(value, 'y', true), colour: ofLine(l) }];
          }), colour(at, '--font') || 'system-ui');
          let right = u.bbox.left + u.bbox.width - 4;
          for (const t of last().thresholds ?? []) {
            const y = Math.round(u.valToPos(t.at, 'y', true));
            if (y < u.bbox.top || y > u.bbox.top + u.bbox.height) continue;
            u.ctx.save();
            u.ctx.strokeStyle = colour(at, t.tone === 'bad' ? '--bad' : '--warn');
            u.ctx.fillStyle = u.ctx.strokeStyle;
            u.ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
            u.ctx.lineWidth = devicePixelRatio;
            u.ctx.beginPath();
            u.ctx.moveTo(u.bbox.left, y);
            u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
            u.ctx.stroke();
            u.ctx.font = `${11 * devicePixelRatio}px ${colour(at, '--font') || 'system-ui'}`;
            u.ctx.textAlign = 'right';
            u.ctx.fillText(t.label, right, y - 4 * devicePixelRatio);
            right -= u.ctx.measureText(t.label).width + 8 * devicePixelRatio; // so that labels of near thresholds stand side by side
            u.ctx.restore();
          }
        },
      ],
    },
  };
}
