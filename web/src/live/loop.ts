import { batch } from '@preact/signals';
import { api, call, refusal, Refusal } from '../api/client';
import { earlyAt } from '../api/early';
import type { Event, Leases, Sample, StatusAll } from '../api/types';
import { place } from '../router';
import { aboutAlerts, aboutLeases, mergeEvents } from './events';
import { type Contact, judge } from './freshness';
import { addBefore, addSample, fromRange, fromSamples, pastQuery, sparkSpan } from './history';
import { askAhead } from './own';
import { equal, keepSame } from './share';
import { follow } from './sse';
import * as state from './state';

const contact: Contact = { answered: undefined, failures: 0, refused: false };
const asked = new Set<string>(); // devices whose past the page has asked for, or will
const lacking: string[] = []; // those whose past it will ask for

let wake: (() => void)[] = []; // ends the pauses of what is repeated

let drawn = false; // there is something on the screen that changes wait for

// begin asks for everything again and again. It returns when the first answers are there
// that the page is drawn from, or a moment later.
export async function begin(): Promise<void> {
  const first = [
    repeat(pollStatus, () => (document.hidden ? 10_000 : 1000)),
    repeat(pollLeases, () => (document.hidden ? 30_000 : 5000)),
    repeat(pollPerson, () => 60_000),
  ];
  void repeat(pollAlerts, () => (document.hidden ? 60_000 : 15_000));
  void stream();
  setInterval(tick, 1000);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) refresh();
  });
  addEventListener('online', refresh);
  await Promise.race([Promise.all(first), new Promise((resolve) => setTimeout(resolve, patience))]);
  drawn = true;
}

const patience = 100; // ms that the first picture waits for answers

// refresh asks for everything now.
export function refresh(): void {
  const all = wake;
  wake = [];
  for (const one of all) one();
}

function tick(): void {
  if (document.hidden) return;
  batch(() => {
    state.now.value = Date.now() + (skew ?? 0);
    state.freshness.value = judge(contact, performance.now());
  });
}

// repeat does something again and again, one at a time. refresh cuts the pause short. It
// returns when it was done once.
function repeat(task: () => Promise<void>, pause: () => number): Promise<void> {
  const round = async () => {
    const began = performance.now();
    await task();
    const rest = Math.max(100, pause() - (performance.now() - began));
    const done = () => {
      clearTimeout(timer);
      wake = wake.filter((w) => w !== done);
      void round();
    };
    const timer = setTimeout(done, rest);
    wake.push(done);
  };
  return round();
}

// paint runs changes together, in the next frame if there will be one.
function paint(change: () => void): Promise<void> {
  return new Promise((resolve) => {
    const run = () => {
      batch(change);
      resolve();
    };
    if (document.hidden || !drawn) run();
    else requestAnimationFrame(run);
  });
}

let skew: number | undefined; // daemon's clock minus the browser's, in ms, at least
let leasesFrom = earlyAt; // when the list of leases was asked for, by the browser's clock
let alertsFrom = Date.now();

async function pollStatus(): Promise<void> {
  try {
    const answer = await api.status({ timeout: 8000 });
    const back = contact.failures > 1 || contact.refused;
    contact.answered = performance.now();
    contact.failures = 0;
    contact.refused = false;
    await paint(() => takeStatus(answer));
    if (back) refresh(); // the daemon is there again: do not wait for the next turn of the rest
  } catch (err) {
    if (err instanceof Refusal) {
      contact.failures = 0;
      contact.refused = err.status === 401 || err.status === 403;
      state.refusedWhy.value = err.message;
    } else {
      contact.failures++;
    }
  }
  state.freshness.value = judge(contact, performance.now());
}

