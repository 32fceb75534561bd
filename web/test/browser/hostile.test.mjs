// Names are chosen by users: markup in them is shown, and never run.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { closeBrowser, Daemon, open, until } from './harness.mjs';

after(closeBrowser);

const names = ['<img src=x onerror=alert(1)>', '<script>alert(2)</script>', '"><svg onload=alert(3)>', "javascript:alert(4)//%00'", '../../%2e%2e/api', '{{7*7}}${7*7}'];

test('markup in names is shown and never run', async () => {
  const d = await Daemon.start({ scenario: '1', config: 'gpu:\n  max_pipelines: 16\n' });
  try {
    for (const [i, name] of names.entries()) await d.lease({ id: name, service: name.slice(0, 100), name: `${name} ${i}`, memory_mb: 2048 });
    await d.wait({ id: '<b onclick=alert(5)>waits</b>', memory_mb: 140000 });
    const page = await open(d);
    await page.waitForSelector('.row');
    await until(page, (n) => document.querySelectorAll('.berth:not(.stranger)').length === n, names.length);
    const shown = await page.evaluate(() => [...document.querySelectorAll('.berth:not(.stranger) .berth-id')].map((b) => b.textContent));
    assert.deepEqual(shown.sort(), [...names].sort());
    await page.waitForSelector('.waiting >> text=<b onclick=alert(5)>waits</b>');
    await page.fill('input[type=search]', '<img');
    await until(page, () => document.querySelectorAll('.berth:not(.stranger)').length === 1);
    await page.fill('input[type=search]', '');
    // Every lease has a page of its own, whatever it is called.
    for (const name of names) {
      const href = await page.evaluate((id) => [...document.querySelectorAll('a.berth-id')].find((a) => a.textContent === id)?.getAttribute('href'), name);
      assert.ok(href?.startsWith('#/lease/'), `${name} leads to ${href}`);
      await page.goto(d.url + href);
      await until(page, (id) => document.querySelector('main').innerText.includes(id) || document.querySelector('main').innerText.includes('Nothing here yet'), name);
      await page.goto(`${d.url}#/`);
      await page.waitForSelector('.row');
      await until(page, (n) => document.querySelectorAll('.berth:not(.stranger)').length === n, names.length);
    }
    await page.goto(`${d.url}#/events`);
    await page.waitForSelector('.list tbody tr');
    assert.equal(await page.evaluate(() => document.querySelectorAll('main img, main script, main svg[onload], main b[onclick]').length), 0);
    for (const hash of ['#/lease/%3Cimg%20src=x%20onerror=alert(9)%3E/x', '#/gpu/%3Cscript%3Ealert(1)%3C/script%3E', '#/<b>', '#/%zz', '#/events?text=<img src=x onerror=alert(1)>&gpu=<b>&code=<i>&severity=<u>']) {
      await page.goto(d.url + hash);
      await until(page, () => document.querySelector('main').innerText.trim() !== '');
    }
    const own = page.faults().filter((f) => !/api\/leases\/|api\/past|404/.test(f)); // leases and devices that are not there
    assert.deepEqual(own, []);
  } finally {
    await d.stop();
  }
});
