// The manual: under /help of a daemon, without a script, and as the static site of make site.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { browser, closeBrowser, Daemon, open, patient } from './harness.mjs';

after(closeBrowser);

const site = new URL('../../../dist/site/', import.meta.url);

// found returns where the results of a search lead, without what differs between the two.
const found = (page) => page.$$eval('.found a', (links) => links.map((a) => a.getAttribute('href').replace(/^help\//, '').replace('.html', '')));

// above returns what is said above the results: what berth lacks, and its commands.
const above = (page) => page.$$eval('#found .answer, #found .commands', (list) => list.map((p) => p.textContent.trim()));

test('a person finds a page without a script, in light and in dark, also on a phone', async () => {
  const d = await Daemon.start({ scenario: '2' });
  try {
    for (const options of [{}, { colorScheme: 'dark' }, { viewport: { width: 390, height: 844 } }]) {
      const page = await open(d, { hash: '', javaScriptEnabled: false, ...options });
      await page.goto(new URL('help', d.url).href);
      await page.fill('input[name=q]', 'throttling power');
      await page.click('text=Search');
      await page.click('.found a >> nth=0');
      assert.match(page.url(), /\/help\/[a-z-]+(#[a-z-]+)?$/);
      await page.goto(new URL('help/looking', d.url).href);
      const [wide, screen, shown] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth, document.querySelectorAll('main img').length]);
      assert.ok(wide <= screen, `${wide} pixels on ${screen}`);
      assert.ok(shown > 8, `${shown} pictures`);
      await page.click('text=The GPUs');
      assert.equal(new URL(page.url()).pathname, '/');
      assert.deepEqual(page.faults(), []);
      await page.context().close();
    }
    const page = await open(d);
    await page.click('.top >> text=Manual');
    await page.waitForSelector('h1 >> text=The pages of berth');
    assert.deepEqual(page.faults(), []);
    await page.context().close();
  } finally {
    await d.stop();
  }
});

test('the site finds what the daemon finds', async () => {
  const d = await Daemon.start({ scenario: '2' });
  const context = await (await browser()).newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(patient);
  const faults = [];
  page.on('pageerror', (err) => faults.push(err));
  try {
    for (const question of ['heat', 'PARK memory', 'temp_critical', 'out of memory', 'contain', 'über', 'a', 'nothing-has-this xyzzy', 'Prometheus', 'tmux', 'reservations', 'stop', 'constructor']) {
      await page.goto(new URL(`help?q=${encodeURIComponent(question)}`, d.url).href);
      const [want, said] = [await found(page), await above(page)];
      await page.goto(`${site.href}search.html?q=${encodeURIComponent(question)}`);
      assert.deepEqual(await found(page), want, question);
      assert.deepEqual(await above(page), said, question);
      assert.equal(said.length > 0, ['Prometheus', 'tmux', 'reservations', 'stop'].includes(question), `${question}: ${said}`);
      assert.equal(want.length > 0, !/xyzzy|über|constructor/.test(question), `${question}: ${want.length}`);
    }
    await page.goto(`${site.href}search.html?q=heat`);
    await page.click('.found a >> nth=0');
    assert.match(page.url(), new RegExp(`^${site.href}heat.html`));
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
    await d.stop();
  }
});
