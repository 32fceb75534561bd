import { useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { type Column, type Layer, stacked } from '../history/series';
import { type Beside, besideWidth, latest as newest, memorySteps, timeLabels, writeBeside } from './chart';
import { memory, moment } from './format';
import { usePlot } from './plot';

export interface LayerLook {
  label: string;
  beside?: string; // in a word, beside the layer; absent: the label
  colour: string; // name of a token, such as --lease-1
}

// Layers draws amounts of memory over time, one on the other, with a line for the
// whole and one for the most that there is.
export function Layers({ label, times, layers, looks, whole, most, height = 180, onZoom }: {
  label: string;
  times: number[];
  layers: Layer[]; // the lowest first
  looks: LayerLook[]; // for each layer
  whole?: { label: string; values: Column };
  most?: number;
  height?: number;
  onZoom?: (from: number, to: number) => void; // somebody marked a stretch of time
}) {
  const box = useRef<HTMLDivElement>(null);
  const latest = useRef<Drawn>({ times, layers });
  latest.current = { times, layers, whole, most, onZoom };
  const shape = JSON.stringify([looks, whole?.label]);

  usePlot(box, height, shape, (at) => new uPlot(options(at, looks, whole?.label, height, latest), columns(latest.current), at), () => columns(latest.current), [times, layers, whole]);

  return <div ref={box} class="chart" role="img" aria-label={label} />;
}

interface Drawn {
  times: number[];
  layers: Layer[];
  whole?: { label: string; values: Column };
  most?: number;
  onZoom?: (from: number, to: number) => void;
}

// columns has the highest layer first, so that each is drawn over the one above it.
function columns(d: Drawn): uPlot.AlignedData {
  const sums = stacked(d.layers).reverse();
  return [d.times, ...sums, ...(d.whole ? [d.whole.values] : [])] as uPlot.AlignedData;
}

function options(at: HTMLElement, looks: LayerLook[], whole: string | undefined, height: number, latest: { current: Drawn }): uPlot.Options {
  const colour = (name: string) => getComputedStyle(at).getPropertyValue(name).trim();
  const ink = colour('--ink-quiet');
  const rule = colour('--rule');
  const font = `11px ${colour('--font') || 'system-ui'}`;
  const from = [...looks].reverse();
  return {
    width: Math.max(60, Math.floor(at.clientWidth)),
    height,
    padding: [8, besideWidth, 0, 0],
    legend: { show: true, live: true },
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    scales: { y: { range: (_u, _low, high) => [0, Math.max(latest.current.most ?? 0, high ?? 0, 1) * 1.02] } },
    axes: [
      { stroke: ink, font, grid: { stroke: rule, width: 1 }, ticks: { show: false }, space: 70, size: 36, values: timeLabels },
      { stroke: ink, font, grid: { stroke: rule, width: 1 }, ticks: { show: false }, size: 62, values: (_u, list) => list.map((v) => memory(v)), incrs: memorySteps },
    ],
    series: [
      { value: (_u, v) => (v == null ? '–' : moment(v * 1000)) },
      ...from.map((look, i): uPlot.Series => ({
        label: look.label, stroke: colour(look.colour), fill: colour(look.colour), width: 0, points: { show: false },
        // The column is a sum; what is shown is the layer itself.
        value: (_u, _v, _s, idx) => {
          const values = latest.current.layers[looks.length - 1 - i]?.values;
          const own = idx == null ? values?.findLast((v) => v !== null) : values?.[idx];
          return own == null ? '–' : memory(own);
        },
      })),
      ...(whole === undefined ? [] : [{
        label: whole, stroke: colour('--ink'), width: 1.25, points: { show: false },
        value: (u: uPlot, v: number | null, column: number, at: number | null) => {
          const shown = at == null ? newest(u, column) : v;
          return shown == null ? '–' : memory(shown);
        },
      } as uPlot.Series]),
    ],
    hooks: {
      setSelect: [
        (u) => {
          const { onZoom } = latest.current;
          if (u.select.width > 4 && onZoom) onZoom(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x'));
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      draw: [
        (u) => {
          // A name stands in the middle of its layer, if that is thick enough for it.
          let below = 0;
          const list: Beside[] = [];
          latest.current.layers.forEach((layer, i) => {
            const own = layer.values.findLast((v) => v !== null) ?? 0;
            const thick = Math.abs(u.valToPos(0, 'y', true) - u.valToPos(own, 'y', true));
            if (own > 0 && thick > 5 * devicePixelRatio) list.push({ text: looks[i]?.beside ?? looks[i]?.label ?? layer.key, y: u.valToPos(below + own / 2, 'y', true), colour: colour(looks[i]?.colour ?? '--ink') });
            below += own;
          });
          writeBeside(u, list, colour('--font') || 'system-ui');
        },
      ],
    },
  };
}
