// What a person does from the lists: every dialog says what becomes of whose programs,
// what can be taken back can be taken back at once, and who may not do something does not
// see it, or reads why.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { closeBrowser, open, until } from './harness.mjs';
import { as, hostile, submit, token, until as happens, world } from './lists-world.mjs';

let d;
before(async () => { d = await world(); });
after(async () => {
  await d?.stop();
  await closeBrowser();
});

const act = (page, key) => page.click(`[data-act=${key}]`);
const says = (page) => page.innerText('.dialog .says');
const confirm = (page, key) => page.click(`[data-confirm=${key}]`);
const outcome = async (page, text) => {
  await page.waitForSelector('.dialog [role=status].notice.tone-good, .dialog .notice.tone-bad');
  assert.match(await page.innerText('.dialog .notice'), text);
};
const close = async (page) => {
  await page.keyboard.press('Escape');
  await until(page, () => document.querySelector('dialog') === null);
};
const job = async (id) => (await d.request('GET', `/api/jobs/${id}`)).value;
const alive = (pid) => existsSync(`/proc/${pid}`);

test('a job is submitted, with what was learned, and runs', async () => {
  const page = await as(d, 'user', { user: 'ada', hash: '#/jobs' });
  await page.waitForSelector('.list-empty');
  await act(page, 'submit');
  assert.match(await says(page), /as ada when there is room[\s\S]*Nobody's programs are stopped/);
  await confirm(page, 'submit');
  await page.waitForSelector('.field-problem >> text=Command is missing');
  await page.fill('#field-command', `echo "hello <b>from</b> $USER"; sleep 1000`);
  await page.fill('#field-name', 'hello');
  await page.waitForSelector('.preview >> text=Nothing is known of hello yet.');
  await page.waitForSelector('.preview >> text=/It would begin now/');
  // What earlier runs of a name used.
  for (let i = 0; i < 3; i++) {
    const told = await fetch(`http://127.0.0.1:${d.port}/api/measurements`, { method: 'POST', headers: { Authorization: `Bearer ${page.secret}`, 'Content-Type': 'application/json' }, body: JSON.stringify({ name: 'known', memory_mb: 3000, seconds: 60 }) });
    assert.equal(told.status, 204, await told.text());
  }
  await page.fill('#field-name', 'known');
  await page.waitForSelector('.preview >> text=/3 runs of known so far. It used 2.9.GiB at most, and took 1.min on average/');
  await page.waitForSelector('.preview >> text=/It would get 3(\\.\\d)?.GiB on 1 GPU/');
  await page.fill('#field-name', 'hello');
  await page.fill('#field-memory', '-4');
  await confirm(page, 'submit');
  await page.waitForSelector('.field-problem >> text=/Memory must be/');
  await page.fill('#field-memory', '2');
  await page.fill('#field-time', '30');
  await page.fill('#field-directory', d.home);
  await page.waitForSelector('.preview >> text=/It would get 2.GiB on 1 GPU/');
  await confirm(page, 'submit');
  await outcome(page, /hello-\d+ is submitted/);
  await page.click('.dialog >> text=/Show hello/');
  await page.waitForSelector('.peek [role=log] >> text=hello <b>from</b> ada');
  const id = await page.innerText('.peek h2');
  const it = await job(id);
  assert.deepEqual([it.user, it.memory_mb, it.time_limit_seconds], ['ada', 2048, 1800]);
  assert.equal(await page.locator('.peek [role=log] b').count(), 0);

  // Cancel: its programs end, and the dialog said so.
  const { pid } = await job(id);
  assert.ok(alive(pid));
  await act(page, 'cancel-job');
  assert.match(await says(page), /ends your job hello-\d+ for good[\s\S]*It runs: .*sleep 1000[\s\S]*asked to end[\s\S]*not saved is lost/);
  await page.fill('#field-reason', hostile);
  await confirm(page, 'cancel-job');
  await outcome(page, /ends, with its programs/);
  await close(page);
  await page.waitForSelector('.peek .badge >> text=cancelled');
  await happens(() => !alive(pid));
  await page.waitForSelector(`.peek .state-line >> text=${hostile}`);
  assert.deepEqual(page.faults(), []);
});

test('a job is held, let go, done again', async () => {
  await d.lease({ id: 'blocker', gpu: '0', memory_mb: 100000 });
  const waits = await submit(d, { name: 'waits', command: ['true'], lease: { memory_mb: 120000, gpus: 2 } });
  const page = await as(d, 'user', { user: 'ada', hash: `#/jobs/${waits.id}` });
  await page.waitForSelector('.peek .badge >> text=waiting');
  await act(page, 'hold-job');
  assert.match(await says(page), /keeps your job waits-\d+ from beginning[\s\S]*no program is stopped/);
  await confirm(page, 'hold-job');
  await outcome(page, /is held/);
  assert.equal((await job(waits.id)).state, 'held');
  await page.click('[data-undo=unhold-job]');
  await outcome(page, /begins at its turn/);
  await close(page);
  await page.waitForSelector('.peek .badge >> text=waiting');
  assert.equal((await job(waits.id)).state, 'waiting');

  await act(page, 'priority-job');
  await page.fill('#field-priority', '5');
  await confirm(page, 'priority-job');
  await page.waitForSelector('.field-problem >> text=/must be 0 or less/');
  await page.fill('#field-priority', '-5');
  await confirm(page, 'priority-job');
  await outcome(page, /has the priority -5/);
  await close(page);

  await act(page, 'hold-job');
  await confirm(page, 'hold-job');
  await outcome(page, /is held/);
  await close(page);
  await act(page, 'unhold-job');
  await confirm(page, 'unhold-job');
  await outcome(page, /begins at its turn/);
  await close(page);
  await act(page, 'cancel-job');
  assert.match(await says(page), /has not begun, so no program ends/);
  await confirm(page, 'cancel-job');
  await outcome(page, /never began/);
  await close(page);
  await page.waitForSelector('[data-act=redo-job]');
  await act(page, 'redo-job');
  assert.match(await says(page), /stays as it is, with its log/);
  await confirm(page, 'redo-job');
  await outcome(page, /waits-\d+ is submitted/);
  await page.click('.dialog >> text=/Show waits/');
  await until(page, (was) => document.querySelector('.peek h2')?.innerText !== was, waits.id);
  await d.release('blocker');
  await page.waitForSelector('.peek .badge >> text=done');

  // Of an array, only the tasks that did not end well.
  const sweep = await submit(d, { name: 'sweep', command: ['/bin/sh', '-c', 'exit $(({n} % 2))'], params: [{ name: 'n', values: ['1', '2', '3'] }], lease: { memory_mb: 256 } });
  await page.goto(`${d.url}#/jobs/${sweep.id}`);
  await page.waitForSelector('.peek .state-line .badge >> text=failed');
  await until(page, () => document.querySelectorAll('.peek .table tbody tr').length === 3);
  await act(page, 'redo-job');
  assert.match(await page.innerText('.dialog'), /2 tasks of 3 did not end well/);
  await confirm(page, 'redo-job');
  await outcome(page, /sweep-\d+ is submitted/);
  await page.click('.dialog >> text=/Show sweep/');
  await until(page, () => document.querySelectorAll('.peek .table tbody tr').length === 2);
  assert.deepEqual(page.faults(), []);
});

test('a service is started, moved, restarted and stopped, and started again', async () => {
  const page = await as(d, 'operator', { hash: '#/services/chat' });
  const state = async () => (await d.request('GET', '/api/services/chat')).value.state;
  await act(page, 'start-service');
  assert.match(await says(page), /starts the program of chat as ada, with 4.GiB[\s\S]*audit log/);
  await confirm(page, 'start-service');
  await outcome(page, /chat starts/);
  await close(page);
  await page.waitForSelector('.peek .badge >> text=ready');
  const { pid } = (await d.request('GET', '/api/services/chat')).value;
  await act(page, 'move-service');
  assert.match(await says(page), /which runs as ada, goes away from GPU \d[\s\S]*No other program is stopped/);
  await confirm(page, 'move-service');
  await outcome(page, /chat moves to GPU/);
  await close(page);
  await happens(async () => (await state()) === 'ready' && (await d.request('GET', '/api/services/chat')).value.switches === 2);
  await page.waitForSelector('.peek >> text=2 times');
  await act(page, 'restart-service');
  assert.match(await says(page), /ends the program of chat, which runs as ada, and starts it again/);
  await confirm(page, 'restart-service');
  await outcome(page, /chat restarts/);
  await close(page);
  await happens(async () => (await state()) === 'ready' && !alive(pid));
  await page.waitForSelector('.peek .badge >> text=ready');
  await act(page, 'stop-service');
  assert.match(await says(page), /stops chat until somebody starts it[\s\S]*new ones, too[\s\S]*its program, which runs as ada, ends/);
  await page.fill('#field-why', 'a new model');
  await confirm(page, 'stop-service');
  await outcome(page, /chat stops/);
  await happens(async () => (await state()) === 'stopped');
  await page.waitForSelector('.list >> text=/stopped by .*: a new model/');
  await page.click('[data-undo=start-service]');
  await outcome(page, /chat starts/);
  await close(page);
  await page.waitForSelector('.peek .badge >> text=ready');
  await page.waitForSelector('.peek [role=log] >> text=GET / HTTP/1.1');
  assert.deepEqual(page.faults(), []);
});

test('a drain is taken back at once', async () => {
  const page = await as(d, 'operator', { hash: '#/gpu/SIM-h200-1' });
  await act(page, 'drain');
  assert.match(await says(page), /takes GPU 1 out of use/);
  await confirm(page, 'drain');
  await outcome(page, /GPU 1 is drained/);
  assert.ok((await d.request('GET', '/api/gpu/status?gpu=1')).value.drain);
  await page.click('[data-undo=undrain]');
  await outcome(page, /GPU 1 can be used again/);
  await close(page);
  assert.equal((await d.request('GET', '/api/gpu/status?gpu=1')).value.drain, undefined);
  assert.deepEqual(page.faults(), []);
});

test('an administrator makes a token, uses it, and revokes it', async () => {
  const page = await as(d, 'admin', { hash: '#/users' });
  await page.click('.list-head >> text=Tokens');
  await page.waitForSelector('.list tbody tr');
  await act(page, 'make-token');
  assert.match(await says(page), /shown once[\s\S]*no program is stopped/i);
  await page.fill('#field-name', 'no good <b>');
  await confirm(page, 'make-token');
  await page.waitForSelector('.dialog .notice.tone-bad');
  await page.fill('#field-name', 'laptop');
  await page.selectOption('#field-role', 'viewer');
  await confirm(page, 'make-token');
  await outcome(page, /laptop is made/);
  const secret = await page.innerText('.secret code');
  const ask = (path, method = 'GET') => fetch(`http://127.0.0.1:${d.port}${path}`, { method, headers: { Authorization: `Bearer ${secret}` } });
  assert.equal((await (await ask('/api/whoami')).json()).user, 'token:laptop');
  await close(page);
  await page.click('.list tr[data-row=laptop]');
  await act(page, 'revoke-token');
  assert.match(await says(page), /refuses the token laptop[\s\S]*leases stand[\s\S]*no program is stopped/);
  await confirm(page, 'revoke-token');
  await outcome(page, /laptop is revoked/);
  assert.equal((await ask('/api/whoami')).status, 401);
  assert.deepEqual(page.faults(), []);
});

test('who may not act sees no button, or reads why', async () => {
  const running = await submit(d, { name: 'mine', command: ['sleep', '1000'], lease: { memory_mb: 512 } });
  await happens(async () => (await job(running.id)).state === 'running');
  for (const [role, user] of [['viewer'], ['user'], ['user', 'eve']]) {
    const page = await as(d, role, { user, hash: `#/jobs/${running.id}` });
    await page.waitForSelector('.peek >> text=/are shown to/');
    assert.equal(await page.locator('.peek [data-act]').count(), 0, `${role} ${user}`);
    assert.equal(await page.locator('.peek [role=log]').count(), 0);
    await page.goto(`${d.url}#/services/chat`);
    await page.waitForSelector('.peek .badge');
    assert.equal(await page.locator('.peek [data-act]').count(), 0);
    await page.goto(`${d.url}#/users`);
    await page.waitForSelector('.list tbody tr');
    const text = await page.innerText('main');
    assert.equal(await page.locator('text=Tokens').count(), 0);
    if (role === 'viewer') assert.ok(!/\bada\b/.test(text) && text.includes('another user'), text);
    else assert.ok(/\bada\b/.test(text) && /hidden/.test(text), text);
    await page.goto(`${d.url}#/jobs`);
    await page.waitForSelector('.list tbody tr');
    await act(page, 'submit');
    await page.waitForSelector('dialog[open]');
    if (user) {
      await page.waitForSelector('#field-command');
    } else {
      assert.match(await page.innerText('.dialog'), role === 'viewer' ? /you need the role user, and you have the role viewer/ : /token that is bound to no user/);
      assert.equal(await page.locator('[data-confirm=submit]').count(), 0);
    }
    assert.deepEqual(page.faults(), []);
    await page.context().close();
  }
  // The daemon refuses what the page does not offer.
  const secret = await token(d, 'operator');
  const post = (path, body = {}, more = {}) => fetch(`http://127.0.0.1:${d.port}${path}`, { method: 'POST', headers: { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json', ...more }, body: JSON.stringify(body) });
  const refused = await post('/api/jobs', { command: ['true'] });
  assert.equal(refused.status, 403);
  assert.equal((await refused.json()).code, 'cannot_run');
  assert.equal((await post(`/api/jobs/${running.id}/redo`)).status, 403);
  assert.equal((await post('/api/tokens', { name: 'x', role: 'admin' })).status, 403);

  // A refusal that comes after the dialog opened is shown in it.
  const page = await as(d, 'operator', { hash: `#/jobs/${running.id}` });
  await act(page, 'cancel-job');
  assert.match(await says(page), /the job mine-\d+ of ada[\s\S]*audit log/);
  await page.route(/\/cancel$/, (r) => r.fulfill({ status: 409, json: { code: 'wrong_state', detail: hostile, status: 409, title: 'x', type: 'about:blank' } }));
  await confirm(page, 'cancel-job');
  await page.waitForSelector(`.dialog .notice.tone-bad >> text=${hostile}`);
  await page.unroute(/\/cancel$/);
  await confirm(page, 'cancel-job');
  await outcome(page, /ends, with its programs/);
  assert.deepEqual(page.faults(), []);
});

test('the session of the page submits for its person, and no other site does', async () => {
  const secret = await token(d, 'user', 'ada');
  const page = await open(d, { hash: '#/jobs', expected: [/404.*\/api\/(v1|alerts)/] });
  const made = await page.evaluate(async (token) => {
    await fetch('/api/session', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ token }) });
    return document.cookie;
  }, secret);
  assert.equal(made, '', 'a script can read the cookie');
  await page.reload();
  await act(page, 'submit');
  await page.fill('#field-command', 'true');
  await page.fill('#field-name', 'session');
  await page.fill('#field-memory', '1');
  await page.fill('#field-directory', d.home);
  await confirm(page, 'submit');
  await outcome(page, /session-\d+ is submitted/);
  // The cookie alone, from elsewhere.
  const [cookie] = await page.context().cookies();
  const from = (headers) => fetch(d.url + 'api/jobs', { method: 'POST', headers: { Cookie: `${cookie.name}=${cookie.value}`, 'Content-Type': 'application/json', ...headers }, body: JSON.stringify({ command: ['true'] }) });
  for (const headers of [{ 'Sec-Fetch-Site': 'cross-site' }, { Origin: 'http://evil.example' }, {}]) {
    const answer = await from(headers);
    assert.equal(answer.status, 403, JSON.stringify(headers));
  }
  assert.deepEqual(page.faults(), []);
});
