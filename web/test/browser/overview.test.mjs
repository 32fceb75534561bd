// The overview as a person uses it: rows and cards, what is theirs and how to stop it,
// who holds and uses what, time, colours, paper and files.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { closeBrowser, Daemon, open, patient, until } from './harness.mjs';

after(closeBrowser);

// leased gives a daemon so many leases, spread over its devices.
async function leased(d, gpus, count, name = 'train-resnet-50-fold-') {
  for (let i = 0; i < count; i++) await d.lease({ id: `${name}${i}`, service: `service-${i % 5}`, gpu: String(i % gpus), memory_mb: 4096 + ((i * 37) % 9000), slots: 0 });
}

// submit submits a job as the user who runs the tests.
async function submit(d, name, lease, more = {}) {
  const { status, value } = await d.request('POST', '/api/jobs', { name, command: ['sleep', '100000'], directory: '/', output: '/dev/null', lease, ...more });
  assert.equal(status, 201, JSON.stringify(value));
  return value.id;
}

// altered changes what the page gets from a route, before it gets it.
async function altered(page, route, change) {
  await page.route(route, async (r) => {
    const answer = await r.fetch().catch(() => undefined);
    if (answer === undefined) return r.abort();
    const value = await answer.json();
    change(value);
    return r.fulfill({ response: answer, json: value });
  });
}

