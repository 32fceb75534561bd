// Every list, as a person uses it: what is filtered, sorted and shown is in the address,
// rows open beside the list, and thousands of rows scroll.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { closeBrowser, until } from './harness.mjs';
import { as, busy, hostile, world } from './lists-world.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
let d;
let ids;

before(async () => {
  d = await world();
  ids = await busy(d);
});
after(async () => {
  await d?.stop();
  await closeBrowser();
});

const rows = (page) => page.locator('.list tbody tr:not(.gap)');
const titles = (page) => page.locator('.list td.title').allInnerTexts();
const go = async (page, hash, sign = '.list tbody tr') => {
  await page.goto(d.url + hash);
  await page.waitForSelector(sign);
};

test('each list has its rows, and each row opens', async () => {
  const page = await as(d, 'admin', { viewport: { width: 1400, height: 900 } });
  for (const [name, row, says] of [
    ['jobs', ids.train, /8.GiB[\s\S]*epoch \d+ loss/],
    ['services', 'chat', /ready[\s\S]*Came to a GPU\s+once[\s\S]*http\.server/],
    ['users', 'ada', /Holds[\s\S]*Quota[\s\S]*memory[\s\S]*300.GiB/],
    ['batches', 'root/vectors', /400 of 1,000 records/],
    ['events', undefined, /Number/],
    ['tokens', undefined, /Role\s+admin/],
  ]) {
    await go(page, `#/${name}`);
    const it = row === undefined ? rows(page).first() : page.locator(`.list tr[data-row="${row}"]`);
    await it.locator('a').click();
    await page.waitForSelector('.peek h2');
    await page.waitForFunction(([text, flags]) => new RegExp(text, flags).test(document.querySelector('.peek').innerText), [says.source, says.flags]);
    if (row) assert.ok(decodeURIComponent(page.url()).includes(`#/${name}/${row}`), page.url());
    await page.keyboard.press('Escape');
    await until(page, () => document.querySelector('.peek') === null);
  }
  // Leases: pools with their parts, requests, and ended ones.
  await go(page, '#/leases');
  await until(page, () => [...document.querySelectorAll('.list td.title')].some((t) => t.innerText === 'old'));
  const all = await titles(page);
  assert.deepEqual(all.slice(all.indexOf('pool'), all.indexOf('pool') + 3), ['pool', '└ pool-a', '└ pool-b']);
  assert.match(await page.innerText('.list tr[data-row*="/pool#"]'), /6.GiB taken by 2 parts, 14.GiB left/);
  assert.match(await page.innerText('.list tr[data-row*="/waits#"]'), /waiting[\s\S]*in the queue/);
  assert.match(await page.innerText('.list tr[data-row*="/old#"]'), /ended[\s\S]*was released by root/);
  await page.locator('.list tr[data-row*="/notebook#"]').click();
  await until(page, () => location.hash === '#/lease/root/notebook');
  assert.deepEqual(page.faults(), []);
});

test('columns have room for what they show, and the reason has the most', async () => {
  const page = await as(d, 'admin', { viewport: { width: 1400, height: 900 } });
  for (const name of ['jobs', 'services', 'leases', 'users', 'batches', 'events', 'tokens']) {
    await go(page, `#/${name}`);
    const { cut, widths } = await page.evaluate(() => {
      const cols = [...document.querySelectorAll('.list col')].map((c) => c.style.width !== '');
      const cut = [];
      for (const row of document.querySelectorAll('.list tbody tr:not(.gap)')) {
        [...row.cells].forEach((cell, i) => {
          const time = cell.querySelector('time');
          if (time) time.textContent = time.textContent.includes('in ') ? 'in 59\u202fmin' : '59\u202fmin ago';
          if (i > 0 && cols[i] && cell.querySelector('.cut') === null && cell.scrollWidth > cell.clientWidth) cut.push(cell.innerText);
        });
      }
      const heads = [...document.querySelectorAll('.list th')];
      return { cut, widths: Object.fromEntries(heads.map((h) => [h.innerText.trim(), h.offsetWidth])) };
    });
    assert.deepEqual(cut.filter((text) => !text.includes('<img')), [], `${name}: what has no room`);
    const most = { jobs: 'Why', services: 'Why', leases: 'Note', users: 'Of the quota', batches: 'Batch', events: 'Event', tokens: 'Token' }[name];
    assert.equal(Object.keys(widths).reduce((a, b) => (widths[b] > widths[a] ? b : a)), most, `${name}: ${JSON.stringify(widths)}`);
  }
  assert.deepEqual(page.faults(), []);
});

