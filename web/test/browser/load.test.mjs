// What the first load takes, and what the daemon says about it.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { firstLoad, limit } from '../../size.mjs';
import { browser, closeBrowser, Daemon, open, until } from './harness.mjs';
import { fileURLToPath } from 'node:url';

after(closeBrowser);

test('the first load is small, from one host, and under a strict policy', async () => {
  const files = firstLoad(fileURLToPath(new URL('../../../internal/door/webui/page', import.meta.url)));
  assert.ok(files.length > 3, `the page has ${files.length} files`);
  const d = await Daemon.start({ scenario: '2' });
  try {
    const context = await (await browser()).newContext();
    const page = await context.newPage();
    const session = await context.newCDPSession(page);
    await session.send('Network.enable');
    const names = new Map();
    let bytes = 0;
    session.on('Network.responseReceived', (e) => names.set(e.requestId, new URL(e.response.url)));
    session.on('Network.loadingFinished', (e) => {
      if (!names.get(e.requestId)?.pathname.startsWith('/api')) bytes += e.encodedDataLength;
    });
    const answer = await page.goto(d.url);
    await until(page, () => document.querySelectorAll('.row').length === 2);
    console.log(`the first load took ${bytes} bytes; the limit is ${limit}`);
    assert.ok(bytes > 10_000 && bytes <= limit, `the first load took ${bytes} bytes`);
    const policy = answer.headers()['content-security-policy'];
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /script-src 'self'(;|$)/);
    assert.match(policy, /style-src 'self'(;|$)/);
    assert.ok(!/unsafe|\*|https?:/.test(policy), policy);
    assert.equal(await page.evaluate(() => document.querySelectorAll('script:not([src]), style, [onclick], [onload]').length), 0);
    await context.close();
  } finally {
    await d.stop();
  }
});

test('the first load asks once, and for what it shows', async () => {
  const d = await Daemon.start({ scenario: '2', config: 'gpu:\n  max_pipelines: 64\n' });
  try {
    let last;
    for (let i = 0; i < 40; i++) last = await d.lease({ id: `lease-${i}`, gpu: '1', memory_mb: 100 });
    // The page knows the daemon's clock by its samples: what is about as old as they are,
    // it asks for again.
    for (let newest = 0; newest < Date.parse(last.granted) + 10_000; await new Promise((r) => setTimeout(r, 100))) {
      const { value } = await d.request('GET', '/api/gpu/status/all');
      newest = Math.max(...value.gpus.map((g) => Date.parse(g.sample?.time ?? 0)));
    }
    const asked = [];
    const context = await (await browser()).newContext({ viewport: { width: 1400, height: 900 } });
    const page = await context.newPage();
    page.on('request', (r) => asked.push({ at: performance.now(), path: r.url().replace(d.url, '/') }));
    await page.goto(d.url);
    await until(page, () => document.querySelectorAll('.row').length === 2 && document.querySelector('.event') !== null);
    const times = (path) => asked.filter((a) => a.path === path).map((a) => a.at);
    while (times('/api/gpu/status/all').length < 3) await page.waitForEvent('request');
    // What is shown is asked for before the scripts are there.
    const script = asked.findIndex((a) => /jobs|explain|events/.test(a.path));
    for (const path of ['/api/gpu/status/all', '/api/leases', '/api/gpu/memory/available', '/api/whoami', '/api/gpu/config']) {
      const at = asked.findIndex((a) => a.path === path);
      assert.ok(at >= 0 && at < script, `${path} is asked for first: ${asked.map((a) => a.path).join(' ')}`);
    }
    // Events of leases that the list has already do not have it asked for again.
    const [first, second = Infinity] = times('/api/leases');
    assert.ok(second - first > 3000, `the leases were asked for again after ${second - first} ms`);
    assert.deepEqual(asked.filter((a) => a.path.startsWith('/api/events')).map((a) => a.path), ['/api/events?newest=20']);
    // A view of one GPU has what happened to it before all that.
    await page.goto(`${d.url}#/gpu/SIM-h200-0`);
    await until(page, () => /GPU 0 was found/.test(document.querySelector('.view .events')?.innerText ?? ''));
    assert.ok(asked.some((a) => a.path === '/api/events?follow=false&gpu=SIM-h200-0&newest=40'));
    await context.close();
  } finally {
    await d.stop();
  }
});

test('the keyboard reaches everything', async () => {
  const d = await Daemon.start({ scenario: '2' });
  try {
    const page = await open(d);
    await until(page, () => document.querySelectorAll('.row').length === 2);
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
    await page.keyboard.press('/');
    assert.equal(await page.evaluate(() => document.activeElement.type), 'search');
    await page.keyboard.type('?g');
    assert.equal(await page.inputValue('input[type=search]'), '?g', 'keys are text while somebody types');
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await page.waitForSelector('dialog[open] >> text=Keyboard');
    await page.keyboard.press('Escape');
    await until(page, () => document.querySelector('dialog[open]') === null);
    for (const [key, hash] of [['e', '#/events'], ['a', '#/alerts'], ['b', '#/batches'], ['p', '#/plans'], ['o', '#/']]) {
      await page.keyboard.press('g');
      await page.keyboard.press(key);
      await until(page, (want) => location.hash === want, hash);
    }
    await until(page, () => document.querySelectorAll('.row').length === 2);
    // Every link and button shows that it has the focus.
    const bare = await page.evaluate(() => [...document.querySelectorAll('a, button, input')].filter((e) => {
      e.focus({ focusVisible: true });
      return e.matches(':focus-visible') && getComputedStyle(e).outlineStyle === 'none';
    }).map((e) => e.outerHTML.slice(0, 80)));
    assert.deepEqual(bare, []);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});
