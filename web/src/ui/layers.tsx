import { useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { type Column, type Layer, stacked } from '../history/series';
import { memorySteps, timeLabels } from './chart';
import { memory } from './format';
import { usePlot } from './plot';

export interface LayerLook {
  label: string;
  colour: string; // name of a token, such as --lease-1
}

// Layers draws amounts of memory over time, one on the other, with a line for the
// whole and one for the most that there is.
export function Layers({ label, times, layers, looks, whole, most, height = 180 }: {
  label: string;
  times: number[];
  layers: Layer[]; // the lowest first
  looks: LayerLook[]; // for each layer
  whole?: { label: string; values: Column };
  most?: number;
  height?: number;
}) {
  const box = useRef<HTMLDivElement>(null);
  const latest = useRef({ times, layers, whole, most });
  latest.current = { times, layers, whole, most };
  const shape = JSON.stringify([looks, whole?.label]);

  usePlot(box, height, shape, (at) => new uPlot(options(at, looks, whole?.label, height, latest), columns(latest.current), at), () => columns(latest.current), [times, layers, whole]);

  return <div ref={box} class="chart" role="img" aria-label={label} />;
}

interface Drawn {
  times: number[];
  layers: Layer[];
  whole?: { label: string; values: Column };
  most?: number;
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
    legend: { show: true, live: true },
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: (_u, _low, high) => [0, Math.max(latest.current.most ?? 0, high ?? 0, 1) * 1.02] } },
    axes: [
      { stroke: ink, font, grid: { stroke: rule, width: 1 }, ticks: { show: false }, space: 70, size: 36, values: timeLabels },
      { stroke: ink, font, grid: { stroke: rule, width: 1 }, ticks: { show: false }, size: 62, values: (_u, list) => list.map((v) => memory(v)), incrs: memorySteps },
    ],
    series: [
      { value: (_u, v) => (v == null ? '–' : new Date(v * 1000).toLocaleString('en-GB')) },
      ...from.map((look, i): uPlot.Series => ({
        label: look.label, stroke: colour(look.colour), fill: colour(look.colour), width: 0, points: { show: false },
        // The column is a sum; what is shown is the layer itself.
        value: (_u, _v, _s, idx) => {
          const own = idx == null ? null : latest.current.layers[looks.length - 1 - i]?.values[idx];
          return own == null ? '–' : memory(own);
        },
      })),
      ...(whole === undefined ? [] : [{
        label: whole, stroke: colour('--ink'), width: 1.25, points: { show: false },
        value: (_u: uPlot, v: number | null) => (v == null ? '–' : memory(v)),
      } as uPlot.Series]),
    ],
  };
}
