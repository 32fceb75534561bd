// The daemon goes and comes back, and the event stream is cut in the middle.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { closeBrowser, Daemon, open, until } from './harness.mjs';

after(closeBrowser);

const broken = [/ERR_/]; // requests that nobody answers are named in the console

for (const signal of ['SIGTERM', 'SIGKILL']) {
  test(`the daemon ends by ${signal}, and the page recovers by itself`, async () => {
    const d = await Daemon.start({ scenario: '2' });
    try {
      const page = await open(d, { expected: broken });
      await until(page, () => document.querySelectorAll('.row').length === 2);
      await d.lease({ id: 'before', memory_mb: 1024 });
      await page.waitForSelector('.berth >> text=before');

      await d.end(signal);
      await page.waitForSelector('.attention-item >> text=/No daemon/');
      await until(page, () => /no daemon/.test(document.querySelector('.live').innerText));
      assert.equal(await page.locator('.row').count(), 2, 'what was known stays to be read');

      assert.match(await page.innerText('.age'), /This is \d+.(s|min).* old/);
      assert.match(await page.evaluate(() => getComputedStyle(document.querySelector('.content')).filter), /grayscale/, 'what is old is grey');

      await d.run();
      await until(page, () => document.querySelector('.live').innerText.trim() === 'live');
      await until(page, () => document.querySelector('.attention-item') === null && document.querySelector('.age') === null);
      await d.lease({ id: 'after', memory_mb: 1024 });
      await page.waitForSelector('.berth >> text=after');
      await page.waitForSelector('.events >> text=after holds'); // the stream of events goes on
      assert.deepEqual(page.faults(), []);
    } finally {
      await d.stop();
    }
  });
}

test('a daemon that does not answer makes the page stale', async () => {
  const d = await Daemon.start({ scenario: '2' });
  try {
    const page = await open(d, { expected: broken });
    await until(page, () => document.querySelectorAll('.row').length === 2);
    d.process.kill('SIGSTOP');
    await page.waitForSelector('.attention-item >> text=/Stale|No daemon/');
    await until(page, () => /stale|no daemon/.test(document.querySelector('.live').innerText));
    d.process.kill('SIGCONT');
    await until(page, () => document.querySelector('.live').innerText.trim() === 'live');
    await until(page, () => document.querySelector('.attention-item') === null);
  } finally {
    d.process.kill('SIGCONT');
    await d.stop();
  }
});
