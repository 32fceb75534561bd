// Measures what the page takes, beside an empty page of the same browser: its first
// view on a cold cache at a fourth of the speed, its longest task, what it costs the
// browser and the daemon while it is open, and a graph of a month. On 16 devices with
// 200 leases, 1,000 jobs and 50 requests that wait; then 64 devices.
//
//	node test/browser/bench.mjs [SECONDS]
//
// BERTH_MONTH is a folder with a month that test/bench/past wrote for SIM-h200-0 to
// SIM-h200-15; without it, one is written, which takes minutes.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { browser, closeBrowser, Daemon, open, until } from './harness.mjs';
import { traced } from './trace.mjs';

const seconds = Number(process.argv[2] ?? 60);
const root = fileURLToPath(new URL('../../..', import.meta.url));
const pause = (s) => new Promise((r) => setTimeout(r, s * 1000));
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
let failed = false;

// line prints a figure with its limit, and what the empty page has.
function line(name, value, limit, unit, empty) {
  const beside = empty === undefined ? '' : `; empty page ${empty.toFixed(2)}${empty > 0.005 ? `, ${(value / empty).toFixed(1)} times as much` : ''}`;
  const over = limit !== undefined && value > limit;
  console.log(`${over ? 'OVER ' : '     '}${name}: ${value.toFixed(2)} ${unit}${limit === undefined ? '' : `; limit ${limit}, ${(value / limit).toFixed(2)} of it`}${beside}`);
  failed ||= over;
}

// month puts a month of the past into the state of a daemon.
async function month(state) {
  mkdirSync(state, { recursive: true, mode: 0o700 });
  const past = join(state, 'past');
  if (process.env.BERTH_MONTH) return cpSync(process.env.BERTH_MONTH, past, { recursive: true });
  console.log('writing a month …');
  const p = spawn('go', ['run', './test/bench/past', '-dir', past, '-days', '30', '-every', '30s', '-seconds', '0', '-devices', '16', '-name', 'SIM-h200-', '-write', '-end', new Date().toISOString()], { cwd: root, stdio: 'inherit' });
  const [code] = await once(p, 'exit');
  if (code !== 0) throw new Error('the month could not be written');
}

const waves = (n) => `devices: ${n}xh200\ntimeline:\n  - {device: all, load: 30}\n  - {at: 5s, for: 20s, repeat: 40s, device: all, load: 90, ramp: 5s}\n`;

// cost returns what a page and the whole browser take, in percent of a core.
async function cost(page, during) {
  const session = await page.context().newCDPSession(page);
  const whole = await (await browser()).newBrowserCDPSession();
  await session.send('Performance.enable', { timeDomain: 'threadTicks' }); // what a task waits for a processor does not count
  const metrics = async () => Object.fromEntries((await session.send('Performance.getMetrics')).metrics.map((m) => [m.name, m.value]));
  const processes = async () => (await whole.send('SystemInfo.getProcessInfo')).processInfo.reduce((sum, p) => sum + p.cpuTime, 0);
  const [before, all, from] = [await metrics(), await processes(), performance.now()];
  await during();
  const [after, allAfter] = [await metrics(), await processes()];
  const took = (performance.now() - from) / 1000;
  const part = (name) => ((after[name] - before[name]) / took) * 100;
  return { page: part('TaskDuration'), script: part('ScriptDuration'), layout: part('LayoutDuration') + part('RecalcStyleDuration'), browser: ((allAfter - all) / took) * 100, heap: after.JSHeapUsedSize / 1e6, nodes: after.Nodes };
}

// rest waits until the machine does little, at most for 20 s: what the daemon and the
// browser still do about the page before is no part of the next one.
async function rest() {
  const ticks = () => {
    const all = readFileSync('/proc/stat', 'utf8').split('\n')[0].trim().split(/\s+/).slice(1, 9).map(Number);
    return { idle: all[3] + all[4], all: all.reduce((a, b) => a + b) };
  };
  for (let i = 0; i < 100; i++) {
    const before = ticks();
    await pause(0.2);
    const after = ticks();
    if (after.idle - before.idle > 0.6 * (after.all - before.all)) return;
  }
}

