// Draws the pictures of the overview for the documentation: 4, 16 and 64 devices, each
// on a screen of a laptop, on a large one and on a phone. It needs root, because the
// users in the pictures are known to the daemon alone.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { closeBrowser, Daemon, open, until } from './harness.mjs';
import { palette } from './palette.mjs';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const folder = join(root, 'docs/pictures');
mkdirSync(folder, { recursive: true });
const pause = (s) => new Promise((r) => setTimeout(r, s * 1000));
const users = { ada: 7001, ben: 7002, chloe: 7003, dmitri: 7004, erin: 7005 };

// What people run: id, service, GiB asked for, share of it in use.
const work = [
  ['embedder', 'search', 32, 0.87], ['train-vit-large-fold-1', 'vision', 48, 0.95], ['llama-70b', 'chat', 72, 0.93], ['whisper', 'speech', 24, 0.4],
  ['reranker', 'search', 16, 0.68], ['train-vit-large-fold-2', 'vision', 48, 0.1], ['render-42', 'studio', 12, 0.85], ['notebook', 'lab', 20, 0],
  ['diffusion', 'studio', 28, 0.9], ['align-proteins', 'folding', 36, 0.75], ['eval-suite', 'chat', 10, 0.5],
];

// story starts a daemon on which several people work. trouble are entries of its
// timeline; the picture is taken five minutes later.
async function story(count, leases, trouble) {
  const waves = [`  - {device: all, load: 22}`];
  for (let i = 0; i < count; i += 2) waves.push(`  - {at: ${10 + (i % 7) * 9}s, for: ${25 + (i % 5) * 11}s, repeat: ${70 + (i % 9) * 12}s, device: ${i}, load: ${55 + (i % 4) * 12}, ramp: 6s}`);
  waves.push(`  - {at: 20s, device: 1, process: {pid: 5000001, name: jupyter, memory_mb: 6GiB, load: 4}}`, ...trouble.map((t) => `  - ${t}`));
  const d = await Daemon.start({ scenario: `devices: ${count}xh200\ntimeline:\n${waves.join('\n')}\n`, config: 'gpu:\n  max_pipelines: 8\n', passwd: users });
  const names = Object.keys(users);
  for (let i = 0; i < leases; i++) {
    const [id, service, asked, used] = work[i % work.length];
    const gpu = `SIM-h200-${i % count}`;
    const uid = users[names[(i * 3 + Math.floor(i / 5)) % names.length]];
    const program = await d.program({ [gpu]: { memory_mb: Math.round(asked * 1024 * used), load: 3 } }, { uid });
    await d.command(uid, 'allocate', service, `${asked}GiB`, '--id', i < work.length ? id : `${id}-${i}`, '--gpu', gpu, '--pid', String(program.pid), '--time', `${40 + (i % 4) * 20}m`, '--timeout', '0').catch(() => program.kill());
  }
  // Some things are done from where the daemon sees the same files.
  const inside = async (uid, ...args) => {
    const p = spawn('nsenter', ['-m', '-t', String(d.process.pid), '-S', String(uid), '-G', String(uid), join(root, 'bin/berth'), '--socket', d.socket, ...args], { stdio: ['ignore', 'pipe', 'inherit'], cwd: '/' });
    let text = '';
    p.stdout.setEncoding('utf8').on('data', (part) => (text += part));
    const [code] = await once(p, 'close');
    if (code !== 0) throw new Error(`berth ${args.join(' ')} failed`);
    return text;
  };
  const submit = (user, name, memory) => inside(users[user], 'submit', '--name', name, '--memory', memory, '--time', '30m', '--output', '/dev/null', '--', 'sleep', '3000');
  await submit('ada', 'distill', '6GiB');
  await submit('ada', 'finetune', '134GiB');
  await submit('ben', 'reindex', '120GiB');
  d.token = JSON.parse(await inside(0, 'token', 'create', 'ada', '--role', 'operator', '--as', 'ada', '--json')).token;
  return d;
}

// end ends the jobs too: they outlive a daemon.
async function end(d) {
  for (const job of (await d.request('GET', '/api/jobs')).value.jobs) {
    await d.request('POST', `/api/jobs/${job.id}/cancel`, {});
    await d.request('GET', `/api/jobs/${job.id}?wait_seconds=30`);
  }
  await d.stop();
}

async function take(d, count, name, options) {
  const page = await open(d, { ...options, extraHTTPHeaders: { Authorization: `Bearer ${d.token}` } });
  await until(page, (n) => document.querySelectorAll('.row, .card').length === n, count);
  await pause(14); // the explanations of the queue are there
  const file = join(folder, `page-${name}.png`);
  const small = palette(await page.screenshot());
  writeFileSync(file, small);
  console.log(`${file}: ${small.length} bytes`);
  if (page.faults().length > 0) throw new Error(page.faults().join('\n'));
  await page.context().close();
}

const laptop = { viewport: { width: 1400, height: 900 } };
const large = { viewport: { width: 2560, height: 1440 } };
const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

const hot = (device, at) => `{at: ${at}s, device: ${device}, load: 100, cooling: 0.2, ambient_celsius: 70}`;
const all = [
  [4, 14, [hot(2, 190)]],
  [16, 48, [hot(11, 190), '{at: 150s, device: 5, load: 100, cooling: 0.55, ambient_celsius: 45}']],
  [64, 160, [hot(37, 190), '{at: 240s, device: 50, lost: true}']],
];
const started = [];
try {
  for (const one of all) started.push(await story(...one));
  await pause(290);
  for (const [i, [count]] of all.entries()) {
    const d = started[i];
    await take(d, count, `${count}`, count === 16 ? { ...laptop, colorScheme: 'dark' } : laptop);
    await take(d, count, `${count}-large`, large);
    await take(d, count, `${count}-phone`, count === 16 ? { ...phone, colorScheme: 'dark' } : phone);
    if (count === 4) await take(d, count, 'cards', { ...laptop, hash: '#/?view=cards' });
  }
} finally {
  await closeBrowser();
  for (const d of started) await end(d);
}