function takeStatus(answer: StatusAll): void {
  const { host, version, monitoring, note = '', needs = [] } = answer;
  const machine = { host, version, monitoring, note };
  if (!equal(machine, state.machine.peek())) state.machine.value = machine;
  if (!equal(needs, state.needs.peek())) state.needs.value = needs;
  state.answeredAt.value = Date.now();
  const list = answer.gpus.map((g) => g.device.uuid);
  const before = state.uuids.peek();
  let newest = 0;
  for (const it of answer.gpus) {
    const uuid = it.device.uuid;
    const kept = state.device(uuid);
    if (!equal(kept.peek(), it)) kept.value = it;
    if (it.sample && !it.stale) {
      newest = Math.max(newest, Date.parse(it.sample.time));
      if (addSample(state.historyOf(uuid), it.sample)) state.drawnOf(uuid).value++;
    }
    if (!asked.has(uuid)) {
      asked.add(uuid);
      lacking.push(uuid);
    }
  }
  for (const uuid of before) {
    if (!list.includes(uuid)) state.device(uuid).value = undefined;
  }
  if (newest > 0) skew = newest - Date.now();
  if (unjudged !== undefined) {
    const early = unjudged;
    unjudged = undefined;
    askAbout(early);
  }
  if (!equal(list, before)) state.uuids.value = list;
  if (lacking.length > 0) void askPast();
}

let asking = false;

const together = 8; // devices whose past is drawn in one frame

// askPast asks for what happened on devices before the page was opened: the daemon's
// store, or the samples in its memory where it keeps no past.
async function askPast(): Promise<void> {
  const config = state.settings.peek();
  if (asking || config === undefined) return; // asked again with the next answer
  asking = true;
  const devices = lacking.splice(0);
  try {
    const end = Math.floor(Date.now() + (skew ?? 0)) / 1000;
    const range = config.past?.store === 'on' ? await api.range(pastQuery, end - sparkSpan, end, 2).catch(() => undefined) : undefined;
    while (devices.length > 0) {
      const some = devices.splice(0, together);
      const older = await Promise.all(some.map(async (uuid) => {
        const kept = range && fromRange(uuid, range);
        if (kept !== undefined && kept.times.length > 0) return kept;
        const { samples } = await call<{ samples: Sample[] }>('/api/gpu/metrics/history', { query: { gpu: uuid, since: `${sparkSpan}s` } });
        return fromSamples(samples);
      }));
      await paint(() => {
        some.forEach((uuid, i) => {
          addBefore(state.historyOf(uuid), older[i]!);
          state.drawnOf(uuid).value++;
        });
      });
    }
  } catch {
    // The curves begin now.
  } finally {
    asking = false;
  }
}

async function pollLeases(): Promise<void> {
  leasesFrom = state.leasesAsked.peek() ? Date.now() : earlyAt;
  try {
    const [answer, memory] = await Promise.all([allLeases(), api.available()]);
    await paint(() => {
      state.leases.value = keepSame(state.leases.peek(), answer.leases, (l) => l.fence);
      state.waiting.value = keepSame(state.waiting.peek(), answer.waiting, (w) => `${w.holder.user ?? ''}/${w.id}`);
      state.leasesKnown.value = true;
      state.leasesAsked.value = true;
      const known = state.available.peek();
      const list = keepSame([...known.values()], memory.gpus, (g) => g.gpu);
      if (list.length !== known.size || list.some((g) => known.get(g.gpu) !== g)) state.available.value = new Map(list.map((g) => [g.gpu, g]));
    });
  } catch {
    state.leasesAsked.value = true; // the status says whether the daemon is there
  }
}

// allLeases reads the list page by page.
async function allLeases(): Promise<Leases> {
  const all: Leases = { leases: [], waiting: [] };
  for (let after: string | undefined; ; ) {
    const page = await call<Leases>('/api/leases', { query: { after } });
    all.leases.push(...page.leases);
    all.waiting.push(...page.waiting);
    after = page.next;
    if (after === undefined) return all;
  }
}

async function pollAlerts(): Promise<void> {
  if (state.settings.peek()?.alerts?.evaluate === 'off') return;
  alertsFrom = Date.now();
  try {
    const answer = await api.alerts();
    await paint(() => {
      state.alerts.value = keepSame(state.alerts.peek(), answer.alerts, (a) => a.fingerprint);
    });
  } catch (err) {
    if (err instanceof Refusal) state.alerts.value = []; // this daemon evaluates none
  }
}

