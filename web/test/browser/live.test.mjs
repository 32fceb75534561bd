// The page follows a daemon: figures move, leases come and go, faults are said.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { closeBrowser, Daemon, open, until } from './harness.mjs';

after(closeBrowser);

const calm = `
devices: 2xh200
timeline:
  - {device: 0, load: 30, ramp: 2s}
  - {at: 4s, for: 4s, repeat: 8s, device: 0, load: 90, ramp: 1s}
`;

test('rows are live, and a lease appears and goes', async () => {
  const d = await Daemon.start({ scenario: calm, config: 'gpu:\n  max_pipelines: 4\n' });
  try {
    const page = await open(d);
    await until(page, () => document.querySelectorAll('.row').length === 2);
    assert.match(await page.innerText('.attention'), /All well/);
    const value = '[data-gpu=SIM-h200-0] .curve-load .curve-value';
    const before = await page.innerText(value);
    await until(page, ([where, text]) => document.querySelector(where).innerText !== text, value, before);
    assert.match(await page.innerText('.live'), /live/);

    const program = await d.program({ 'SIM-h200-1': { memory_mb: 9000, load: 5 } });
    await d.lease({ id: 'embedder', service: 'search', gpu: '1', memory_mb: 12288, pid: program.pid });
    await page.waitForSelector('[data-gpu=SIM-h200-1] .berth >> text=embedder');
    await until(page, () => /^8\.8 of 12.GiB$/.test(document.querySelector('[data-gpu=SIM-h200-1] .berth-use')?.innerText));
    await page.waitForSelector('.events >> text=embedder holds');
    const widths = await page.evaluate(() => [...document.querySelectorAll('[data-gpu=SIM-h200-1] .part')].map((p) => p.getBoundingClientRect().width));
    const bar = await page.evaluate(() => document.querySelector('[data-gpu=SIM-h200-1] .stack').getBoundingClientRect().width);
    assert.ok(Math.abs(widths[0] / bar - 12288 / 143771) < 0.01, `the segment of the lease is ${widths[0]} of ${bar} wide`);

    await d.wait({ id: 'too-big', gpu: '1', memory_mb: 140000 });
    await page.waitForSelector('.waiting >> text=too-big');
    await until(page, () => /no device fits|no room|fits/i.test(document.querySelector('.waiting-why')?.innerText));

    await d.release('embedder');
    await until(page, () => ![...document.querySelectorAll('.berth-id')].some((b) => b.innerText === 'embedder'));
    program.kill('SIGKILL'); // its memory is nobody's now, and the request fits
    await until(page, () => document.querySelector('.waiting') === null || !document.querySelector('.waiting').innerText.includes('too-big'));
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('a device turns CRITICAL, and the page says so at the top', async () => {
  const d = await Daemon.start({
    scenario: `
devices: 2xrtx-4060
speed: 10
timeline:
  - {device: 0, load: 20}
  - {at: 50s, device: 1, ambient_celsius: 60, load: 100, cooling: 0.2}
`,
  });
  try {
    const page = await open(d);
    await until(page, () => document.querySelectorAll('.row').length === 2);
    await page.waitForSelector('.attention-item.tone-bad >> text=/CRITICAL/');
    assert.match(await page.innerText('.attention-item.tone-bad'), /GPU 1/);
    assert.match(await page.getAttribute('.row:nth-of-type(1)', 'class'), /state-critical.*trouble/); // the one in trouble is the first
    assert.equal(await page.getAttribute('.row:nth-of-type(1)', 'data-gpu'), 'SIM-rtx-4060-1');
    assert.match(await page.innerText('.row-says'), /°C/);
    assert.match(await page.title(), /^\(\d+\) berth/);
    await page.click('.attention-item.tone-bad a');
    await until(page, () => location.hash === '#/gpu/SIM-rtx-4060-1');
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('a device vanishes while the page is open', async () => {
  const d = await Daemon.start({ scenario: 'devices: 2xl4\ntimeline:\n  - {at: 6s, device: 1, lost: true}\n' });
  try {
    const page = await open(d);
    await until(page, () => document.querySelectorAll('.row').length === 2);
    await page.waitForSelector('.attention-item >> text=/UNAVAILABLE|GPU 1/');
    await page.goto(`${d.url}#/gpu/SIM-l4-77`);
    await until(page, () => document.querySelector('main').innerText.length > 20);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});