// slowly opens an address in a fresh context, so many times slower, and returns when
// what is asked for was drawn, in ms, what its thread took of the processor until then,
// and how many bytes came.
async function slowly(url, drawn, rate = 4) {
  await rest();
  const context = await (await browser()).newContext({ viewport: { width: 1400, height: 900 } });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  if (rate > 1) await session.send('Emulation.setCPUThrottlingRate', { rate });
  const names = new Map();
  const bytes = { page: 0, api: 0 };
  session.on('Network.responseReceived', (e) => names.set(e.requestId, new URL(e.response.url).pathname));
  session.on('Network.loadingFinished', (e) => (bytes[names.get(e.requestId)?.startsWith('/api') ? 'api' : 'page'] += e.encodedDataLength));
  await page.addInitScript((text) => {
    const done = new Function(`return ${text}`)();
    const look = () => (done() ? requestAnimationFrame(() => setTimeout(() => console.debug(`first view ${performance.now()}`))) : requestAnimationFrame(look));
    look();
  }, `() => ${drawn}`);
  // The page says it: asking it again and again would run in the thread that is measured.
  const said = page.waitForEvent('console', { predicate: (m) => m.text().startsWith('first view '), timeout: 60_000 });
  await page.goto(url);
  const ms = Number((await said).text().slice('first view '.length));
  const busy = (await session.send('Performance.getMetrics')).metrics.find((m) => m.name === 'TaskDuration').value * 1000;
  await context.close();
  return { ms, busy, bytes };
}

