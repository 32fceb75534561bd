// The pages of one device and one lease, of batches, plans and alerts, and what a
// person can do there.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { closeBrowser, Daemon, open, until } from './harness.mjs';

after(closeBrowser);

const root = fileURLToPath(new URL('../../..', import.meta.url));

// as opens the page with a token that has a role. expected are texts of the console
// that are no fault: a daemon without a past or without alerts answers 404.
const absent = [/404.*\/api\/(v1|alerts|leases\/)/]; // a lease may end while its page asks for it
async function as(d, role, options = {}) {
  const name = `${role}-${Math.random().toString(36).slice(2, 8)}`;
  const { status, value } = await d.request('POST', '/api/tokens', { name, role });
  assert.ok(status < 300, JSON.stringify(value));
  const page = await open(d, { ...options, expected: [...absent, ...(options.expected ?? [])], extraHTTPHeaders: { Authorization: `Bearer ${value.token}` } });
  page.token = name;
  page.past = 0; // questions about the past
  page.on('request', (r) => { if (r.url().includes('/api/v1/')) page.past++; });
  return page;
}

const go = (page, d, hash) => page.goto(d.url + hash);
const act = (page, key) => page.click(`[data-act=${key}]`);
const confirm = (page, key) => page.click(`[data-confirm=${key}]`);
const done = async (page, text) => {
  await page.waitForSelector('.dialog .notice.tone-good, .dialog .notice.tone-bad');
  const said = await page.innerText('.dialog .notice');
  assert.match(said, text);
  await page.click('.dialog-actions button:first-child');
  await until(page, () => document.querySelector('dialog') === null);
};

