// The overview with 4, 16 and 64 GPUs on a laptop, on a large screen and on a phone, in
// light and in dark: axe-core finds nothing, nothing is cut off, and it takes no more
// screens than it should.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, test } from 'node:test';
import { closeBrowser, Daemon, open, until } from './harness.mjs';

after(closeBrowser);

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const screens = [
  { name: 'laptop', viewport: { width: 1400, height: 900 } },
  { name: 'large', viewport: { width: 2560, height: 1440 } },
  { name: 'phone', viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
];

// The heights of a row by the number of GPUs.
const heights = { laptop: { 4: 46, 16: 32, 64: 23 }, large: { 4: 64, 16: 36, 64: 25 }, phone: { 4: 46, 16: 36, 64: 23 } };

for (const [count, leases] of [[4, 12], [16, 40], [64, 90]]) {
  test(`${count} GPUs on three screens`, async () => {
    // One device is CRITICAL from the beginning.
    const d = await Daemon.start({ scenario: `devices: ${count}xrtx-4060\nspeed: 20\ntimeline:\n  - {device: all, load: 20}\n  - {device: ${count - 1}, ambient_celsius: 60, load: 100, cooling: 0.2}\n`, config: 'gpu:\n  max_pipelines: 8\n' });
    try {
      for (let i = 0; i < leases; i++) await d.lease({ id: `train-resnet-50-fold-${i}`, service: `service-${i % 4}`, gpu: String(i % (count - 1)), memory_mb: 512 + (i % 3) * 256, slots: 0, time_limit_seconds: 3600 });
      await d.wait({ id: 'waits', gpu: '0', memory_mb: 7400 });
      const { value } = await d.request('POST', '/api/tokens', { name: 'viewer', role: 'viewer' });
      const uuid = `SIM-rtx-4060-${count - 1}`;
      while ((await d.request('GET', `/api/gpu/status?gpu=${uuid}`)).value.state !== 'CRITICAL') await new Promise((r) => setTimeout(r, 200));
      for (const colorScheme of ['light', 'dark']) {
        for (const { name, ...screen } of screens) {
          const page = await open(d, { ...screen, colorScheme, bypassCSP: true });
          await until(page, (n) => document.querySelectorAll('.row').length === n && document.querySelector('.someone') !== null && document.querySelector('.own-one') !== null && document.querySelector('.waiting') !== null, count);
          const where = `${count} GPUs, ${name}, ${colorScheme}`;
          const seen = await page.evaluate(() => {
            const box = (what) => document.querySelector(what).getBoundingClientRect();
            return {
              wide: document.documentElement.scrollWidth, high: document.documentElement.scrollHeight,
              first: document.querySelector('.row').dataset.gpu, trouble: box('.row.trouble').bottom,
              who: box('.someone').bottom, stop: box('.own-one button').bottom, rows: box('.rows'), aside: box('.aside'),
              dark: document.documentElement.dataset.theme,
              cut: [...document.querySelectorAll('th.row-name, td.row-state, td.row-power, td.row-slots')].filter((c) => c.scrollWidth > c.clientWidth).map((c) => c.innerText),
              row: document.querySelector('.row:not(.trouble) > tr').getBoundingClientRect().height,
            };
          });
          assert.equal(seen.dark, colorScheme);
          assert.ok(seen.wide <= screen.viewport.width, `${where}: ${seen.wide} wide`);
          assert.equal(seen.first, uuid, `${where}: the one in trouble is the first`);
          assert.ok(seen.trouble <= screen.viewport.height, `${where}: it is seen at once`);
          assert.ok(seen.stop <= screen.viewport.height, `${where}: so is what stops mine`);
          assert.deepEqual(seen.cut, [], `${where}: cells that are cut`);
          assert.ok(Math.abs(seen.row - heights[name][count]) < 1.5, `${where}: a row is ${seen.row} high`);
          if (name !== 'phone') {
            assert.ok(seen.who <= screen.viewport.height, `${where}: and who`);
            assert.ok(seen.high <= 2 * screen.viewport.height, `${where}: ${seen.high} high`);
            assert.ok(seen.aside.right >= screen.viewport.width - 30, `${where}: the whole width is used`);
          } else {
            // The person and the way in are there, and the list is before everything else.
            assert.ok(await page.locator('.person-name').isVisible(), `${where}: the person`);
            assert.ok(await page.getByRole('button', { name: 'Sign in' }).isVisible(), `${where}: Sign in`);
            assert.equal(await page.locator('.card').count(), 0);
            assert.ok(seen.rows.top < seen.aside.top, `${where}: the list is first`);
          }
          await page.evaluate(axe);
          const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
          assert.deepEqual(violations.map((v) => `${v.id}: ${v.help}\n  ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join('\n  ')}`), [], where);
          assert.deepEqual(page.faults(), []);
          await page.context().close();
        }
      }
      // A viewer sees no names, and no buttons of others.
      const looks = await open(d, { extraHTTPHeaders: { Authorization: `Bearer ${value.token}` } });
      await until(looks, () => document.querySelector('.someone') !== null);
      assert.doesNotMatch(await looks.innerText('main'), /\broot\b/);
      assert.equal(await looks.locator('[data-act]').count(), 0);
    } finally {
      await d.stop();
    }
  });
}

test('a phone signs in and out', async () => {
  const d = await Daemon.start({ scenario: '1' });
  try {
    const { value } = await d.request('POST', '/api/tokens', { name: 'op', role: 'operator' });
    const page = await open(d, { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
    await page.getByRole('button', { name: 'Sign in' }).tap();
    await page.fill('#token', value.token);
    await page.locator('dialog button.main').tap();
    await page.waitForSelector('.person-name >> text=token:op');
    await page.getByRole('button', { name: 'Sign out' }).tap();
    await page.waitForSelector('.person >> text=Sign in');
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 390, `${wide} wide`);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('the menu fits beside the person, or has a line of its own', async () => {
  const d = await Daemon.start({ scenario: '1' });
  try {
    const page = await open(d, { viewport: { width: 1400, height: 900 } });
    await page.waitForSelector('.row');
    for (const width of [1400, 1000, 650]) {
      await page.setViewportSize({ width, height: 900 });
      const seen = await page.evaluate(() => {
        const [menu, person] = ['.top nav', '.top-end'].map((what) => document.querySelector(what).getBoundingClientRect());
        return { wide: document.documentElement.scrollWidth, beside: person.left >= menu.right, above: person.bottom <= menu.top };
      });
      assert.ok(seen.wide <= width, `${seen.wide} wide at ${width}`);
      assert.deepEqual([seen.beside, seen.above], width === 1400 ? [true, false] : [false, true], `at ${width}`);
    }
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});