const empty = http.createServer((_, answer) => answer.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><html lang="en"><title>empty</title><p>empty'));
empty.listen(0, '127.0.0.1');
await once(empty, 'listening');
const emptyURL = `http://127.0.0.1:${empty.address().port}/`;

const d = await Daemon.start({ scenario: waves(16), config: 'gpu:\n  max_pipelines: 32\n', prepare: month });
try {
  for (let i = 0; i < 200; i++) {
    // Without programs: reading what programs use of simulated devices costs the
    // daemon more than all the rest, and no real device needs it.
    await d.lease({ id: `lease-${i}`, service: `service-${i % 9}`, gpu: String(i % 16), memory_mb: 2000 + ((i * 37) % 9000), time_limit_seconds: 7200 + i * 60 });
  }
  for (let i = 0; i < 1000; i++) await d.request('POST', '/api/jobs', { name: `job${i % 20}`, command: ['true'], directory: '/', hold: i % 2 === 0, begin: new Date(Date.now() + 864e5).toISOString(), lease: { memory_mb: 1024 } });
  await Promise.all(Array.from({ length: 50 }, (_, i) => d.wait({ id: `request-${i}`, memory_mb: 120000 })));
  const { value: jobs } = await d.request('GET', '/api/jobs?limit=10000');
  const { value: leases } = await d.request('GET', '/api/leases?limit=10000');
  console.log(`16 devices, ${leases.leases.length} leases, ${jobs.jobs.length} jobs, ${leases.waiting.length} waiting; ${(await browser()).version()}; load ${(await import('node:os')).loadavg()[0].toFixed(1)}`);

  const drawn = "document.querySelectorAll('.row').length === 16 && document.querySelector('.own-one') !== null && document.querySelector('.someone') !== null && document.querySelector('.waiting') !== null && document.querySelector('.event') !== null";
  const views = [];
  const nothing = [];
  for (let i = 0; i < 7; i++) {
    nothing.push((await slowly(emptyURL, "document.querySelector('p') !== null")).ms);
    views.push(await slowly(d.url, drawn));
  }
  line('bytes of the first view', views[0].bytes.page / 1000, 100, 'kB');
  line('bytes of the API meanwhile', views[0].bytes.api / 1000, undefined, 'kB');
  const calm = [];
  for (let i = 0; i < 3; i++) calm.push((await slowly(d.url, drawn, 1)).busy);
  line('4 times what its thread takes of the processor until the first view', (4 * Math.min(...calm)) / 1000, 1, 's');
  // What others do on the machine only adds to it, so the best says what the page takes.
  line('first view, cold cache, CPU 4 times slower, best of 7', Math.min(...views.map((v) => v.ms)) / 1000, 1, 's', Math.min(...nothing) / 1000);
  line('the same, middle of 7', median(views.map((v) => v.ms)) / 1000, undefined, 's', median(nothing) / 1000);

  // Without the page and with it, in turns: the daemon has work of its own that comes and goes.
  const turns = [];
  let page, trace, none, some;
  for (let i = 0; i < 3; i++) {
    if (page) await page.context().close();
    const blank = await (await browser()).newContext().then((c) => c.newPage());
    await blank.goto(emptyURL);
    await pause(5);
    const idleFrom = d.cpu();
    none = await cost(blank, () => pause(seconds / 3));
    const idle = ((d.cpu() - idleFrom) / (seconds / 3)) * 100;
    await blank.context().close();

    if (i === 2) trace = await traced();
    page = await open(d, { viewport: { width: 1400, height: 900 } });
    await until(page, () => document.querySelectorAll('.row').length === 16);
    await pause(5);
    const [from, took] = [d.cpu(), performance.now()];
    some = await cost(page, () => pause(seconds / 3));
    const daemon = ((d.cpu() - from) / ((performance.now() - took) / 1000)) * 100;
    turns.push({ daemon, idle, more: daemon - idle });
  }
  const middle = turns.toSorted((a, b) => a.more - b.more)[1];
  const tasks = await trace.end();
  line('longest task after the first paint', tasks[0] ?? 0, 50, 'ms');
  line('page open, its thread', some.page, 3, '% of a core', none.page);
  line('page open, all processes of the browser', some.browser, undefined, '% of a core', none.browser);
  line('daemon, more than without a page, middle of three turns', middle.more, 0.5, `% of a core (${turns.map((t) => `${t.daemon.toFixed(2)} and ${t.idle.toFixed(2)}`).join(', ')})`);
  console.log(`     script ${some.script.toFixed(2)} %, style and layout ${some.layout.toFixed(2)} %, ${some.heap.toFixed(1)} MB of objects, ${some.nodes} nodes`);

  // A month's graph, from the click.
  await page.goto(`${d.url}#/gpu/SIM-h200-3`);
  await page.waitForSelector('.plots canvas, .view .empty');
  await pause(2);
  const graphs = [];
  for (let i = 0; i < 5; i++) {
    graphs.push(await page.evaluate(async () => {
      const tab = [...document.querySelectorAll('[aria-label="How far back"] .tab')].find((t) => t.innerText === 'month');
      const began = performance.now();
      tab.click();
      await new Promise((resolve) => {
        const look = () => (document.querySelector('.plots')?.dataset.range === '30d' && document.querySelectorAll('.plots canvas').length >= 5 ? requestAnimationFrame(() => setTimeout(resolve)) : requestAnimationFrame(look));
        look();
      });
      return performance.now() - began;
    }));
    await page.getByRole('button', { name: '5 min', exact: true }).click();
    await until(page, () => document.querySelector('.plots')?.dataset.range === '5m');
    await pause(1);
  }
  const points = await page.evaluate(() => document.querySelector('.plots').dataset.points);
  line('a month\'s graph from the click, best of 5', Math.min(...graphs) / 1000, 1, 's');
  line('the same, middle of 5', median(graphs) / 1000, undefined, 's');
  console.log(`     ${points} points a curve afterwards`);
  for (const fault of page.faults()) console.log(fault);
  failed ||= page.faults().length > 0;
  await page.context().close();
} finally {
  await d.stop();
}

const many = await Daemon.start({ scenario: waves(64), config: 'gpu:\n  max_pipelines: 32\n' });
try {
  for (let i = 0; i < 120; i++) await many.lease({ id: `lease-${i}`, service: `service-${i % 9}`, gpu: String(i % 64), memory_mb: 2000 + ((i * 37) % 9000) });
  const trace = await traced();
  const page = await open(many, { viewport: { width: 1400, height: 900 } });
  await until(page, () => document.querySelectorAll('.row').length === 64);
  await pause(5);
  await page.evaluate(() => {
    window.beats = [];
    new MutationObserver(() => window.beats.push(performance.now())).observe(document.querySelector('.rows'), { subtree: true, characterData: true, childList: true });
  });
  const some = await cost(page, () => pause(Math.min(30, seconds)));
  const beats = await page.evaluate(() => window.beats.filter((t, i, all) => i === 0 || t - all[i - 1] > 100));
  const tasks = await trace.end();
  const gaps = beats.slice(1).map((t, i) => t - beats[i]);
  line('64 devices, time from one picture to the next, middle', median(gaps) / 1000, 1.1, 's');
  line('64 devices, longest task', tasks[0] ?? 0, 50, 'ms');
  line('64 devices, page open, its thread', some.page, undefined, '% of a core');
} finally {
  await closeBrowser();
  await many.stop();
  empty.close();
}
process.exit(failed ? 1 : 0);