test('eight GPUs with thirty leases fit one screen; the first screen says what matters', async () => {
  const d = await Daemon.start({ scenario: 'devices: 8xh200\ntimeline:\n  - {device: all, load: 30}\n', config: 'gpu:\n  max_pipelines: 8\n' });
  try {
    await leased(d, 8, 29);
    await d.lease({ id: 'blocks', gpus: 8, memory_mb: 90000, slots: 0, time_limit_seconds: 3000 });
    await d.wait({ id: 'my-request', memory_mb: 120000 });
    const job = await submit(d, 'my-job', { memory_mb: 120000, time_limit_seconds: 600 });
    const page = await open(d, { viewport: { width: 1400, height: 900 } });
    await until(page, () => document.querySelectorAll('.row').length === 8 && document.querySelectorAll('.own-one').length >= 2 && document.querySelectorAll('.berth').length >= 30);
    const seen = await page.evaluate(() => ({
      rows: document.querySelector('.rows').getBoundingClientRect().bottom,
      // Everything that answers a question of the first screen is on it.
      low: Math.max(...[...document.querySelectorAll('.own-one button, .someone, .row')].map((e) => e.getBoundingClientRect().bottom)),
      wide: document.documentElement.scrollWidth,
      ids: new Set([...document.querySelectorAll('.berth-id')].map((a) => a.title)).size,
    }));
    assert.ok(seen.rows <= 900, `the rows end at ${seen.rows}`);
    assert.ok(seen.low <= 900, `the last of it ends at ${seen.low}`);
    assert.equal(seen.ids, 30);
    assert.ok(seen.wide <= 1400);
    // When mine starts, and how to stop it.
    await until(page, (id) => [...document.querySelectorAll('.own-one')].some((e) => e.innerText.includes('starts probably in') && e.querySelector('.own-name').title === id), job);
    await page.getByRole('button', { name: `Stop ${job}` }).click();
    assert.match(await page.innerText('.dialog .says'), /has not begun, so no program ends/);
    await page.click('[data-confirm=cancel-job]');
    await page.waitForSelector('.dialog .notice.tone-good');
    await page.keyboard.press('Escape');
    assert.equal((await d.request('GET', `/api/jobs/${job}`)).value.state, 'cancelled');
    await until(page, (id) => ![...document.querySelectorAll('.own-name')].some((e) => e.title === id), job);
    await page.getByRole('button', { name: 'Stop my-request' }).click();
    await page.click('[data-confirm=release]');
    await page.waitForSelector('.dialog .notice.tone-good');
    await page.keyboard.press('Escape');
    await until(page, () => ![...document.querySelectorAll('.own-name')].some((e) => e.title === 'my-request'));
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('a job that runs is stopped from the first screen, its programs too', async () => {
  const d = await Daemon.start({ scenario: '2' });
  try {
    const job = await submit(d, 'runs', { memory_mb: 2048 });
    const page = await open(d);
    await until(page, () => /runs for .* on GPU \d/.test(document.querySelector('.own-says')?.innerText));
    await page.getByRole('button', { name: `Stop ${job}` }).click();
    assert.match(await page.innerText('.dialog .says'), /Its programs are asked to end/);
    await page.click('[data-confirm=cancel-job]');
    await page.waitForSelector('.dialog .notice.tone-good');
    await page.keyboard.press('Escape');
    const { value } = await d.request('GET', `/api/jobs/${job}?wait_seconds=60`);
    assert.equal(value.state, 'cancelled');
    await until(page, () => document.querySelector('.own-one') === null);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('who holds most and who uses least are named; zero use and strangers are said', async () => {
  const d = await Daemon.start({ scenario: 'devices: 2xh200\ntimeline:\n  - {device: 0, process: {pid: 5000001, name: notebook, memory_mb: 4096}}\n', config: 'gpu:\n  max_pipelines: 8\n' });
  try {
    await d.lease({ id: 'unused', gpu: '0', memory_mb: 24 * 1024 });
    const { value } = await d.request('POST', '/api/tokens', { name: 'op', role: 'operator' });
    const page = await open(d, { extraHTTPHeaders: { Authorization: `Bearer ${value.token}` } });
    await altered(page, '**/api/leases?*', (a) => addPeople(a));
    await altered(page, '**/api/leases', (a) => addPeople(a));
    await until(page, () => document.querySelectorAll('.someone').length === 3);
    const people = await page.locator('.someone').allInnerTexts();
    assert.match(people[0], /^ada\s+9\d of 10\d.GiB\s+holds most$/);
    assert.match(people.find((p) => p.startsWith('ben')), /^ben\s+1 of 80.GiB\s+uses least$/);
    assert.equal(await page.locator('.berth:has(a[title^=unused]) .berth-use').innerText().then((t) => t.replace(/\s/g, ' ')), '0 of 24 GiB');
    // A stranger is a row with its process, its user and a link; the driver is none.
    await page.waitForSelector('[data-gpu=SIM-h200-0] .berth.stranger >> text=notebook');
    assert.match(await page.innerText('[data-gpu=SIM-h200-0] .berth.stranger'), /process 5000001.*no lease.*4.GiB/s);
    assert.equal(await page.getAttribute('[data-gpu=SIM-h200-0] .berth.stranger a', 'href'), '#/gpu/SIM-h200-0');
    assert.equal(await page.locator('[data-gpu=SIM-h200-1] .berth.stranger').count(), 0);
    assert.doesNotMatch(await page.innerText('.rows'), /driver/);
    // Slots say what they are.
    assert.match(await page.getAttribute('[data-gpu=SIM-h200-0] .row-slots span', 'title'), /1 of 8 are taken. A slot is/);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

// addPeople puts two users into a list of leases: one with most, one who uses little.
function addPeople(a) {
  if (!a.leases?.some((l) => l.id === 'unused')) return;
  const base = a.leases.find((l) => l.id === 'unused');
  const made = (fence, user, uid, memory_mb, measured_mb) => ({ ...base, id: `${user}-1`, fence, holder: { user, uid, service: 's' }, parts: [{ gpu: 'SIM-h200-1', memory_mb, slots: 0, measured_mb }] });
  a.leases.push(made(900001, 'ada', 7001, 100 * 1024, 98 * 1024), made(900002, 'ben', 7002, 80 * 1024, 1024));
}

test('a row opens, and cards are a choice that is kept', async () => {
  const d = await Daemon.start({ scenario: '24xl4' });
  try {
    await d.lease({ id: 'one-of-a-kind', gpu: '3', memory_mb: 4096 });
    const page = await open(d);
    await until(page, () => document.querySelectorAll('.row').length === 1); // of many GPUs, those that nobody uses are one line
    assert.match(await page.innerText('.row-fold'), /Show 23 GPUs that nobody uses: 0 to 2, 4 to 23/);
    await page.click('.row-fold button');
    await until(page, () => document.querySelectorAll('.row').length === 24);
    assert.equal(await page.locator('.berth').count(), 0, 'as many GPUs are a line each');
    await page.click('[data-gpu=SIM-l4-3] .chevron');
    await page.waitForSelector('[data-gpu=SIM-l4-3] .berth >> text=kind');
    assert.match(page.url(), /open=SIM-l4-3/);
    assert.equal(await page.getAttribute('[data-gpu=SIM-l4-3] .chevron', 'aria-expanded'), 'true');
    await page.reload();
    await page.waitForSelector('[data-gpu=SIM-l4-3] .row-card .spark');
    await page.click('[data-gpu=SIM-l4-3] .chevron');
    await until(page, () => document.querySelector('.row-card') === null);
    await page.getByRole('button', { name: 'Cards' }).click();
    await until(page, () => document.querySelectorAll('.card').length === 24);
    await page.goto(`${d.url}#/events`);
    await page.waitForSelector('.list .event-row');
    await page.goto(`${d.url}#/`); // without the choice in the address
    await until(page, () => document.querySelectorAll('.card').length === 24);
    await page.getByRole('button', { name: 'Rows' }).click();
    await until(page, () => document.querySelectorAll('.row').length === 1);
    // The filter finds GPUs and leases.
    await page.fill('input[type=search]', 'gpu 7');
    await until(page, () => document.querySelectorAll('.row').length === 1 && document.querySelector('.row').dataset.gpu === 'SIM-l4-7');
    await page.fill('input[type=search]', 'one-of-a-kind');
    await until(page, () => document.querySelectorAll('.row').length === 1 && document.querySelectorAll('.berth').length === 1);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('the curves show an hour, and a part of it that somebody marks', async () => {
  const d = await Daemon.start({ scenario: 'devices: 2xh200\ntimeline:\n  - {device: 0, load: 60}\n' });
  try {
    const page = await open(d);
    await until(page, () => document.querySelectorAll('.row').length === 2);
    const asked = page.waitForResponse((r) => r.url().includes('/api/v1/query_range') && r.url().includes('avg_over_time') && r.ok(), { timeout: patient });
    await page.getByRole('button', { name: 'hour', exact: true }).click();
    await asked;
    assert.match(page.url(), /range=1h/);
    const box = await page.locator('.row .spark').first().boundingBox();
    await page.mouse.move(box.x + box.width * 0.3, box.y + 5);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 5, { steps: 4 });
    await page.mouse.up();
    await until(page, () => /from=\d+&to=\d+/.test(location.hash));
    const [from, to] = [...page.url().matchAll(/(?:from|to)=(\d+)/g)].map((m) => Number(m[1]));
    assert.ok(to - from > 600 && to - from < 1800, `${to - from} seconds were marked`);
    await page.getByRole('button', { name: 'Back' }).click();
    await until(page, () => !/from=/.test(location.hash) && /range=1h/.test(location.hash));
    for (const bad of ['from=x&to=y', 'from=9e99&to=1', 'from=0&to=99999999999', 'from=-5&to=NaN']) {
      await page.goto(`${d.url}#/?${bad}`);
      await until(page, () => document.querySelectorAll('.row').length === 2);
    }
    // On the page of a GPU too, where it is compared with the others.
    await page.goto(`${d.url}#/gpu/SIM-h200-0?range=5m`);
    await page.waitForSelector('[aria-label^="Load of GPU 0 beside 1 others"] canvas');
    await until(page, () => /\d+.%/.test(document.querySelector('[data-curve=load] .u-series:nth-child(2) .u-value')?.innerText ?? ''));
    await page.getByRole('button', { name: 'Temperature' }).click();
    await page.waitForSelector('[aria-label^="Temperature of GPU 0 beside"] canvas');
    await page.locator('[data-curve=load] .u-over').scrollIntoViewIfNeeded();
    const plot = await page.locator('[data-curve=load] .u-over').boundingBox();
    await page.mouse.move(plot.x + plot.width * 0.5, plot.y + 20);
    await page.mouse.down();
    await page.mouse.move(plot.x + plot.width * 0.8, plot.y + 20, { steps: 4 });
    await page.mouse.up();
    await until(page, () => /from=\d+&to=\d+/.test(location.hash));
    await page.getByRole('button', { name: 'Back' }).click();
    await until(page, () => !/from=/.test(location.hash));
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('one line says what needs a person, and opens', async () => {
  const d = await Daemon.start({ scenario: '3' });
  try {
    for (const gpu of ['0', '1', '2']) await d.request('POST', '/api/gpu/drain', { gpu, reason: '<img src=x onerror=alert(1)> a fan' });
    const page = await open(d, { viewport: { width: 1400, height: 900 } });
    await page.waitForSelector('.attention-item');
    for (const hash of ['#/', '#/events', '#/gpu/SIM-h200-0']) {
      await page.goto(d.url + hash);
      await until(page, () => document.querySelector('.attention-more') !== null);
      const height = await page.locator('.attention').evaluate((e) => e.getBoundingClientRect().height);
      assert.ok(height < 40, `the banner of ${hash} is ${height} high`);
      assert.equal(await page.locator('.attention-item').count(), 1);
    }
    await page.goto(`${d.url}#/`);
    await page.getByRole('button', { name: '2 more' }).click();
    assert.equal(await page.locator('.attention-item').count(), 3);
    assert.equal(await page.locator('main img').count(), 0);
    await page.getByRole('button', { name: 'Only the worst' }).click();
    assert.equal(await page.locator('.attention-item').count(), 1);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('light, dark and by system are a switch that is kept; curves follow', async () => {
  const d = await Daemon.start({ scenario: '1' });
  try {
    const page = await open(d, { colorScheme: 'dark' });
    await page.waitForSelector('.row .spark');
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const dark = await ground();
    await page.locator('[data-theme-now=system]').click(); // to light
    await until(page, () => document.documentElement.dataset.theme === 'light');
    const light = await ground();
    assert.notEqual(light, dark);
    await page.reload();
    await page.waitForSelector('[data-theme-now=light]');
    assert.equal(await ground(), light);
    await page.locator('[data-theme-now=light]').click(); // to dark
    await until(page, () => document.documentElement.dataset.theme === 'dark');
    await page.emulateMedia({ colorScheme: 'light' });
    assert.equal(await ground(), dark, 'a choice does not follow the system');
    await page.locator('[data-theme-now=dark]').click(); // by system
    await until(page, () => document.documentElement.dataset.theme === 'light');
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('the overview is saved as CSV and JSON, and prints without buttons', async () => {
  const d = await Daemon.start({ scenario: '2', config: 'gpu:\n  max_pipelines: 8\n' });
  try {
    await d.lease({ id: '=HYPERLINK("http://x","y"),1', service: 'a"b', gpu: '0', memory_mb: 2048 });
    const page = await open(d);
    await until(page, () => document.querySelectorAll('.berth').length === 1);
    const saved = async (name) => {
      const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name, exact: true }).click()]);
      return { name: file.suggestedFilename(), text: readFileSync(await file.path(), 'utf8') };
    };
    const csv = await saved('CSV');
    assert.match(csv.name, /^berth-.*\.csv$/);
    const lines = csv.text.trimEnd().split('\r\n');
    assert.equal(lines.length, 3, csv.text);
    assert.match(lines[0], /^time,host,gpu,index,/);
    assert.ok(lines[1].includes(`"'=HYPERLINK(""http://x"",""y""),1"`), lines[1]); // no formula
    assert.ok(lines[1].includes('"a""b"'));
    const json = JSON.parse((await saved('JSON')).text);
    assert.equal(json.gpus.length, 2);
    assert.equal(json.leases[0].id, '=HYPERLINK("http://x","y"),1');
    await page.emulateMedia({ media: 'print' });
    assert.equal(await page.locator('nav, button, input').evaluateAll((list) => list.filter((e) => e.getClientRects().length > 0).length), 0);
    assert.equal(await page.locator('.row .stack').first().isVisible(), true);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('the keyboard alone opens a row, a choice, and stops what is mine', async () => {
  const d = await Daemon.start({ scenario: '2' });
  try {
    await d.lease({ id: 'mine', gpu: '0', memory_mb: 140000 });
    await d.wait({ id: 'stop-me', gpu: '0', memory_mb: 100000 });
    const page = await open(d, { expected: [/status of 4\d\d/] });
    await page.getByRole('button', { name: 'Stop stop-me' }).waitFor();
    // reach presses Tab until something has the focus.
    const reach = async (what) => {
      for (let i = 0; i < 80; i++) {
        await page.keyboard.press('Tab');
        if (await page.evaluate((text) => (document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent ?? '').trim() === text, what)) return;
      }
      assert.fail(`Tab does not reach ${what}`);
    };
    await reach('Cards');
    await page.keyboard.press('Enter');
    await until(page, () => document.querySelectorAll('.card').length === 2);
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await until(page, () => document.querySelectorAll('.row').length === 2);
    await reach('GPU 1: more');
    await page.keyboard.press('Space');
    await page.waitForSelector('[data-gpu=SIM-h200-1] .row-card');
    await reach('Stop stop-me');
    await page.keyboard.press('Enter');
    await page.waitForSelector('dialog[open]');
    await page.keyboard.press('Tab');
    await until(page, () => document.querySelector('dialog').contains(document.activeElement));
    for (let i = 0; i < 5 && !(await page.evaluate(() => document.activeElement?.dataset.confirm === 'release')); i++) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.waitForSelector('.dialog .notice.tone-good');
    await page.keyboard.press('Escape');
    await until(page, () => ![...document.querySelectorAll('.own-name')].some((e) => e.title === 'stop-me'));
    assert.equal((await d.request('GET', '/api/leases')).value.waiting.length, 0);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

const nasty = ['<img src=x onerror=alert(1)>', '"><script>alert(2)</script>', "'onmouseover='alert(3)", 'a'.repeat(200), '\u202egnp.exe', '{{7*7}}'];

test('hostile names in what is mine, who, strangers and needs are text, and tear nothing', async () => {
  const d = await Daemon.start({ scenario: '2', config: 'gpu:\n  max_pipelines: 16\n' });
  try {
    await d.lease({ id: 'real', gpu: '0', memory_mb: 4096 });
    for (const size of [{ width: 1400, height: 900 }, { width: 390, height: 844 }]) {
      const page = await open(d, { viewport: size, hash: '#/?open=SIM-h200-0', expected: [/404.*\/explain/] });
      const { value: me } = await d.request('GET', '/api/whoami');
      const change = (a) => {
        const base = a.leases?.find((l) => l.id === 'real');
        if (base === undefined) return;
        nasty.forEach((name, i) => {
          a.leases.push({ ...base, id: name, fence: 800000 + i, holder: { ...base.holder, user: name, uid: 7000 + i, service: name, name } });
          a.waiting.push({ id: name, position: i + 1, since: base.granted, holder: { ...base.holder, uid: me.uid, service: name }, gpus: 1, memory_mb: 1024, slots: 1, priority: 0, estimate: { unknown: `${name} has no end` } });
        });
      };
      await altered(page, '**/api/leases', change);
      await altered(page, '**/api/leases?*', change);
      await altered(page, '**/api/jobs?*', (a) => a.jobs?.push(...nasty.map((name, i) => ({ id: `${name}-${i}`, user: 'root', state: 'running', submitted: '2026-01-01T00:00:00Z', started: '2026-01-01T00:00:00Z', priority: 0, gpus: 1, memory_mb: 1, cause: name }))));
      await altered(page, '**/api/orphans', (a) => a.foreign.push(...nasty.map((name, i) => ({ gpu: 'SIM-h200-0', pid: 6000000 + i, name, user: name, memory_mb: 2048 }))));
      await altered(page, '**/api/gpu/memory/available', (a) => a.gpus.forEach((g) => (g.foreign_mb = 12000)));
      await altered(page, '**/api/gpu/status/all', (a) => (a.needs = nasty.map((name) => ({ kind: 'over', severity: 'warning', subject: name, lease: name, user: name, text: `${name} is over` }))));
      await until(page, () => document.querySelectorAll('.someone').length >= 5 && document.querySelectorAll('.own-one').length >= 2 && document.querySelectorAll('.berth.stranger').length >= 3);
      await page.locator('.attention-more').click();
      await until(page, () => document.querySelectorAll('.attention-item').length === 6);
      assert.equal(await page.evaluate(() => document.querySelectorAll('main img, main script, main [onmouseover]').length), 0);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= size.width, `the page is ${wide} wide at ${size.width}`);
      assert.ok(await page.getByRole('button', { name: `Stop ${nasty[0]}` }).first().isVisible());
      assert.deepEqual(page.faults(), []);
      await page.context().close();
    }
  } finally {
    await d.stop();
  }
});
