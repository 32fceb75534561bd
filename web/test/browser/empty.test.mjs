// Lists that are empty say what they would show, and the command that makes the first row.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { closeBrowser, Daemon, open } from './harness.mjs';

after(closeBrowser);

const berth = process.env.BERTH_BIN ?? fileURLToPath(new URL('../../../bin/berth', import.meta.url));
const command = /^berth ([a-z]+(?: [a-z]+)?)/;

test('an empty list says what it would show, and how the first row comes', async () => {
  const d = await Daemon.start({ scenario: '2' });
  try {
    const page = await open(d, { viewport: { width: 1400, height: 900 } });
    await page.route('**/api/tokens*', (route) => route.fulfill({ json: { tokens: [] } }));
    for (const [name, title, first] of [
      ['jobs', 'No jobs', 'submit'], ['services', 'No services', 'start chat'], ['leases', 'No leases', 'exec'], ['users', 'No users', 'exec'], ['batches', 'No batches', 'run'], ['tokens', 'No tokens', 'token create'],
    ]) {
      await page.goto(`${d.url}#/${name}`);
      await page.waitForSelector(`[data-list=${name}] .list-empty h2`);
      assert.equal(await page.innerText('.list-empty h2'), title);
      const said = (await page.innerText('.list-empty .command')).split('\n').flatMap((line) => command.exec(line)?.[1] ?? []);
      assert.equal(said.at(-1), first, name);
      for (const words of said) await promisify(execFile)(berth, [...words.split(' '), '--help']);
      const manual = await page.getAttribute('.list-empty a', 'href');
      assert.equal((await fetch(new URL(manual, d.url))).status, 200, manual);
      assert.equal(await page.locator('.list').count(), 0, `${name}: there is no table without rows`);
    }
    await page.goto(`${d.url}#/jobs?text=xyzzy`);
    await page.waitForSelector('.list-empty >> text=No job fits the filter.');
    // The parts of the overview say it in a sentence.
    await page.goto(`${d.url}#/`);
    for (const part of ['mine', 'who', 'queue']) await page.waitForSelector(`[aria-labelledby=${part}] .empty code`);
    await page.goto(`${d.url}#/alerts`);
    await page.waitForSelector('.empty code >> text=alerts.rules');
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});
