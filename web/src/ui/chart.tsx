import { useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { usePlot } from './plot';

export interface Line {
  label: string;
  tone?: 'load' | 'heat' | 'power' | 'memory' | 'quiet'; // which of the colours of curves
  unit: (value: number) => string;
  band?: [number, number]; // two columns between which it is filled
  dashed?: boolean;
  edge?: boolean; // the edge of a band: drawn thin
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
  const latest = useRef({ data, thresholds, range, onZoom });
  latest.current = { data, thresholds, range, onZoom };
  const shape = lines.map((l) => l.label).join('\n');

  usePlot(box, height, shape, (at) => new uPlot(options(at, lines, height, incrs, () => latest.current), latest.current.data, at), () => latest.current.data, [data]);

  return <div ref={box} class="chart" role="img" aria-label={label} />;
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

function options(at: HTMLElement, lines: Line[], height: number, incrs: number[] | undefined, latest: () => Latest): uPlot.Options {
  const ink = colour(at, '--ink-quiet');
  const rule = colour(at, '--rule');
  const font = `11px ${colour(at, '--font') || 'system-ui'}`;
  const unit = lines[0]?.unit ?? String;
  const bands = lines.flatMap((l) => {
    const stroke = colour(at, `--curve-${l.tone ?? 'quiet'}`);
    return l.band ? [{ series: l.band, fill: `color-mix(in srgb, ${stroke} 18%, transparent)` } as uPlot.Band] : [];
  });
  return {
    width: Math.max(60, Math.floor(at.clientWidth)),
    height,
    bands,
    legend: { show: true, live: true },
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    scales: {
      y: {
        range: (_u, low, high) => {
          const [least, most] = latest().range ?? [null, null];
          const top = Math.max(high ?? 1, ...(latest().thresholds ?? []).map((t) => t.at));
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
      { value: (_u, v) => (v == null ? '–' : new Date(v * 1000).toLocaleString('en-GB')) },
      ...lines.map((l): uPlot.Series => {
        const stroke = colour(at, `--curve-${l.tone ?? 'quiet'}`);
        return {
          label: l.label, stroke, class: l.edge ? 'edge' : 'line', width: l.edge ? 0.4 : 1.5, points: { show: false }, spanGaps: false,
          dash: l.dashed ? [4, 4] : undefined,
          value: (_u: uPlot, v: number | null) => (v == null ? '–' : l.unit(v)),
        } as uPlot.Series;
      }),
    ],
    hooks: {
      setSelect: [
        (u) => {
          const onZoom = latest().onZoom;
          if (u.select.width > 4 && onZoom) onZoom(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x'));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      draw: [
        (u) => {
          let right = u.bbox.left + u.bbox.width - 4;
          for (const t of latest().thresholds ?? []) {
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
