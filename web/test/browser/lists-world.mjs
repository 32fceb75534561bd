// A machine with something of everything that the lists show: jobs, services, leases,
// pools, batches, users and tokens.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Daemon, open, patient } from './harness.mjs';

const root = fileURLToPath(new URL('../../..', import.meta.url));

export const ada = 47111;
export const eve = 47112;

// until waits until something is true of the daemon.
export async function until(what) {
  const deadline = Date.now() + patient;
  while (!(await what())) {
    assert.ok(Date.now() < deadline, `it did not happen: ${what}`);
    await new Promise((r) => setTimeout(r, 50));
  }
}

// hostile names what people could choose to do harm.
export const hostile = '<img src=x onerror=alert(1)>';

const service = (name, more = '') => `  ${name}:
    command: [python3, -m, http.server, --bind, 127.0.0.1, "\${PORT}"]
    user: ada
    directory: /
    memory: 4096
    ready: {path: /}
${more}`;

const over = new Set(['done', 'failed', 'cancelled', 'timed_out', 'lost']);

// world starts a daemon with two users, who are in no real table of users: only where the
// tests run as root.
export async function world({ config = '', scenario = '2' } = {}) {
  const d = await Daemon.start({ scenario, passwd: { ada, eve, 'berth-front': 47113 }, config: `optimization:\n  deallocation_timeout: 1\ngpu:\n  max_pipelines: 16\nusers:\n  ada: {memory_mb: 300GiB, leases: 4}\nservices:\n${service('chat')}${service('embed')}${config}` });
  d.home = join(d.folder, 'home');
  mkdirSync(d.home);
  chmodSync(d.home, 0o755);
  chownSync(d.home, ada, ada);
  // Jobs and services outlive a daemon, so they end before it does.
  const stop = d.stop.bind(d);
  d.stop = async () => {
    const list = async () => [...(await d.request('GET', '/api/jobs')).value.jobs.filter((j) => !over.has(j.state)), ...(await d.request('GET', '/api/services')).value.services.filter((s) => s.pid)];
    for (const it of await list()) await d.request('POST', it.id ? `/api/jobs/${it.id}/cancel` : `/api/services/${it.name}/stop`, {});
    const deadline = Date.now() + patient;
    while (Date.now() < deadline && (await list()).length > 0) await new Promise((r) => setTimeout(r, 100));
    const { socket } = d;
    await stop();
    rmSync(`/var/tmp/berth-${ada}`, { recursive: true, force: true }); // logs of services
    for (const pid of readdirSync('/proc').filter((n) => /^\d+$/.test(n))) {
      let words = [];
      try {
        words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      } catch {
        // It has ended.
      }
      if (words.includes(socket)) process.kill(Number(pid), 'SIGKILL'); // the front of this daemon
    }
  };
  return d;
}

// token makes a token, and returns its secret. as: bound to this user, by an administrator
// whom the daemon sees beside it, in its own mount namespace.
export async function token(d, role, as) {
  const name = `${role}-${Math.random().toString(36).slice(2, 8)}`;
  if (as) {
    const args = ['-t', String(d.process.pid), '-m', process.env.BERTH_BIN ?? join(root, 'bin/berth'), '--socket', d.socket, 'token', 'create', name, '--role', role, '--as', as, '--json'];
    const { stdout } = await promisify(execFile)('nsenter', args);
    return JSON.parse(stdout).token;
  }
  const { status, value } = await d.request('POST', '/api/tokens', { name, role, as });
  assert.ok(status < 300, JSON.stringify(value));
  return value.token;
}

// as opens the page with a token that has a role.
export async function as(d, role, { user, ...options } = {}) {
  const secret = await token(d, role, user);
  const expected = [/Blocked script execution in .*api\/report/, /404.*\/api\/(v1|alerts|leases|jobs)/, /status of (401|403|409|422|429)/, ...(options.expected ?? [])];
  const page = await open(d, { ...options, expected, extraHTTPHeaders: { Authorization: `Bearer ${secret}` } });
  page.secret = secret;
  return page;
}

