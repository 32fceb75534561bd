// What the tasks of a page take of the processor.
import assert from 'node:assert/strict';
import { browser } from './harness.mjs';

// traced records the tasks of all pages. end returns how much processor time each
// task took that began after the first paint of the page, in ms, longest first.
export async function traced() {
  const session = await (await browser()).newBrowserCDPSession();
  const events = [];
  session.on('Tracing.dataCollected', (e) => events.push(...e.value));
  await session.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories: ['toplevel', 'loading', 'devtools.timeline', 'blink.user_timing'] } });
  return {
    async end() {
      const complete = new Promise((resolve) => session.once('Tracing.tracingComplete', resolve));
      await session.send('Tracing.end');
      await complete;
      const painted = events.filter((e) => e.name === 'firstContentfulPaint').sort((a, b) => a.ts - b.ts).at(-1);
      assert.ok(painted, 'the trace has the first paint');
      return events
        .filter((e) => /RunTask$/.test(e.name) && e.pid === painted.pid && e.tid === painted.tid && e.ts > painted.ts && e.tdur !== undefined)
        .map((e) => e.tdur / 1000)
        .sort((a, b) => b - a);
    },
  };
}
