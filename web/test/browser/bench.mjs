// Measures what the page costs while it is open on 8 devices: the time that the
// renderer's tasks take in 60 seconds after the first paint, and the processor time
// of the daemon meanwhile, beside that of a daemon without a page. Fails above 5 % and
// 1 % of a core.
import { closeBrowser, Daemon, open, until } from './harness.mjs';

const seconds = Number(process.argv[2] ?? 60);
const pause = (s) => new Promise((r) => setTimeout(r, s * 1000));

const d = await Daemon.start({
  scenario: `
devices: 8xh200
timeline:
  - {device: all, load: 30}
  - {at: 5s, for: 20s, repeat: 40s, device: [0, 2, 4, 6], load: 90, ramp: 5s}
`,
  config: 'gpu:\n  max_pipelines: 8\n',
});
let failed = false;
try {
  for (let i = 0; i < 24; i++) {
    // Without programs: reading what programs use of simulated devices costs the
    // daemon more than all the rest, and no real device needs it.
    await d.lease({ id: `lease-${i}`, service: `service-${i % 5}`, gpu: String(i % 8), memory_mb: 12000 + i * 500 });
  }
  await d.wait({ id: 'waits-1', memory_mb: 120000 });
  await d.wait({ id: 'waits-2', memory_mb: 120000 });
  await pause(5);
  const idleFrom = d.cpu();
  await pause(seconds / 2);
  const idle = ((d.cpu() - idleFrom) / (seconds / 2)) * 100;

  const page = await open(d);
  await until(page, () => document.querySelectorAll('.card').length === 8);
  await pause(3);
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' }); // what a task waits for a processor does not count
  const metrics = async () => Object.fromEntries((await session.send('Performance.getMetrics')).metrics.map((m) => [m.name, m.value]));
  const before = await metrics();
  const from = { cpu: d.cpu(), at: performance.now() };
  await pause(seconds);
  const after = await metrics();
  const took = (performance.now() - from.at) / 1000;
  const daemon = ((d.cpu() - from.cpu) / took) * 100;
  const part = (name) => ((after[name] - before[name]) / took) * 100;
  const browser = part('TaskDuration');
  console.log(`browser: ${browser.toFixed(2)} % of a core over ${took.toFixed(0)} s (script ${part('ScriptDuration').toFixed(2)}, style ${part('RecalcStyleDuration').toFixed(2)}, layout ${part('LayoutDuration').toFixed(2)}); the limit is 5`);
  console.log(`memory: ${(after.JSHeapUsedSize / 1e6).toFixed(1)} MB of objects, ${after.Nodes} nodes`);
  console.log(`daemon: ${daemon.toFixed(2)} % of a core with the page open, ${idle.toFixed(2)} % without; the limit is 1`);
  failed = browser > 5 || daemon > 1 || page.faults().length > 0;
  for (const fault of page.faults()) console.log(fault);
} finally {
  await closeBrowser();
  await d.stop();
}
process.exit(failed ? 1 : 0);