test('filter, order and columns are in the address, and survive a reload and the back button', async () => {
  const page = await as(d, 'operator');
  await go(page, '#/jobs');
  assert.match(await page.innerText('.list-tools [aria-label=State]'), /2 failed/);
  await page.click('.list-tools [aria-label=State] >> text=failed');
  await until(page, () => document.querySelectorAll('.list tbody tr').length === 2);
  await page.click('.list th >> text=Job');
  await page.click('.list th >> text=Job');
  await page.click('.menu summary');
  await page.click('.menu-box >> text=Exit');
  await page.click('.menu-box >> text=User');
  await page.keyboard.press('Escape');
  await until(page, () => !document.querySelector('.menu').open);
  await page.fill('input[type=search]', 'broken');
  await until(page, () => document.querySelectorAll('.list tbody tr').length === 1);
  const params = new URLSearchParams(new URL(page.url()).hash.split('?')[1]);
  assert.deepEqual(Object.fromEntries(params), { state: 'failed', sort: '-id', cols: 'state,why,gpu,memory_mb,seconds,submitted,starts,exit', text: 'broken' });
  const look = () => page.evaluate(() => [...document.querySelectorAll('.list th, .list td.title')].map((e) => e.innerText));
  const shown = await look();
  assert.ok(shown.includes('Exit') && !shown.includes('User') && shown.includes(ids.broken), shown.join());
  await page.reload();
  await page.waitForSelector('.list tbody tr');
  assert.deepEqual(await look(), shown);
  assert.equal(await page.inputValue('input[type=search]'), 'broken');

  // Opening a row is a step that the back button takes back, with the filter as it was.
  const list = page.url();
  await page.click('.list td.title a');
  await page.waitForSelector('.peek h2');
  assert.notEqual(page.url(), list);
  await page.goBack();
  await until(page, () => document.querySelector('.peek') === null);
  assert.equal(page.url(), list);
  await page.goForward();
  await page.waitForSelector('.peek h2');
  await page.reload();
  await page.waitForSelector('.peek >> text=it breaks');
  await page.click('.peek-close');
  await page.click('text=Show all');
  await until(page, () => document.querySelectorAll('.list tbody tr').length === 6);
  assert.deepEqual(page.faults(), []);
});

test('what is shown is saved as CSV and as JSON', async () => {
  const page = await as(d, 'operator');
  await go(page, '#/leases?state=active&sort=id&cols=user,memory_mb');
  const save = async (name) => {
    const [file] = await Promise.all([page.waitForEvent('download'), page.click(`.exports >> text=${name}`)]);
    assert.match(file.suggestedFilename(), new RegExp(`^berth-leases-.*\\.${name.toLowerCase()}$`));
    return readFileSync(await file.path(), 'utf8');
  };
  const csv = (await save('CSV')).split('\r\n');
  assert.equal(csv[0], 'id,user,memory_mb');
  assert.ok(csv.includes('notebook,root,20480'), csv.join('\n'));
  assert.ok(csv.includes(`${hostile},root,1024`), csv.join('\n'));
  const json = JSON.parse(await save('JSON'));
  assert.ok(json.some((r) => r.id === 'pool' && r.memory_mb === 20480));
  assert.ok(json.every((r) => Object.keys(r).join() === 'id,user,memory_mb'));
  assert.deepEqual(page.faults(), []);
});

