// Numbers and times for people. A value that is absent is a dash.

const dash = '–';
export const thin = '\u202f'; // a narrow space between a number and its unit, where no line breaks

// memory writes MiB as GiB or MiB, with at most three digits that matter.
export function memory(mib: number | undefined): string {
  if (mib === undefined || Number.isNaN(mib)) return dash;
  if (Math.abs(mib) < 1024) return `${Math.round(mib)}${thin}MiB`;
  const gib = mib / 1024;
  return `${tenths(gib)}${thin}GiB`;
}

function trim(text: string): string {
  return text.replace(/\.0$/, '');
}

// memoryOn writes memory on each of several devices: 2 × 9 GiB.
export function memoryOn(gpus: number, mib: number): string {
  return gpus > 1 ? `${gpus} × ${memory(mib)}` : memory(mib);
}

// quoted writes a command as a shell reads it.
export function quoted(command: readonly string[]): string {
  return command.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(' ');
}

export function percent(value: number | undefined): string {
  return value === undefined || Number.isNaN(value) ? dash : `${Math.round(value)}${thin}%`;
}

export function celsius(value: number | undefined): string {
  return value === undefined || Number.isNaN(value) ? dash : `${Math.round(value)}${thin}°C`;
}

export function watts(value: number | undefined): string {
  return value === undefined || Number.isNaN(value) ? dash : `${Math.round(value)}${thin}W`;
}

export function joules(value: number | undefined): string {
  if (value === undefined) return dash;
  if (value < 1000) return `${Math.round(value)}${thin}J`;
  const wh = value / 3600;
  if (wh < 1000) return `${wh < 10 ? trim(wh.toFixed(1)) : Math.round(wh)}${thin}Wh`;
  return `${(value / 3_600_000).toFixed(2)}${thin}kWh`;
}

export function count(value: number | undefined): string {
  if (value === undefined) return dash;
  const [whole = '', rest] = String(Math.round(value * 1000) / 1000).split('.');
  return whole.replace(/\B(?=(\d{3})+$)/g, ',') + (rest === undefined ? '' : `.${rest}`);
}

// duration writes a length of time with its two largest units.
export function duration(seconds: number | undefined): string {
  if (seconds === undefined || Number.isNaN(seconds)) return dash;
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}${thin}s`;
  if (s < 3600) return two(s, 60, 'min', 1, 's', s < 600);
  if (s < 86_400) return two(s, 3600, 'h', 60, 'min', true);
  return two(s, 86_400, 'd', 3600, 'h', s < 86_400 * 10);
}

function two(s: number, large: number, a: string, small: number, b: string, both: boolean): string {
  const n = Math.floor(s / large);
  const m = Math.floor((s - n * large) / small);
  return both && m > 0 ? `${n}${thin}${a} ${m}${thin}${b}` : `${n}${thin}${a}`;
}

// ago writes how long before now a time was, or how long after it it will be.
export function ago(time: string | undefined, now: number): string {
  if (time === undefined) return dash;
  const s = (now - Date.parse(time)) / 1000;
  if (Number.isNaN(s)) return dash;
  if (s < -1.5) return `in ${about(-s)}`;
  return s < 5 ? 'now' : `${about(s)} ago`;
}

// about writes a length of time with one unit, rounded.
function about(s: number): string {
  if (s < 59.5) return `${Math.round(s)}${thin}s`;
  if (s < 3570) return `${Math.round(s / 60)}${thin}min`;
  if (s < 171_000) return `${tenths(s / 3600)}${thin}h`;
  return `${tenths(s / 86_400)}${thin}d`;
}

function tenths(n: number): string {
  return n < 9.95 ? trim(n.toFixed(1)) : String(Math.round(n));
}

// Times are written by hand: the formats of the browser take milliseconds to make, before
// the first view.
const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sept', 'Oct', 'Nov', 'Dec'];
const digits = (n: number): string => String(n).padStart(2, '0');

// clock writes the time of day; with the day if it was long ago.
export function clock(time: string | number, now = Date.now()): string {
  const at = typeof time === 'number' ? time : Date.parse(time);
  if (Number.isNaN(at)) return dash;
  const d = new Date(at);
  const minutes = `${digits(d.getHours())}:${digits(d.getMinutes())}`;
  return Math.abs(now - at) < 20 * 3600_000 ? `${minutes}:${digits(d.getSeconds())}` : `${d.getDate()} ${months[d.getMonth()]}, ${minutes}`;
}

// moment writes a time in full: 17/11/2026, 21:04:31.
export function moment(time: string | number | undefined): string {
  if (time === undefined) return '';
  const d = new Date(time);
  if (Number.isNaN(d.getTime())) return dash;
  return `${digits(d.getDate())}/${digits(d.getMonth() + 1)}/${d.getFullYear()}, ${digits(d.getHours())}:${digits(d.getMinutes())}:${digits(d.getSeconds())}`;
}

// plural writes a number with its noun.
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

// shortName leaves out of the name of a device what all of a vendor have in common.
export function shortName(name: string): string {
  return name.replace(/^NVIDIA (GeForce )?|^AMD (Radeon )?|^Intel (Arc )?/, '').replace(/ \(simulated\)$/, '');
}
