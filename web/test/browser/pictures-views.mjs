// Draws the pictures of the other places of the page for the documentation: a device,
// a lease, a plan, and the dialog of an act. It needs root, because the users in the
// pictures are known to the daemon alone.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { closeBrowser, Daemon, open } from './harness.mjs';
import { palette } from './palette.mjs';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const folder = join(root, 'docs/pictures');
mkdirSync(folder, { recursive: true });
const pause = (s) => new Promise((r) => setTimeout(r, s * 1000));
const users = { ada: 7001, ben: 7002, chloe: 7003 };

const scenario = `
devices: 3xh200
timeline:
  - {device: 0, load: 25}
  - {device: 1, load: 20}
  - {at: 30s, for: 70s, repeat: 130s, device: 1, load: 95, ramp: 10s}
  - {at: 60s, for: 60s, device: 1, ambient_celsius: 38}
  - {at: 20s, device: 1, process: {pid: 5000001, name: notebook, memory_mb: 6GiB, load: 4}}
`;

const d = await Daemon.start({ scenario, config: 'gpu:\n  max_pipelines: 6\nenergy: {price_per_kwh: 0.31, currency: EUR}\nservices:\n  vision: {priority: 2}\n', passwd: users });
try {
  const programs = [];
  const holds = async (user, id, service, gpu, asked, used) => {
    const uid = users[user];
    const program = await d.program({ [gpu]: { memory_mb: used, load: 5 } }, { uid });
    programs.push({ program, gpu, used, uid });
    await d.command(uid, 'allocate', service, `${asked}GiB`, '--id', id, '--gpu', gpu, '--pid', String(program.pid));
  };
  await holds('ada', 'embedder', 'search', 'SIM-h200-0', 32, 28_600);
  await holds('ben', 'train-vit', 'vision', 'SIM-h200-1', 72, 24_000);
  await holds('chloe', 'whisper', 'speech', 'SIM-h200-1', 24, 9_800);
  // The training takes more and more.
  for (let i = 0; i < 30; i++) {
    await pause(10);
    const it = programs[1];
    d.use(it.program, { [it.gpu]: { memory_mb: Math.min(68_000, 24_000 + i * 2200 + (i % 4) * 900), load: 5 } }, it.uid);
  }
  const { value } = await d.request('POST', '/api/tokens', { name: 'operator', role: 'operator' });
  const visit = (hash, options) => open(d, { hash, ...options, extraHTTPHeaders: { Authorization: `Bearer ${value.token}` } });
  const shoot = async (page, name, clip) => {
    const file = join(folder, `page-${name}.png`);
    const small = palette(await page.screenshot(clip ? { clip } : {}));
    writeFileSync(file, small);
    console.log(`${file}: ${small.length} bytes`);
    if (page.faults().length > 0) throw new Error(page.faults().join('\n'));
    await page.context().close();
  };

  const device = await visit('#/gpu/SIM-h200-1?range=5m', { viewport: { width: 1440, height: 1180 } });
  await device.waitForSelector('.plots canvas');
  await pause(3);
  await shoot(device, 'device');

  const lease = await visit('#/lease/ben/train-vit', { viewport: { width: 1440, height: 1080 }, colorScheme: 'dark' });
  await lease.waitForSelector('.chart canvas');
  await pause(2);
  await shoot(lease, 'lease');

  const dialog = await visit('#/lease/ben/train-vit', { viewport: { width: 1000, height: 620 } });
  await dialog.waitForSelector('.chart canvas');
  await dialog.click('[data-act=park]');
  await dialog.waitForSelector('dialog[open]');
  await pause(1);
  await shoot(dialog, 'act');

  const plan = await visit('#/plans', { viewport: { width: 1180, height: 1200 } });
  await plan.setInputFiles('#plan-file', join(root, 'examples/pipelines/plate.yaml'));
  await plan.waitForSelector('.picture');
  await pause(1);
  await plan.locator('.plan-result .panel').nth(1).scrollIntoViewIfNeeded();
  await shoot(plan, 'plan', await plan.locator('.plan-result .panel').nth(1).boundingBox());
} finally {
  await closeBrowser();
  await d.stop();
}
