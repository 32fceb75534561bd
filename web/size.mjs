// Prints how many bytes the page takes, and fails above the limits: of what the first
// view needs, and of all of it. Most pages are loaded when somebody goes there.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

export const limit = 100_000; // of the first view
const most = 250_000; // of everything

const bytes = (file) => gzipSync(readFileSync(file), { level: 9 }).length;

// everything returns the files of the page with their sizes, as sent compressed.
function everything(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name !== 'absent.html' && !name.startsWith('.') && statSync(join(folder, name)).isFile())
    .map((name) => ({ name, bytes: bytes(join(folder, name)) }));
}

// firstLoad returns those that the first view needs: the page itself, and what it
// names.
export function firstLoad(folder) {
  const text = readFileSync(join(folder, 'index.html'), 'utf8');
  const named = [...text.matchAll(/(?:src|href)="\.\/([^"]+)"/g)].map((m) => relative('', m[1]));
  return everything(folder).filter((file) => file.name === 'index.html' || named.includes(file.name));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = fileURLToPath(new URL('../internal/door/webui/page', import.meta.url));
  const sum = (files) => files.reduce((all, file) => all + file.bytes, 0);
  const first = firstLoad(folder);
  const all = everything(folder);
  for (const file of all) console.log(`${String(file.bytes).padStart(8)}  ${first.some((f) => f.name === file.name) ? '*' : ' '} ${file.name}`);
  console.log(`${String(sum(first)).padStart(8)}  bytes compressed for the first view (*); the limit is ${limit}`);
  console.log(`${String(sum(all)).padStart(8)}  bytes compressed in all; the limit is ${most}`);
  if (sum(first) > limit || sum(all) > most) process.exit(1);
}
