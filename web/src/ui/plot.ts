import type { RefObject } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type uPlot from 'uplot';
import { dark } from '../live/theme';
import { visible } from './visible';

// usePlot keeps a plot in a box: as wide as the box, and made again when its shape or
// its height changes, or the colours of the screen do. It draws the data only while
// the box is visible. make and data may look at what the last call had.
export function usePlot(box: RefObject<HTMLDivElement | null>, height: number, shape: string, make: (at: HTMLElement) => uPlot, data: () => uPlot.AlignedData, changes: unknown[]) {
  const plot = useRef<uPlot | undefined>(undefined);

  useEffect(() => {
    const at = box.current;
    if (at === null) return;
    const again = () => {
      plot.current?.destroy();
      plot.current = make(at);
    };
    const stop = dark.subscribe(again); // at once, and whenever the colours change
    const resize = new ResizeObserver(() => {
      const width = Math.floor(at.clientWidth);
      if (plot.current && width > 0 && width !== plot.current.width) plot.current.setSize({ width, height });
    });
    resize.observe(at);
    return () => {
      stop();
      resize.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [shape, height]);

  useEffect(() => {
    if (box.current === null) return;
    return visible(box.current, () => plot.current?.setData(data()));
  }, changes);
}
