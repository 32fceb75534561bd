// Everybody can use the page: axe-core finds nothing on any page, in light and
// in dark, and no page scrolls sideways on a phone.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, test } from 'node:test';
import { closeBrowser, Daemon, open, until } from './harness.mjs';

after(closeBrowser);

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const alerts = { alerts: [
  { fingerprint: 'a', alert: 'BerthGPUHot', severity: 'critical', state: 'firing', labels: { gpu: 'SIM-h200-0', rule: 'x'.repeat(80) }, annotations: { summary: 'GPU 0 is hot.', description: 'It is 91 °C warm.' }, value: 91, since: '2026-01-01T00:00:00Z' },
  { fingerprint: 'b', alert: 'BerthQueueLong', severity: 'warning', state: 'pending', labels: {}, annotations: { summary: 'Requests wait.' }, value: 3, since: '2026-01-01T00:00:00Z', acknowledged: { by: 'ada', at: '2026-01-01T00:00:00Z', until: '2099-01-01T00:00:00Z', comment: 'known' } },
] };

const bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250];

// busy has something of everything.
async function busy() {
  const d = await Daemon.start({ scenario: 'devices: 4xh200\ntimeline:\n  - {device: 0, load: 80}\n  - {device: 1, process: {pid: 5000001, name: stray, memory_mb: 4096}}\n' });
  const program = await d.program({ 'SIM-h200-0': { memory_mb: 9000, load: 20 } });
  await d.lease({ id: 'train', service: 'training', gpu: '0', memory_mb: 20480, pid: program.pid, time_limit_seconds: 7200 });
  await d.lease({ id: `long-${'name'.repeat(20)}`, gpu: '1', memory_mb: 4096 });
  await d.wait({ id: 'waits', gpu: '0', memory_mb: 140000 });
  await d.request('POST', '/api/gpu/drain', { gpu: '2', reason: 'a new fan' });
  const batch = { id: 'b', output: '/data/vectors.jsonl', command: 'python3 embed.py', stage: 'running', total: 1000, total_exact: true, done: 400, done_before: 0, failed: 7, marked: 0, retries: 0, restarts: 0, records_per_second: 31.5, seconds_left: 19, workers: 1,
    gpus: [{ gpu: 'SIM-h200-0', index: 0, name: 'H200', workers: 1, ready: 1, multiplier: 1, batch: 8, done: 400, failed: 7, retries: 0, restarts: 0, given_up: false, busy_seconds: 12, records_per_second: 31.5, latency: { bounds, counts: [...bounds.map((_, i) => i), 0], sum_seconds: 9 } }] };
  const timer = setInterval(() => void d.request('PUT', '/api/batches/b', batch).catch(() => {}), 3000);
  const reported = await d.request('PUT', '/api/batches/b', batch);
  assert.equal(reported.status, 200, JSON.stringify(reported.value));
  const { value } = await d.request('POST', '/api/tokens', { name: 'op', role: 'operator' });
  const stop = d.stop.bind(d);
  d.stop = () => { clearInterval(timer); return stop(); };
  d.token = value.token;
  return d;
}

const places = {
  overview: ['#/', '.row'],
  cards: ['#/?view=cards', '.card'],
  opened: ['#/?view=rows&open=SIM-h200-0', '.row-card'],
  hour: ['#/?view=rows&range=1h', '.row'],
  device: ['#/gpu/SIM-h200-0?range=5m', '.plots canvas'],
  drained: ['#/gpu/SIM-h200-2', '.view .notice'],
  lease: ['#/lease/root/train', '.parts'],
  waiting: ['#/lease/root/waits', '.view .table'],
  batches: ['#/batches', '.list tbody tr'],
  plans: ['#/plans', '#plan-text'],
  alerts: ['#/alerts', '.alert'],
  events: ['#/events', '.list tbody tr'],
  nothing: ['#/nowhere', 'main h1'],
};

async function visit(d, options) {
  const page = await open(d, { ...options, expected: [/404.*\/api\/(v1|alerts)/], extraHTTPHeaders: { Authorization: `Bearer ${d.token}` } });
  await page.route('**/api/alerts', (r) => r.fulfill({ json: alerts }));
  return page;
}

async function at(page, d, [hash, sign]) {
  await page.goto(d.url + hash);
  await page.waitForSelector(sign);
  if (hash === '#/plans') {
    await page.getByRole('button', { name: 'Show me an example' }).click();
    await page.waitForSelector('.picture');
  }
}

for (const colorScheme of ['light', 'dark']) {
  test(`axe finds nothing, ${colorScheme}`, async () => {
    const d = await busy();
    try {
      const page = await visit(d, { colorScheme, bypassCSP: true });
      const look = async (name) => {
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
        const bad = violations
          .map((v) => `${v.id}: ${v.help}\n  ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 200)} ${n.any[0]?.message ?? ''}`).join('\n  ')}`);
        assert.deepEqual(bad, [], name);
      };
      for (const [name, place] of Object.entries(places)) {
        await at(page, d, place);
        await look(name);
      }
      for (const [hash, key] of [['#/lease/root/train', 'release'], ['#/lease/root/train', 'resize'], ['#/gpu/SIM-h200-0', 'check']]) {
        await page.goto(d.url + hash);
        await page.click(`[data-act=${key}]`);
        await page.waitForSelector('dialog[open]');
        await look(`the dialog ${key}`);
        await page.keyboard.press('Escape');
        await until(page, () => document.querySelector('dialog') === null);
      }
      assert.deepEqual(page.faults(), []);
    } finally {
      await d.stop();
    }
  });
}

test('no page scrolls sideways at 360 pixels', async () => {
  const d = await busy();
  try {
    const page = await visit(d, { viewport: { width: 360, height: 780 }, hasTouch: true, isMobile: true });
    for (const [name, place] of Object.entries(places)) {
      await at(page, d, place);
      const wide = await page.evaluate(() => ({ page: document.documentElement.scrollWidth, window: innerWidth }));
      assert.ok(wide.page <= 360 && wide.window <= 360, `${name} is ${wide.page} wide (${wide.window})`);
    }
    await page.goto(`${d.url}#/lease/root/train`);
    await page.click('[data-act=resize]');
    await page.waitForSelector('dialog[open]');
    const box = await page.locator('dialog').boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= 360, `the dialog goes from ${box.x} to ${box.x + box.width}`);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});