test('the keyboard alone: choose, open, go on, close, filter, act', async () => {
  const page = await as(d, 'operator');
  await go(page, '#/', 'nav a[aria-current]');
  await page.keyboard.press('g');
  await page.keyboard.press('j');
  await page.waitForSelector('.list tbody tr');
  const at = () => page.evaluate(() => document.querySelector('.list tr[aria-selected=true] td')?.innerText ?? '');
  await page.keyboard.press('j');
  const first = await at();
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('role')), 'grid');
  assert.equal(await page.evaluate(() => document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).querySelector('td').innerText), first);
  await page.keyboard.press('j');
  await page.keyboard.press('ArrowDown');
  const third = await at();
  assert.notEqual(third, first);
  await page.keyboard.press('k');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.peek h2');
  const opened = await page.innerText('.peek h2');
  await page.keyboard.press('j');
  await until(page, (was) => document.querySelector('.peek h2').innerText !== was, opened);
  assert.ok(third.startsWith(await page.innerText('.peek h2')));
  await page.keyboard.press('Escape');
  await until(page, () => document.querySelector('.peek') === null);
  await page.keyboard.press('Home');
  assert.equal(await at(), first);
  await page.keyboard.press('/');
  await page.keyboard.type('train');
  await until(page, () => document.querySelectorAll('.list tbody tr').length === 1);
  assert.match(await page.evaluate(() => location.hash), /text=train/);
  await page.keyboard.press('Enter');
  assert.equal(await at(), ids.train);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.peek [role=log] >> text=epoch');
  // Tab goes from the list to the button that closes what is open, to what can be done.
  for (let i = 0; i < 20 && (await page.evaluate(() => document.activeElement.ariaLabel)) !== 'Close'; i++) await page.keyboard.press('Tab'); // past the headings
  assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), 'Close');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.dataset.act), 'cancel-job');
  await page.keyboard.press('Enter');
  await page.waitForSelector('dialog[open]');
  await page.keyboard.press('Escape');
  await until(page, () => document.querySelector('dialog') === null);
  for (const [key, hash] of [['s', '#/services'], ['l', '#/leases'], ['u', '#/users'], ['b', '#/batches'], ['r', '#/reports'], ['e', '#/events'], ['o', '#/']]) {
    await page.keyboard.press('g');
    await page.keyboard.press(key);
    await until(page, (want) => location.hash === want, hash);
  }
  assert.deepEqual(page.faults(), []);
});

test('ten thousand jobs scroll', async () => {
  const page = await as(d, 'operator');
  const many = Array.from({ length: 10_000 }, (_, i) => ({
    id: `job-${10_000 - i}`, user: ['ada', 'eve', 'bob'][i % 3], state: ['running', 'waiting', 'done', 'failed'][i % 4], submitted: new Date(1.76e12 - i * 60_000).toISOString(), priority: i % 7, gpus: 1, memory_mb: 1024 * (i % 40),
  }));
  await page.route(/\/api\/jobs(\?|$)/, (r) => r.fulfill({ json: { jobs: many } }));
  await go(page, '#/jobs');
  assert.equal(await page.innerText('.list-count'), '10,000');
  assert.equal(await page.getAttribute('.list', 'aria-rowcount'), '10001');
  const drawn = () => rows(page).count();
  assert.ok((await drawn()) < 80, `${await drawn()} rows are drawn`);
  // Through all of it, in steps as a wheel makes them: there is always a row to see.
  const empty = await page.evaluate(async () => {
    const frame = document.querySelector('.list-frame');
    let bad = 0;
    for (let y = 0; y < frame.scrollHeight; y += 9000) {
      frame.scrollTop = y;
      await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
      const box = frame.getBoundingClientRect();
      if (document.elementFromPoint(box.left + 60, box.top + box.height / 2)?.closest('tr')?.dataset.row === undefined) bad++;
    }
    return bad;
  });
  assert.equal(empty, 0, 'a place without rows');
  assert.ok((await drawn()) < 80, `${await drawn()} rows are drawn`);
  await page.keyboard.press('End');
  await page.waitForSelector('.list tr[data-row=job-1][aria-selected=true]');
  await page.click('.list th >> text=Memory');
  await page.keyboard.press('Home');
  await until(page, () => /39.GiB/.test(document.querySelector('.list tr[aria-selected=true]')?.innerText));
  await page.fill('input[type=search]', 'job-77');
  await until(page, () => document.querySelector('.list-count').innerText === '111 of 10,000');
  await page.selectOption('select[aria-label=User]', 'eve');
  await until(page, () => /^3\d of 10,000$/.test(document.querySelector('.list-count').innerText));
  assert.deepEqual(page.faults(), []);
});