// submit submits a job of ada.
export async function submit(d, body) {
  d.bound ??= await token(d, 'user', 'ada');
  const answer = await fetch(`http://127.0.0.1:${d.port}/api/jobs`, { method: 'POST', headers: { Authorization: `Bearer ${d.bound}`, 'Content-Type': 'application/json' }, body: JSON.stringify({ directory: d.home, ...body }) });
  const value = await answer.json();
  assert.equal(answer.status, 201, JSON.stringify(value));
  return value;
}

const bounds = [0.001, 0.01, 0.1, 1, 10];

export function batch(id, more = {}) {
  return { id, output: `/data/${id}.jsonl`, command: 'python3 embed.py', stage: 'running', total: 1000, total_exact: true, done: 400, done_before: 0, failed: 7, marked: 0, retries: 0, restarts: 0, records_per_second: 31.5, seconds_left: 19, workers: 1,
    started: new Date(Date.now() - 60_000).toISOString(),
    gpus: [{ gpu: 'SIM-h200-0', index: 0, name: 'H200', workers: 1, ready: 1, multiplier: 1, batch: 8, done: 400, failed: 7, retries: 0, restarts: 0, given_up: false, busy_seconds: 12, records_per_second: 31.5, latency: { bounds, counts: [...bounds.map((_, i) => i), 0], sum_seconds: 9 } }], ...more };
}

// busy fills a machine.
export async function busy(d) {
  const jobs = [];
  jobs.push(await submit(d, { name: 'train', command: ['/bin/sh', '-c', 'i=0; while :; do i=$((i+1)); echo "epoch $i loss 0.$((100-i))"; sleep 1; done'], lease: { memory_mb: 8192, time_limit_seconds: 7200 } }));
  jobs.push(await submit(d, { name: 'prepare', command: ['/bin/sh', '-c', 'echo prepared; exit 0'], lease: { memory_mb: 1024 } }));
  jobs.push(await submit(d, { name: 'broken', command: ['/bin/sh', '-c', 'echo it breaks; exit 3'], lease: { memory_mb: 1024 } }));
  jobs.push(await submit(d, { name: 'later', command: ['sleep', '1000'], hold: true, lease: { memory_mb: 1024 } }));
  jobs.push(await submit(d, { name: 'sweep', command: ['/bin/sh', '-c', 'exit $(({n} % 2))'], params: [{ name: 'n', values: ['1', '2', '3', '4'] }], lease: { memory_mb: 512 } }));
  await d.request('POST', '/api/services/chat/start', {});
  await until(async () => (await d.request('GET', '/api/services/chat')).value.state === 'ready');
  await d.lease({ id: 'notebook', service: 'lab', gpu: '0', memory_mb: 20480 });
  await d.lease({ id: 'pool', gpu: '1', memory_mb: 20480, pool: true });
  await d.lease({ id: 'pool-a', memory_mb: 4096, from_pool: 'pool' });
  await d.lease({ id: 'pool-b', memory_mb: 2048, from_pool: 'pool' });
  await d.lease({ id: hostile, service: hostile, name: hostile, memory_mb: 1024 });
  await d.lease({ id: 'old', memory_mb: 4096 });
  await d.release('old');
  jobs.push(await submit(d, { name: 'huge', command: ['sleep', '1000'], lease: { memory_mb: 140000, gpus: 2 } }));
  await d.wait({ id: 'waits', gpu: '0', memory_mb: 140000 });
  for (const b of [batch('vectors'), batch(hostile, { output: `/data/${hostile}`, command: hostile })]) {
    const put = () => d.request('PUT', `/api/batches/${encodeURIComponent(b.id)}`, b);
    const { status, value } = await put();
    assert.equal(status, 200, JSON.stringify(value));
  }
  await d.request('PUT', '/api/batches/over', batch('over', { stage: 'done', done: 1000, failed: 0 }));
  const timer = setInterval(() => void d.request('PUT', '/api/batches/vectors', batch('vectors')).catch(() => {}), 3000);
  const stop = d.stop.bind(d);
  d.stop = () => { clearInterval(timer); return stop(); };
  const state = async (id, want) => (await d.request('GET', `/api/jobs/${id}`)).value.state === want;
  await until(() => state(jobs[0].id, 'running'));
  await until(() => state(jobs.find((j) => j.id.startsWith('broken')).id, 'failed'));
  return Object.fromEntries(jobs.map((j) => [j.name ?? j.id.split('-')[0], j.id]));
}
