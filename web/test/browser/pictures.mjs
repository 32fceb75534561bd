// Draws the pictures of the page for the documentation: the overview in light and
// dark, on a phone, and with a device that is CRITICAL. It needs root, because the
// users in the pictures are known to the daemon alone.
import { execFileSync } from 'node:child_process';
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { closeBrowser, Daemon, open, until } from './harness.mjs';

const folder = fileURLToPath(new URL('../../../docs/pictures/', import.meta.url));
mkdirSync(folder, { recursive: true });
const pause = (s) => new Promise((r) => setTimeout(r, s * 1000));
const users = { ada: 7001, ben: 7002, chloe: 7003 };

const scenario = (critical) => `
devices: 4xh200
speed: 2
timeline:
  - {device: 0, load: 25}
  - {at: 30s, for: 60s, repeat: 110s, device: 0, load: 65, ramp: 6s}
  - {device: 1, load: 15}
  - {at: 80s, for: 170s, repeat: 300s, device: 1, load: 92, ramp: 25s}
  - {at: 20s, for: 9s, repeat: 26s, device: 2, load: 55, ramp: 2s}
  - {device: 3, ambient_celsius: 47, load: 40}
  - {at: 100s, for: 300s, device: 3, load: ${critical ? 100 : 82}, ramp: 60s}
  - {at: 40s, device: 3, process: {pid: 5000001, name: notebook, memory_mb: 11GiB, load: 4}}
  ${critical ? '- {at: 250s, device: 3, cooling: 0.22}' : ''}
`;

// story starts a daemon on which several people work, and lets time pass.
async function story(critical) {
  const d = await Daemon.start({ scenario: scenario(critical), config: 'gpu:\n  max_pipelines: 6\nunknown_services: serve\n', passwd: users });
  const holds = async (user, id, service, gpu, asked, used, load = 3) => {
    const uid = users[user];
    const program = await d.program({ [`SIM-h200-${gpu}`]: { memory_mb: used, load } }, { uid });
    await d.command(uid, 'allocate', service, `${asked}GiB`, '--id', id, '--gpu', String(gpu), '--pid', String(program.pid));
  };
  await holds('ada', 'embedder', 'search', 0, 32, 28_600);
  await holds('ada', 'reranker', 'search', 0, 16, 11_200);
  await holds('ben', 'train-vit', 'vision', 1, 96, 90_900, 10);
  await holds('chloe', 'llama-70b', 'chat', 2, 88, 84_000);
  await holds('chloe', 'whisper', 'speech', 2, 24, 9_800);
  await holds('ben', 'render-42', 'studio', 3, 60, 47_000, 5);
  await pause(critical ? 165 : 150);
  d.as(users.ben, 'allocate', 'vision', '110GiB', '--id', 'train-clip', '--timeout', '40m');
  d.as(users.ada, 'allocate', 'search', '64GiB', '--id', 'reindex', '--gpu', '2', '--timeout', '2h');
  await queued(d, 2);
  return d;
}

// queued waits until the daemon lists a number of requests.
async function queued(d, n) {
  for (;;) {
    const { value } = await d.request('GET', '/api/leases');
    if (value.waiting.length === n) return;
    await pause(0.1);
  }
}

async function take(d, name, options) {
  const page = await open(d, options);
  await until(page, () => document.querySelectorAll('.card').length === 4);
  await pause(13); // the explanations of the queue are there
  await shoot(page, name);
  if (page.faults().length > 0) throw new Error(page.faults().join('\n'));
  await page.context().close();
}

// shoot writes a picture with few colours, which is a third of its size.
async function shoot(page, name) {
  const file = join(folder, `page-${name}.png`);
  await page.screenshot({ path: file });
  try {
    execFileSync('python3', ['-c', 'import sys\nfrom PIL import Image\nf = sys.argv[1]\nImage.open(f).convert("RGB").quantize(192, dither=Image.Dither.NONE).save(f, optimize=True)', file], { stdio: 'ignore' });
  } catch {
    // Without Pillow the picture stays as it is.
  }
  console.log(`${file}: ${statSync(file).size} bytes`);
}

const wide = { viewport: { width: 1440, height: 960 } };
const only = process.argv[2];
try {
  if (only === undefined || only === 'calm') {
    const d = await story(false);
    try {
      await take(d, 'light', wide);
      await take(d, 'dark', { ...wide, colorScheme: 'dark' });
      await take(d, 'phone', { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true });
    } finally {
      await d.stop();
    }
  }
  if (only === undefined || only === 'critical') {
    const d = await story(true);
    try {
      for (let i = 0; i < 200; i++) {
        const { value } = await d.request('GET', '/api/gpu/status/all');
        if (value.gpus[3].state === 'CRITICAL') break;
        await pause(1);
      }
      await take(d, 'critical', wide);
    } finally {
      await d.stop();
    }
  }
} finally {
  await closeBrowser();
}