test('a list prints all its rows, up to two thousand, under its headings', async () => {
  const page = await as(d, 'admin');
  let length = 300;
  const answer = () => Array.from({ length }, (_, i) => ({ id: `job-${i}`, user: 'ada', state: 'done', submitted: '2026-11-17T12:00:00Z', priority: 0, gpus: 1, memory_mb: 1024 }));
  await page.route(/\/api\/jobs(\?|$)/, (route) => route.fulfill({ json: { jobs: answer() } }));
  await go(page, '#/jobs');
  await until(page, () => document.querySelector('.list-count').innerText === '300');
  assert.ok(await rows(page).count() < 100);
  const pages = async () => (await page.pdf({ format: 'A4' })).toString('latin1').match(/\/Type\s*\/Page\b/g).length;
  const whole = await pages();
  assert.ok(whole >= 4, `300 rows take ${whole} pages`);
  await until(page, () => document.querySelectorAll('.list tbody tr:not(.gap)').length < 100); // as before
  // What is on paper, as the browser sees it while it prints.
  await page.emulateMedia({ media: 'print' });
  const printing = (name) => page.evaluate((type) => dispatchEvent(new Event(type)), name);
  await printing('beforeprint');
  await until(page, () => document.querySelectorAll('.list tbody tr').length === 300);
  assert.equal(await page.locator('.list th button').first().isVisible(), true);
  assert.equal(await page.locator('.list-tools').isVisible(), false);
  assert.equal(await page.locator('.list-cut').count(), 0);
  assert.ok(await page.evaluate(() => document.querySelector('.list-frame').clientHeight >= document.querySelector('.list').offsetHeight));
  await printing('afterprint');
  await page.emulateMedia({ media: 'screen' });
  length = 2500;
  await page.reload();
  await until(page, () => document.querySelector('.list-count')?.innerText === '2,500');
  await printing('beforeprint');
  await until(page, () => document.querySelectorAll('.list tbody tr').length === 2000);
  assert.equal(await page.innerText('.list-cut'), 'These are the first 2,000 of 2,500 rows. CSV and JSON have all of them.');
  await printing('afterprint');
  await until(page, () => document.querySelector('.list-cut') === null);
  assert.deepEqual(page.faults(), []);
});

test('the report of any range is shown in place, and runs nothing', async () => {
  const page = await as(d, 'user');
  await go(page, '#/reports?since=1h', 'iframe.report');
  const frame = page.frameLocator('iframe.report');
  await frame.locator('h1 >> text=GPU report').waitFor();
  await until(page, () => document.querySelector('.list-count').innerText === '');
  await page.click('.tab >> text=month');
  await until(page, () => location.hash === '#/reports?since=720h');
  await until(page, () => document.querySelector('iframe.report').src.endsWith('since=720h') && document.querySelector('.list-count').innerText === '');
  await frame.locator('h1 >> text=GPU report').waitFor(); // of a month, or of what was measured of it
  await page.fill('.range label:first-child input', '2026-11-01T08:00');
  await page.fill('.range label:last-of-type input', '2026-11-01T07:00');
  await page.click('.range button');
  await page.waitForSelector('.notice >> text=at least a minute before');
  await page.fill('.range label:last-of-type input', '2026-11-02T07:00');
  await page.click('.range button');
  await until(page, () => location.hash.includes('since=2026-11-01T08%3A00%3A00.000Z&until=2026-11-02T07%3A00%3A00.000Z'));
  await frame.locator('text=/1 November 2026/').first().waitFor();
  // No other page may show it in a frame, and it may run nothing.
  const { headers } = await page.evaluate(async () => { const r = await fetch('/api/report?since=1h'); return { headers: Object.fromEntries(r.headers) }; });
  assert.match(headers['content-security-policy'], /default-src 'none'.*frame-ancestors 'self'; sandbox$/);
  assert.deepEqual(page.faults(), []);
});

