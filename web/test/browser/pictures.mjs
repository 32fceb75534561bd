// Draws the pictures of the page for the documentation: the overview in light and
// dark, on a phone, and with a device that is CRITICAL. It needs root, because the
// users in the pictures are known to the daemon alone.
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { closeBrowser, Daemon, open, until } from './harness.mjs';

const folder = fileURLToPath(new URL('../../../docs/pictures/', import.meta.url));
mkdirSync(folder, { recursive: true });
const pause = (s) => new Promise((r) => setTimeout(r, s * 1000));
const users = { ada: 7001, ben: 7002, chloe: 7003 };

// GPU 3 gets too hot after the first three pictures.
const scenario = `
devices: [{model: h200, count: 3}, {model: rtx-4090, count: 1}]
timeline:
  - {device: 0, load: 25}
  - {at: 15s, for: 30s, repeat: 55s, device: 0, load: 65, ramp: 3s}
  - {device: 1, load: 15}
  - {at: 40s, for: 85s, repeat: 150s, device: 1, load: 92, ramp: 12s}
  - {at: 10s, for: 5s, repeat: 13s, device: 2, load: 55, ramp: 1s}
  - {device: 3, load: 30}
  - {at: 50s, device: 3, load: 62, ramp: 40s}
  - {at: 20s, device: 3, process: {pid: 5000001, name: notebook, memory_mb: 3GiB, load: 4}}
  - {at: 375s, device: 3, load: 100, cooling: 0.3, ambient_celsius: 45}
`;

// story starts a daemon on which several people work, and lets time pass.
async function story() {
  const d = await Daemon.start({ scenario, config: 'gpu:\n  max_pipelines: 6\n', passwd: users });
  const holds = async (user, id, service, gpu, asked, used, load = 3) => {
    const uid = users[user];
    const program = await d.program({ [gpu]: { memory_mb: used, load } }, { uid });
    await d.command(uid, 'allocate', service, `${asked}GiB`, '--id', id, '--gpu', gpu, '--pid', String(program.pid));
  };
  await holds('ada', 'embedder', 'search', 'SIM-h200-0', 32, 28_600);
  await holds('ada', 'reranker', 'search', 'SIM-h200-0', 16, 11_200);
  await holds('ben', 'train-vit', 'vision', 'SIM-h200-1', 96, 90_900, 10);
  await holds('chloe', 'llama-70b', 'chat', 'SIM-h200-2', 88, 84_000);
  await holds('chloe', 'whisper', 'speech', 'SIM-h200-2', 24, 9_800);
  await holds('ben', 'render-42', 'studio', 'SIM-rtx-4090-3', 12, 10_400, 5);
  await pause(270);
  await d.wait({ id: 'train-clip', service: 'vision', memory_mb: 110 * 1024 });
  await d.wait({ id: 'reindex', service: 'search', gpu: 'SIM-h200-2', memory_mb: 64 * 1024 });
  return d;
}

async function take(d, name, options) {
  const page = await open(d, options);
  await until(page, () => document.querySelectorAll('.card').length === 4);
  await pause(13); // the explanations of the queue are there
  await shoot(page, name);
  if (page.faults().length > 0) throw new Error(page.faults().join('\n'));
  await page.context().close();
}

async function shoot(page, name) {
  const file = join(folder, `page-${name}.png`);
  await page.screenshot({ path: file });
  console.log(`${file}: ${statSync(file).size} bytes`);
}

const wide = { viewport: { width: 1440, height: 960 } };
const d = await story();
try {
  await take(d, 'light', wide);
  await take(d, 'dark', { ...wide, colorScheme: 'dark' });
  await take(d, 'phone', { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true });
  for (;;) {
    const { value } = await d.request('GET', '/api/gpu/status/all');
    if (value.gpus[3].state === 'CRITICAL') break;
    await pause(1);
  }
  await take(d, 'critical', wide);
} finally {
  await closeBrowser();
  await d.stop();
}