test('a lease is released by button, after the dialog has said what that does', async () => {
  const d = await Daemon.start({ scenario: '2' });
  try {
    const program = await d.program({ 'SIM-h200-0': { memory_mb: 9000, load: 20 } });
    await d.lease({ id: 'train', gpu: '0', memory_mb: 20480, pid: program.pid });
    await until2(async () => ((await d.request('GET', '/api/leases/train')).value.processes ?? []).length === 1);
    const page = await as(d, 'operator', { hash: '#/lease/root/train' });
    await act(page, 'release');
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    await until(page, () => document.querySelector('dialog').contains(document.activeElement));
    const says = await page.innerText('.dialog .says');
    assert.match(says, /ends the lease train of root/);
    assert.match(says, /20.GiB and 1 slot on GPU 0/);
    assert.match(says, new RegExp(`not ended: 1 process \\(sleep, process ${program.pid}\\)`));
    assert.match(says, /audit log/);

    // Escape closes it, nothing is done, and the focus is where it was.
    await page.keyboard.press('Escape');
    await until(page, () => document.querySelector('dialog') === null);
    await until(page, () => document.activeElement?.dataset.act === 'release');
    assert.equal((await d.request('GET', '/api/leases/train')).status, 200);

    // The focus stays inside, however often Tab is pressed.
    await page.keyboard.press('Enter');
    await dialog.waitFor();
    for (let i = 0; i < 6; i++) {
      await page.keyboard.press('Tab');
      assert.ok(await page.evaluate(() => document.activeElement === document.body || document.querySelector('dialog').contains(document.activeElement)));
    }
    await confirm(page, 'release');
    await done(page, /train is released/);
    await page.waitForSelector('text=What it was');
    assert.match(await page.innerText('.state-line'), /was released/);
    assert.equal((await d.request('GET', '/api/leases/train')).status, 404);
    assert.equal(program.exitCode, null, 'its program was ended');
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('acts are shown to those who may, and a refused one says why', async () => {
  const d = await Daemon.start({ scenario: '2' });
  try {
    const program = await d.program({ 'SIM-h200-0': { memory_mb: 5000 }, 'SIM-h200-1': { memory_mb: 5000 } });
    await d.lease({ id: 'both', gpus: 2, memory_mb: 8192, pid: program.pid });
    for (const role of ['viewer', 'user']) {
      const page = await as(d, role, { hash: role === 'viewer' ? '#/lease/both' : '#/lease/root/both' });
      await page.waitForSelector('text=Asked against used');
      assert.equal(await page.locator('[data-act]').count(), 0, `a ${role} sees acts on somebody else's lease`);
      const text = await page.innerText('main');
      assert.ok(!text.includes(String(program.pid)), `a ${role} sees the process`);
      if (role === 'viewer') assert.ok(!/\broot\b/.test(text), 'a viewer sees the name of the holder');
      assert.deepEqual(page.faults(), []);
      await page.context().close();
    }
    const page = await as(d, 'operator', { hash: '#/lease/root/both', expected: [/status of (401|403|409|429)/] });
    await act(page, 'park');
    await confirm(page, 'park');
    await page.waitForSelector('.dialog .notice.tone-bad');
    const why = await page.innerText('.dialog .notice');
    assert.match(why, /The daemon refused/);
    assert.match(why, /it is on several devices/);
    await page.keyboard.press('Escape');

    // A right that is lost while the dialog is open.
    await act(page, 'release');
    await d.request('DELETE', `/api/tokens/${page.token}`);
    await confirm(page, 'release');
    await page.waitForSelector('.dialog .notice.tone-bad >> text=/revoked/');
    assert.equal((await d.request('GET', '/api/leases/both')).status, 200);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('a device is drained, checked and used again', async () => {
  const d = await Daemon.start({ scenario: '2' });
  try {
    await d.lease({ id: 'stays', gpu: '1', memory_mb: 4096 });
    const page = await as(d, 'operator', { hash: '#/gpu/SIM-h200-1' });
    await page.waitForSelector('.table >> text=stays');
    await act(page, 'drain');
    assert.match(await page.innerText('.dialog .says'), /1 lease on it goes on/);
    await page.fill('#field-hours', '-3');
    await confirm(page, 'drain');
    await page.waitForSelector('.field-problem');
    await page.fill('#field-hours', '');
    await page.fill('#field-reason', 'a new <b>fan</b>');
    await confirm(page, 'drain');
    await done(page, /GPU 1 is drained/);
    await page.waitForSelector('.notice >> text=a new <b>fan</b>');
    const { value } = await d.request('GET', '/api/gpu/status?gpu=1');
    assert.equal(value.drain.reason, 'a new <b>fan</b>');

    await act(page, 'check');
    await confirm(page, 'check');
    await done(page, /passed the check/);

    await act(page, 'undrain');
    await confirm(page, 'undrain');
    await done(page, /can be used again/);
    await page.waitForSelector('[data-act=drain]');
    assert.equal((await d.request('GET', '/api/gpu/status?gpu=1')).value.drain, undefined);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('a lease is parked, resumed, paced and resized', async () => {
  const d = await Daemon.start({ scenario: '1', config: 'services:\n  search: {priority: 1}\n' });
  try {
    const program = await d.program({ 'SIM-h200-0': { memory_mb: 2048, load: 20 } });
    await d.lease({ id: 'model', service: 'search', gpu: '0', memory_mb: 8192, pid: program.pid });
    await until2(async () => ((await d.request('GET', '/api/leases/model')).value.processes ?? []).length === 1);
    const page = await as(d, 'operator', { hash: '#/lease/root/model' });
    await page.waitForSelector('.table >> text=holds it or descends');
    await act(page, 'park');
    await page.fill('#field-reason', 'lunch');
    await confirm(page, 'park');
    await done(page, /model is parked/);
    await page.waitForSelector('.badge >> text=parked');
    await page.waitForSelector('.fact >> text=lunch');
    assert.equal(await page.locator('[data-act=release]').count(), 0);
    await act(page, 'resume');
    await confirm(page, 'resume');
    await done(page, /model is back/);
    await page.waitForSelector('.badge >> text=active');

    await act(page, 'pace');
    await page.fill('#field-share', '50');
    await confirm(page, 'pace');
    await page.waitForSelector('.dialog .notice');
    await page.keyboard.press('Escape');
    await page.waitForSelector('text=Held to 50');

    await act(page, 'resize');
    await page.fill('#field-memory', '4096');
    await confirm(page, 'resize');
    await done(page, /holds 4.GiB/);
    await page.waitForSelector('.parts >> text=/of 4.GiB/');

    await act(page, 'priority');
    await page.fill('#field-priority', '7');
    await confirm(page, 'priority');
    await done(page, /search has the priority 7/);
    assert.equal((await d.request('GET', '/api/gpu/config')).value.services.search.priority, 7);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

// until2 waits until something is true of the daemon.
async function until2(what) {
  while (!(await what())) await new Promise((r) => setTimeout(r, 50));
}

test('the page of a device shows curves over every range', async () => {
  const d = await Daemon.start({ scenario: 'devices: 2xh200\ntimeline:\n  - {device: 0, load: 60}\n  - {device: 0, process: {pid: 5000001, name: somebody, memory_mb: 4096}}\n' });
  try {
    const page = await as(d, 'operator', { hash: '#/gpu/SIM-h200-0?range=5m' });
    await page.waitForSelector('.plots canvas');
    await page.waitForSelector('.badge >> text=stranger');
    const label = await page.getAttribute('[data-curve=temperature] .chart', 'aria-label');
    assert.match(label, /now \d+.°C, least \d+.°C, most \d+.°C/);
    const points = Number(await page.getAttribute('.plots', 'data-points'));
    assert.ok(points >= 300 && points < 1000, `${points} points`);
    // The last figure moves without a question: by the samples that are polled.
    const before = await page.innerText('[data-curve=power] figcaption');
    await until(page, (text) => document.querySelector('[data-curve=power] figcaption').innerText !== text, before);
    for (const name of ['hour', 'day', 'week', 'month', '90 days', '5 min']) {
      await page.getByRole('button', { name, exact: true }).click();
      await until(page, (n) => document.querySelector('.tab[aria-pressed=true]').innerText === n && document.querySelector('.plots-wait') === null, name);
      const shown = await page.locator('.plots canvas').count();
      const said = await page.locator('.view .notice.tone-info, .view .empty').count();
      assert.ok(shown > 0 || said > 0, `${name}: neither curves nor a word about them`);
    }
    assert.match(page.url(), /range=5m/);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('a daemon that keeps no past says so, and shows what it has in memory', async () => {
  const d = await Daemon.start({ scenario: '1', config: 'past:\n  store: "off"\n' });
  try {
    await d.lease({ id: 'train', gpu: '0', memory_mb: 4096 });
    const page = await as(d, 'operator', { hash: '#/gpu/SIM-h200-0?range=5m' });
    await page.waitForSelector('.plots canvas');
    assert.match(await page.innerText('.view .notice'), /remembers no past/);
    await page.getByRole('button', { name: 'month', exact: true }).click();
    await until(page, () => /nothing to show for the last month/.test(document.querySelector('.view').innerText));
    await go(page, d, '#/lease/root/train');
    await page.waitForSelector('text=/remembers no past/');
    assert.deepEqual(page.faults(), []);
    assert.equal(page.past, 0, 'the page asked for a past that there is not');
  } finally {
    await d.stop();
  }
});

test('a device vanishes while its page is open', async () => {
  const d = await Daemon.start({ scenario: 'devices: 2xl4\ntimeline:\n  - {at: 6s, for: 8s, device: 1, lost: true}\n' });
  try {
    const page = await as(d, 'operator', { hash: '#/gpu/SIM-l4-1' });
    await page.waitForSelector('.view .badge >> text=OPTIMAL');
    await page.waitForSelector('.view .notice.tone-bad');
    assert.match(await page.innerText('.view .notice.tone-bad'), /the last that berth knows/);
    await page.waitForSelector('.view .badge >> text=UNAVAILABLE');
    assert.match(await page.innerText('.view h1'), /GPU 1/);
    // It comes back.
    await until(page, () => document.querySelector('.view .notice.tone-bad') === null);
    await go(page, d, '#/gpu/SIM-l4-77');
    await page.waitForSelector('text=There is no such GPU');
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('the page of a lease shows its processes, why it waits, and what it was', async () => {
  const d = await Daemon.start({ scenario: '1' });
  try {
    // A holder, a shell below it, and below that the program that uses the GPU.
    const holder = spawn('sh', ['-c', 'sh -c "sleep 1000; :" & wait'], { stdio: 'ignore', detached: true });
    d.started.push({ kill: () => { try { process.kill(-holder.pid, 'SIGKILL'); } catch { /* it has ended */ } } });
    const child = (pid) => new Promise((resolve) => {
      const p = spawn('pgrep', ['-P', String(pid)], { stdio: ['ignore', 'pipe', 'ignore'] });
      let text = '';
      p.stdout.on('data', (x) => (text += x));
      p.on('close', () => resolve(Number(text.split('\n')[0])));
    });
    let shell = 0;
    let program = 0;
    await until2(async () => (shell = await child(holder.pid)) > 0 && (program = await child(shell)) > 0);
    d.use({ pid: program }, { 'SIM-h200-0': { memory_mb: 6144, load: 10 } });
    await d.lease({ id: 'tree/1', service: 'search', gpu: '0', memory_mb: 8192, pid: holder.pid, slots: 0 });
    await until2(async () => ((await d.request('GET', '/api/leases/tree%2F1')).value.processes ?? []).length === 1);
    const page = await as(d, 'operator', { hash: `#/lease/root/${encodeURIComponent('tree/1')}` });
    await page.waitForSelector(`.tree-row >> text=${program}`);
    const lines = await page.locator('.tree-row').allInnerTexts();
    assert.equal(lines.length, 3, lines.join(' | '));
    assert.match(lines[0], new RegExp(`${holder.pid}.*holder`, 's'));
    assert.match(lines[1], new RegExp(String(shell)));
    assert.match(lines[2], new RegExp(String(program)));
    assert.match(await page.innerText('.parts'), /6.GiB of 8.GiB/);
    assert.match(await page.innerText('main'), /by nobody beforehand \(watchdog\)/);

    await d.wait({ id: 'huge', gpu: '0', memory_mb: 140000 });
    await go(page, d, '#/lease/root/huge');
    await page.waitForSelector('text=Why it waits');
    assert.match(await page.innerText('main'), /in the queue/);
    await act(page, 'release');
    await confirm(page, 'release');
    await done(page, /huge is withdrawn/);
    await page.waitForSelector('text=There is no such lease');

    await d.release('tree/1');
    await go(page, d, `#/lease/root/${encodeURIComponent('tree/1')}`);
    await page.waitForSelector('text=What it was');
    assert.match(await page.innerText('main'), /Used at most\s+6.GiB/);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('a plan is drawn, and a file with mistakes shows all of them', async () => {
  const d = await Daemon.start({ scenario: '2' });
  try {
    const page = await as(d, 'user', { hash: '#/plans', expected: [/status of 422/] });
    await page.setInputFiles('#plan-file', join(root, 'examples/pipelines/plate.yaml'));
    await page.waitForSelector('.picture .step');
    assert.deepEqual(await page.locator('.picture').first().locator('.step-name').allTextContents(), ['load', 'flatfield', 'nuclei', 'texture', 'measure']);
    assert.equal(await page.locator('.picture').first().locator('.arrow').count(), 5);
    assert.equal(await page.locator('.picture').first().locator('.arrow.host_copy').count(), 3);
    assert.equal(await page.locator('.bar.peak').count(), 1);
    assert.match(await page.locator('.picture').first().getAttribute('aria-label'), /96 runs of plate: load on the CPU/);
    assert.equal(await page.locator('.square').count(), 96);
    await page.fill('#plan-text', 'pipelines:\n  - name: <img src=x onerror=alert(1)>\n    steps:\n      - {name: load, input: numppy, output: numpy}\n      - {name: x, input: torch, after: nope}\n');
    await page.getByRole('button', { name: 'Plan it' }).click();
    await page.waitForSelector('.problems li');
    assert.ok((await page.locator('.problems li').count()) >= 3);
    assert.match(await page.innerText('.problems'), /did you mean numpy/);
    await page.locator('.problems button').last().click();
    assert.match(await page.evaluate(() => { const t = document.querySelector('#plan-text'); return t.value.slice(t.selectionStart, t.selectionEnd); }), /name: x/);
    assert.equal(await page.locator('main img').count(), 0);
    assert.deepEqual(page.faults(), []);
  } finally {
    await d.stop();
  }
});

test('a batch that runs shows its bar and its rates', async () => {
  const d = await Daemon.start({ scenario: '2' });
  try {
    writeFileSync(join(d.folder, 'in.jsonl'), Array.from({ length: 2_000_000 }, (_, i) => JSON.stringify({ id: i, text: 'a few words' })).join('\n'));
    const run = spawn(process.env.BERTH_BIN ?? join(root, 'bin/berth'), ['--socket', d.socket, 'run', '--input', join(d.folder, 'in.jsonl'), '--output', join(d.folder, 'out.jsonl'), '--', 'python3', join(root, 'examples/batch/embed.py')],
      { stdio: 'ignore', env: { ...process.env, PYTHONPATH: join(root, 'python') } });
    d.started.push(run);
    const page = await as(d, 'operator', { hash: '#/batches' });
    await page.click('.list td.title a');
    await page.waitForSelector('.batch .badge >> text=running');
    await until(page, () => Number(document.querySelector('.batch [role=progressbar]')?.getAttribute('aria-valuenow')) >= 1);
    await until(page, () => / records · [1-9][\d,.]*.\/s · /.test(document.querySelector('.batch-line').innerText));
    assert.match(await page.innerText('.batch-line'), /[\d,]+ of (about )?[\d,]{7,9} records/);
    assert.match(await page.innerText('.batch .table'), /GPU 0/);
    assert.deepEqual(page.faults(), []);
    // It stays when it is over.
    run.kill('SIGTERM');
    await page.waitForSelector('.batch .badge >> text=/stopped|failed/');
    await until2(async () => (await d.request('GET', '/api/batches')).value.batches.length === 0);
    await page.reload();
    await page.waitForSelector('.batch .badge >> text=/stopped|failed/');
  } finally {
    await d.stop();
  }
});

test('an alert that fires is acknowledged with a comment', async () => {
  const d = await Daemon.start({ scenario: '1' });
  try {
    writeFileSync(join(d.folder, 'rules.yml'), `groups:
  - name: test
    interval: 1s
    rules:
      - {alert: AlwaysFires, expr: vector(1), labels: {severity: warning}, annotations: {summary: "It <b>fires</b>."}}
      - {alert: SoonFires, expr: vector(1), for: 1h, labels: {severity: critical}}
`);
    writeFileSync(join(d.folder, 'berth.yaml'), `alerts:\n  shipped: "off"\n  rules: [${join(d.folder, 'rules.yml')}]\n`);
    await d.end();
    await d.run();
    const page = await as(d, 'operator', { hash: '#/alerts' });
    await page.waitForSelector('.alert >> text=AlwaysFires');
    await page.waitForSelector('.alert >> text=It <b>fires</b>.');
    await until(page, () => document.querySelectorAll('.alert').length === 2);
    const texts = await page.locator('.alert').allInnerTexts();
    assert.match(texts[0], /AlwaysFires\s+firing/);
    assert.match(texts[1], /SoonFires\s+pending/);
    await page.locator('.alert').first().locator('[data-act=acknowledge]').click();
    await page.fill('#field-comment', 'known since Monday');
    await confirm(page, 'acknowledge');
    await done(page, /AlwaysFires is acknowledged for 4 h/);
    await page.waitForSelector('.alert .notice >> text=known since Monday');
    await page.locator('.alert').first().locator('[data-act=unacknowledge]').click();
    await confirm(page, 'unacknowledge');
    await done(page, /no longer acknowledged/);
    await until(page, () => document.querySelector('.alert .notice') === null);
    assert.deepEqual(page.faults(), []);

    const looks = await as(d, 'user', { hash: '#/alerts' });
    await looks.waitForSelector('.alert >> text=AlwaysFires');
    assert.equal(await looks.locator('[data-act]').count(), 0);
  } finally {
    await d.stop();
  }
});