test('names that mean harm are shown, run nothing, and tear nothing', async () => {
  const page = await as(d, 'admin', { viewport: { width: 1400, height: 900 } });
  const long = 'W'.repeat(300);
  const names = [hostile, '"><svg onload=alert(3)>', "javascript:alert(4)//'", '../../api', '{{7*7}}', '\u202egnp.exe', long, 'a\u0000b\u001b[31m'];
  await page.route(/\/api\/jobs(\?|$)/, (r) => r.fulfill({ json: { jobs: names.map((n, i) => ({ id: n, name: n, user: n, service: n, cause: n, state: i % 2 ? 'running' : n, submitted: n, started: n, priority: 0, gpus: 1, memory_mb: 1, devices: [n], command: [n], directory: n })) } }));
  await page.route(/\/api\/jobs\/[^?]*$/, (r) => r.fulfill({ status: 404, json: { code: 'unknown_job', detail: hostile, status: 404, title: 'x', type: 'about:blank' } }));
  await page.route(/\/api\/jobs\/.*\/log/, (r) => r.fulfill({ contentType: 'text/plain', body: `${hostile}\n\u001b[31m<script>alert(1)</script>` }));
  await page.route(/\/api\/services$/, (r) => r.fulfill({ json: { services: names.map((n) => ({ name: n, user: n, state: n, since: n, why: n, start: n, away: n, goes: n, goes_why: n, devices: [n], models: [n], open: 0, waiting: 0, requests: 0, failed_requests: 0, refused_requests: 0, tokens_in: 0, tokens_out: 0, switches: 0, took: {}, command: [n], directory: n, failure: { at: n, why: n, count: 2, log: [n] }, stopped: { by: n, why: n, at: n } })) } }));
  await page.route(/\/api\/users(\?|$)/, (r) => r.fulfill({ json: { users: names.map((n) => ({ user: n, leases: 1, gpus: 1, memory_mb: 1, measured_mb: 1, slots: 1, waiting: 1, waiting_mb: 1, waiting_since: n, ended: 1, lease_hours: 1, gib_hours: 1, limits: [{ name: n, limit: 1, used: 2, group: n, source: n }] })) } }));
  await page.route(/\/api\/batches/, (r) => r.fulfill({ json: { batches: names.map((n) => ({ id: n, output: n, command: n, stage: n, error: n, user: n, started: n, total: 1, total_exact: true, done: 1, done_before: 0, failed: 1, marked: 0, retries: 0, restarts: 0, workers: 1, gpus: [{ gpu: n, index: 0, name: n, workers: 1, ready: 1, multiplier: 1, done: 1, failed: 0, latency: { bounds: null, counts: null, sum_seconds: 0 } }] })) } }));
  await page.route(/\/api\/tokens(\?|$)/, (r) => r.fulfill({ json: { tokens: names.map((n) => ({ name: n, role: n, as: n, by: n, service: n, created: n, used: n, expires: n })) } }));
  for (const [list, act] of [['jobs', 'cancel-job'], ['services', 'start-service'], ['users'], ['batches'], ['tokens', 'revoke-token']]) {
    await go(page, `#/${list}`);
    assert.equal(await rows(page).count(), names.length, list);
    for (let i = 0; i < names.length; i++) {
      await go(page, `#/${list}`);
      await rows(page).nth(i).click({ position: { x: 12, y: 12 } });
      await page.waitForSelector('.peek h2');
      const peek = await page.evaluate(() => { const p = document.querySelector('.peek'); return { wide: p.scrollWidth > p.clientWidth + 1, text: p.innerText }; });
      assert.ok(!peek.wide, `${list}: what is beside ${names[i]} is wider than its place`);
      if (act && i < 2 && (await page.locator(`[data-act=${act}]`).count()) > 0) {
        await page.click(`[data-act=${act}]`);
        await page.waitForSelector('dialog[open]');
        await page.keyboard.press('Escape');
        await until(page, () => document.querySelector('dialog') === null);
      }
    }
  }
  for (const hash of ['#/leases', '#/events', `#/events?text=${encodeURIComponent(hostile)}&code=<b>&sort=<i>&cols=<u>`, `#/jobs/${encodeURIComponent(hostile)}?state=<b>`, '#/jobs/%zz', `#/reports?since=${encodeURIComponent(hostile)}`]) {
    await page.goto(d.url + hash);
    await until(page, () => document.querySelector('main').innerText.trim() !== '');
  }
  const tall = await page.evaluate(() => document.querySelectorAll('main img, main script, main svg[onload]').length);
  assert.equal(tall, 0);
  assert.deepEqual(page.faults(), []);
});

