// What the browser tests share: a real daemon with simulated devices, processes that
// use simulated memory, and a Chromium that watches for what must not happen.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { front } from './front.mjs';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const berth = process.env.BERTH_BIN ?? join(root, 'bin/berth');

// patient is how long a test waits for something that must happen. Machines that run
// tests may be very slow.
export const patient = Number(process.env.BERTH_PATIENCE ?? 60_000);

// freePort returns a TCP port that nobody listens on.
export async function freePort() {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

// Daemon is a daemon of its own: socket, state, port and simulated devices.
export class Daemon {
  // start runs a daemon. scenario is the text of a scenario file, or what follows
  // sim: such as 8; config is the text of a configuration file; passwd the users that
  // the daemon knows, as { name: uid } (only where the tests run as root). prepare is
  // called with the folder of its state before it starts.
  static async start({ scenario = '4', config = '', passwd, prepare } = {}) {
    const d = new Daemon();
    d.folder = mkdtempSync(join(tmpdir(), 'berth-web-'));
    chmodSync(d.folder, 0o755);
    d.socket = join(d.folder, 'berth.sock');
    d.guests = join(d.folder, 'guests');
    mkdirSync(d.guests);
    d.port = await freePort();
    d.devices = `sim:${scenario}`;
    if (scenario.includes('\n')) {
      writeFileSync(join(d.folder, 'scenario.yaml'), scenario);
      d.devices = `sim:${join(d.folder, 'scenario.yaml')}`;
    }
    writeFileSync(join(d.folder, 'berth.yaml'), config);
    if (passwd) {
      const lines = Object.entries(passwd).map(([name, uid]) => `${name}:x:${uid}:${uid}::/:/bin/false\n`);
      writeFileSync(join(d.folder, 'passwd'), readFileSync('/etc/passwd', 'utf8') + lines.join(''));
    }
    d.started = [];
    if (prepare) await prepare(join(d.folder, 'state'));
    await d.run();
    if (process.env.BERTH_FRONT) {
      d.front = await front(d.port);
      d.url = `http://127.0.0.1:${d.front.address().port}/`;
    } else {
      d.url = `http://127.0.0.1:${d.port}/`;
    }
    return d;
  }

  // run starts the process, also again after kill or end.
  async run() {
    const args = ['serve', '--config', join(this.folder, 'berth.yaml'), '--devices', this.devices, '--socket', this.socket,
      '--state-dir', join(this.folder, 'state'), '--listen', `127.0.0.1:${this.port}`];
    const env = { ...process.env, BERTH_SIM_GUESTS: this.guests };
    delete env.BERTH_TOKEN;
    const log = openSync(join(this.folder, 'log'), 'a');
    this.process = existsSync(join(this.folder, 'passwd'))
      ? spawn('unshare', ['--mount', 'sh', '-c', 'mount --bind "$0" /etc/passwd && exec "$@"', join(this.folder, 'passwd'), berth, ...args], { env, stdio: ['ignore', log, log] })
      : spawn(berth, args, { env, stdio: ['ignore', log, log] });
    const ended = once(this.process, 'exit');
    for (;;) {
      const up = await this.request('GET', '/readyz').then((r) => r.status === 200, () => false);
      if (up) return;
      const over = await Promise.race([ended.then(() => true), new Promise((r) => setTimeout(r, 50, false))]);
      if (over) throw new Error(`the daemon ended: ${readFileSync(join(this.folder, 'log'), 'utf8')}`);
    }
  }

  // end ends the process and waits for it.
  async end(signal = 'SIGTERM') {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = once(this.process, 'exit');
    this.process.kill(signal);
    await gone;
  }

  // stop ends everything and removes the files.
  async stop() {
    for (const p of this.started) p.kill('SIGKILL');
    await this.end();
    this.front?.closeAllConnections();
    this.front?.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  // request asks over the socket, as the user who runs the tests.
  request(method, path, body) {
    return new Promise((resolve, reject) => {
      const r = http.request({ socketPath: this.socket, method, path, headers: { 'Content-Type': 'application/json' } }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part) => (text += part)).on('end', () => {
          let value = text;
          try {
            value = JSON.parse(text);
          } catch {
            // Not every answer is JSON.
          }
          resolve({ status: answer.statusCode, value });
        });
      });
      r.on('error', reject);
      r.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  // lease asks for a lease, and returns it.
  async lease(body) {
    const { status, value } = await this.request('POST', '/api/leases', { timeout_seconds: 0, ...body });
    assert.equal(status, 201, JSON.stringify(value));
    return value;
  }

  // wait puts a request into the queue, and returns when it is there. The request is
  // withdrawn when the daemon or the test ends.
  async wait(body) {
    const { id } = body;
    let answered;
    this.request('POST', '/api/leases', { timeout_seconds: 3600, ...body }).then((a) => (answered = a), () => {});
    for (;;) {
      if (answered) assert.fail(`the request does not wait: ${JSON.stringify(answered.value)}`);
      const { value } = await this.request('GET', '/api/leases');
      if (value.waiting.some((w) => w.id === id)) return;
      await new Promise((r) => setTimeout(r, 20));
    }
  }

  async release(id) {
    const { status, value } = await this.request('DELETE', `/api/leases/${encodeURIComponent(id)}`);
    assert.equal(status, 200, JSON.stringify(value));
  }

  // program starts a process that uses memory of simulated devices, as
  // { UUID: { memory_mb, load } }, and can hold leases by its pid.
  async program(use = {}, { uid } = {}) {
    const p = spawn('sleep', ['100000'], { stdio: 'ignore', ...(uid === undefined ? {} : { uid, gid: uid }) });
    this.started.push(p);
    await once(p, 'spawn');
    this.use(p, use, uid);
    return p;
  }

  // use changes what a program uses.
  use(program, use, uid) {
    for (const [uuid, what] of Object.entries(use)) {
      mkdirSync(join(this.guests, uuid), { recursive: true });
      const file = join(this.folder, `guest-${uuid}-${program.pid}`);
      writeFileSync(file, JSON.stringify(what));
      if (uid !== undefined) chownSync(file, uid, uid);
      renameSync(file, join(this.guests, uuid, String(program.pid))); // the daemon may read it at any time
    }
  }

  // as runs the berth command as another user.
  as(uid, ...args) {
    const p = spawn(berth, ['--socket', this.socket, ...args], { stdio: 'ignore', uid, gid: uid });
    this.started.push(p);
    return p;
  }

  // command runs the berth command as another user, and waits for its end.
  async command(uid, ...args) {
    const p = spawn(berth, ['--socket', this.socket, ...args], { stdio: ['ignore', 'ignore', 'pipe'], uid, gid: uid });
    let said = '';
    p.stderr.setEncoding('utf8').on('data', (text) => (said += text));
    const [code] = await once(p, 'exit');
    assert.equal(code, 0, `berth ${args.join(' ')}: ${said}`);
  }

  // cpu returns the processor time that the daemon has taken, in seconds.
  cpu() {
    const text = readFileSync(`/proc/${this.process.pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) / 100;
  }

  log() {
    return readFileSync(join(this.folder, 'log'), 'utf8');
  }
}

let shared;

// browser starts Chromium once for a file of tests.
export async function browser() {
  shared ??= await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  return shared;
}

export async function closeBrowser() {
  await shared?.close();
  shared = undefined;
}

// open opens the page of a daemon, and watches it. page.faults() lists what must not
// happen: errors in the console, scripts that fail, requests to another host. Requests
// that fail while the daemon is down are named in the console too; expected says
// which texts are no fault.
export async function open(daemon, { hash = '', expected = [], ...options } = {}) {
  const context = await (await browser()).newContext({ viewport: { width: 1440, height: 900 }, locale: 'en-GB', timezoneId: 'UTC', ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(patient);
  const faults = [];
  if (process.env.BERTH_FRONT) expected = [...expected, /404.*api\/(alerts|v1)/]; // the daemon may be older than the page
  const host = new URL(daemon.url).host;
  page.on('console', (m) => {
    if (m.type() === 'error' && !expected.some((e) => e.test(`${m.text()} ${m.location().url}`))) faults.push(`console: ${m.text()} ${m.location().url}`);
  });
  page.on('pageerror', (err) => faults.push(`script: ${err.stack ?? err}`));
  page.on('request', (r) => {
    const url = new URL(r.url());
    if (url.host !== host && url.protocol !== 'data:') faults.push(`request to ${r.url()}`);
  });
  page.on('dialog', (d) => {
    faults.push(`dialog: ${d.message()}`);
    void d.dismiss();
  });
  page.faults = () => faults;
  await page.addInitScript(() => {
    window.longTasks = [];
    new PerformanceObserver((list) => {
      for (const e of list.getEntries()) window.longTasks.push({ start: Math.round(e.startTime), ms: Math.round(e.duration) });
    }).observe({ type: 'longtask', buffered: true });
  });
  await page.goto(daemon.url + hash);
  return page;
}

// until waits until something in the page is true.
export async function until(page, what, ...args) {
  await page.waitForFunction(what, args.length === 1 ? args[0] : args, { timeout: patient, polling: 100 });
}

