// The picture of a planned pipeline. Each step has a column, in the order in which
// they run. A step is a box on the lane of the GPU or of the CPU. Arrows show which
// outputs it takes and how these are converted. Below, bars show the memory on the
// GPU while the step runs.

import type { Conversion, PlannedPipeline, PlannedStep } from '../api/types';

export interface Box {
  step: PlannedStep;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Arrow {
  from: string;
  to: string;
  path: string;
  conversion: Conversion | undefined;
  label: { x: number; y: number } | undefined;
}

export interface Bar {
  step: PlannedStep;
  x: number;
  width: number;
  y: number;
  height: number;
  held: number; // height of what is kept for later steps
  peak: boolean; // the step during which the pipeline needs the most
}

export interface Picture {
  width: number;
  height: number;
  boxes: Box[];
  arrows: Arrow[];
  bars: Bar[];
  lanes: { gpu: number | undefined; cpu: number | undefined }; // the middle of each lane
  base: number | undefined; // the foot of the bars
  limit: number | undefined; // where the bars reach what a run leases
}

export const sizes = { left: 56, top: 26, column: 168, box: 124, boxHeight: 52, lane: 92, bars: 84, gap: 30 } as const;

// draw lays a pipeline out. It needs no browser.
export function draw(p: PlannedPipeline): Picture {
  const s = sizes;
  const gpu = p.steps.some((step) => step.on_gpu);
  const cpu = p.steps.some((step) => !step.on_gpu);
  const lanes = {
    gpu: gpu ? s.top + s.boxHeight / 2 : undefined,
    cpu: cpu ? s.top + s.boxHeight / 2 + (gpu ? s.lane : 0) : undefined,
  };
  const boxes = p.steps.map<Box>((step, i) => ({
    step,
    x: s.left + i * s.column,
    y: ((step.on_gpu ? lanes.gpu : lanes.cpu) ?? 0) - s.boxHeight / 2,
    width: s.box,
    height: s.boxHeight,
  }));
  const place = new Map(boxes.map((b, i) => [b.step.name, { b, i }]));
  const arrows: Arrow[] = [];
  boxes.forEach((to, i) => {
    for (const name of to.step.after ?? []) {
      const from = place.get(name);
      if (from === undefined) continue;
      const conversion = to.step.conversions?.find((c) => c.step === name);
      arrows.push(arrow(from.b, to, i - from.i, conversion));
    }
  });
  const feet = (lanes.cpu ?? lanes.gpu ?? 0) + s.boxHeight / 2;
  const most = Math.max(p.memory_mb, ...p.steps.map((step) => step.peak_mb));
  if (most === 0) {
    return { width: width(p), height: feet + 14, boxes, arrows, bars: [], lanes, base: undefined, limit: undefined };
  }
  const base = feet + s.gap + s.bars;
  const scale = s.bars / most;
  const bars = boxes.map<Bar>((b) => ({
    step: b.step,
    x: b.x,
    width: b.width,
    y: base - b.step.peak_mb * scale,
    height: b.step.peak_mb * scale,
    held: b.step.held_mb * scale,
    peak: b.step.peak_mb > 0 && b.step.name === p.peak_step,
  }));
  return { width: width(p), height: base + 22, boxes, arrows, bars, lanes, base, limit: base - p.memory_mb * scale };
}

function width(p: PlannedPipeline): number {
  return sizes.left + Math.max(1, p.steps.length) * sizes.column - (sizes.column - sizes.box) + 12;
}

// arrow leads from the right of a box to the left of another. One that passes other
// boxes bows above or below its lane, so that it crosses none of them.
function arrow(from: Box, to: Box, columns: number, conversion: Conversion | undefined): Arrow {
  const x1 = from.x + from.width;
  const y1 = from.y + from.height / 2;
  const x2 = to.x - 3;
  const y2 = to.y + to.height / 2;
  const out = { from: from.step.name, to: to.step.name, conversion };
  if (columns <= 1) {
    const middle = (x1 + x2) / 2;
    const path = y1 === y2 ? `M${x1} ${y1}H${x2}` : `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
    return { ...out, path, label: conversion && { x: middle, y: y1 === y2 ? y1 - 7 : (y1 + y2) / 2 } };
  }
  const same = y1 === y2;
  const bow = same ? (y1 < sizes.top + sizes.boxHeight ? y1 - sizes.boxHeight / 2 - 16 : y1 + sizes.boxHeight / 2 + 14) : (y1 + y2) / 2;
  const path = `M${x1} ${y1}C${x1 + 26} ${y1} ${x1 + 14} ${bow} ${x1 + 40} ${bow}H${x2 - 40}C${x2 - 14} ${bow} ${x2 - 26} ${y2} ${x2} ${y2}`;
  return { ...out, path, label: conversion && { x: (x1 + x2) / 2, y: bow - 4 } };
}

// inWords says what a pipeline does, for those who do not see the picture.
export function inWords(p: PlannedPipeline): string {
  const steps = p.steps.map((s) => `${s.name} on the ${s.on_gpu ? 'GPU' : 'CPU'}`).join(', then ');
  const runs = p.runs.length === 1 ? 'One run' : `${p.runs.length} runs`;
  return `${runs} of ${p.name}: ${steps}.`;
}