const places = {
  jobs: '#/jobs', job: () => `#/jobs/${ids.train}`, array: () => `#/jobs/${ids.sweep}`, services: '#/services', service: '#/services/chat', leases: '#/leases', users: '#/users', user: '#/users/ada',
  batches: '#/batches', batch: '#/batches/root%2Fvectors', events: '#/events', event: '#/events/3', tokens: '#/tokens', reports: '#/reports?since=1h', nothing: '#/jobs?text=nothing-fits',
};
const address = (p) => (typeof p === 'function' ? p() : p);

for (const colorScheme of ['light', 'dark']) {
  test(`axe finds nothing in any list, ${colorScheme}`, async () => {
    const page = await as(d, 'admin', { colorScheme, bypassCSP: true, viewport: { width: 1400, height: 900 } });
    const look = async (name) => {
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
      assert.deepEqual(violations.map((v) => `${v.impact} ${v.id}: ${v.help}\n  ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 200)} ${n.any[0]?.message ?? n.all[0]?.message ?? ''}`).join('\n  ')}`), [], name);
    };
    for (const [name, place] of Object.entries(places)) {
      await go(page, address(place), name === 'reports' ? 'iframe.report' : name === 'nothing' ? '.list-empty' : '.list tbody tr');
      if (address(place).split('/').length > 2) await page.waitForSelector('.peek h2');
      await look(name);
    }
    for (const [hash, key] of [[`#/jobs/${ids.later}`, 'unhold-job'], [`#/jobs/${ids.huge}`, 'hold-job'], ['#/jobs', 'submit'], ['#/services/chat', 'move-service'], ['#/tokens', 'make-token']]) {
      await go(page, hash);
      await page.click(`[data-act=${key}]`);
      await page.waitForSelector('dialog[open]');
      await look(`the dialog ${key}`);
      await page.keyboard.press('Escape');
      await until(page, () => document.querySelector('dialog') === null);
    }
    await go(page, '#/jobs');
    await page.click('.menu summary');
    await look('the menu of columns');
    assert.deepEqual(page.faults(), []);
  });
}

test('a phone shows every list, and none scrolls sideways', async () => {
  const page = await as(d, 'admin', { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  for (const [name, place] of Object.entries(places)) {
    const hash = address(place);
    const sign = name === 'reports' ? 'iframe.report' : name === 'nothing' ? '.list-empty' : hash.split('/').length > 2 ? '.peek h2' : '.list tbody tr';
    await go(page, hash, sign);
    const wide = await page.evaluate(() => ({ page: document.documentElement.scrollWidth, window: innerWidth, high: document.documentElement.scrollHeight }));
    assert.ok(wide.page <= 390 && wide.window <= 390, `${name} is ${wide.page} wide (${wide.window})`);
    assert.ok(wide.high <= 845, `${name}: the page scrolls beside the list (${wide.high})`);
  }
  await go(page, '#/jobs');
  await page.locator(`.list tr[data-row="${ids.train}"]`).tap();
  await page.waitForSelector('.peek [role=log]');
  assert.equal(await page.locator('.list-frame').isVisible(), false);
  await page.locator('.peek-close').tap();
  await page.waitForSelector('.list tbody tr');
  assert.deepEqual(page.faults(), []);
});