async function pollPerson(): Promise<void> {
  try {
    const person = api.whoami();
    if (state.me.peek() === undefined && place.peek().route.page === 'overview') person.then(askAhead, () => undefined);
    const [who, config] = await Promise.all([person, api.settings()]);
    await paint(() => {
      if (!equal(who, state.me.peek())) state.me.value = who;
      if (!equal(config, state.settings.peek())) state.settings.value = config;
    });
  } catch {
    // Asked again later; the status says why.
  }
}

// soon runs a task a moment later, and once for all who ask meanwhile.
function soon(task: () => Promise<void>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      void task();
    }, 250);
  };
}

const leasesSoon = soon(pollLeases);
const alertsSoon = soon(pollAlerts);
export { leasesSoon };

const firstEvents = 20; // more than the overview shows

// stream follows the events for ever, from the last one seen. A hidden page lets go
// of its stream after a while, because a browser has few connections to one host.
async function stream(): Promise<void> {
  let last = '';
  let pause = 1000;
  for (;;) {
    const stop = new AbortController();
    let hideTimer: ReturnType<typeof setTimeout> | undefined;
    const watch = () => {
      clearTimeout(hideTimer);
      if (document.hidden) hideTimer = setTimeout(() => stop.abort(), 30_000);
    };
    document.addEventListener('visibilitychange', watch);
    watch();
    let waiting: Event[] = [];
    let painting = false;
    try {
      const end = await follow(
        last === '' ? `/api/events?newest=${firstEvents}` : `/api/events?after=${encodeURIComponent(last)}`,
        stop.signal,
        (messages, lastId) => {
          if (lastId !== '') last = lastId;
          for (const m of messages) {
            const event = read(m.data);
            if (event) waiting.push(event);
          }
          if (waiting.length === 0 || painting) return;
          painting = true;
          void paint(() => {
            takeEvents(waiting);
            waiting = [];
            painting = false;
          });
        },
        () => {
          pause = 1000;
          batch(() => {
            state.following.value = true;
            state.followProblem.value = '';
          });
        },
      );
      if (end.status >= 400) state.followProblem.value = refusal(end.status, end.body).message;
    } catch {
      // The connection broke.
    }
    state.following.value = false;
    clearTimeout(hideTimer);
    document.removeEventListener('visibilitychange', watch);
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        wake = wake.filter((w) => w !== done);
        resolve();
      };
      const timer = document.hidden ? undefined : setTimeout(done, pause);
      wake.push(done);
    });
    pause = Math.min(pause * 2, 10_000);
  }
}

function read(text: string): Event | undefined {
  try {
    return JSON.parse(text) as Event;
  } catch {
    return undefined;
  }
}

function takeEvents(found: Event[]): void {
  const before = state.events.peek();
  const merged = mergeEvents(before, found);
  if (merged === before) return;
  state.events.value = merged;
  if (unjudged === undefined) askAbout(found);
  else unjudged.push(...found);
}

// unjudged has the events that came before the first answer about the devices, which
// tells the daemon's clock.
let unjudged: Event[] | undefined = [];

// askAbout asks again for what events may have changed.
function askAbout(found: Event[]): void {
  if (found.some((e) => aboutLeases(e) && since(e, leasesFrom))) leasesSoon();
  if (found.some((e) => aboutAlerts(e) && since(e, alertsFrom))) alertsSoon();
}

// since reports whether an event may have happened after a time of the browser's clock.
function since(e: Event, from: number): boolean {
  return skew === undefined || Date.parse(e.time) >= from + skew;
}

const olderAsked = new Set<string>();

// askOlder asks once for the newest events that a query chooses, also from before the page
// was opened: the stream begins with the newest of all.
export async function askOlder(query: string): Promise<void> {
  if (olderAsked.has(query)) return;
  olderAsked.add(query);
  const found: Event[] = [];
  try {
    await follow(`/api/events?follow=false&${query}`, AbortSignal.timeout(15_000), (messages) => {
      for (const m of messages) {
        const event = read(m.data);
        if (event) found.push(event);
      }
    }, () => undefined);
  } catch {
    olderAsked.delete(query); // whoever comes next asks again
  }
  state.events.value = mergeEvents(state.events.peek(), found);
}
