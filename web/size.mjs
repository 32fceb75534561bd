// Prints how many bytes the first load of the page takes, and fails above the limit.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

export const limit = 150_000;

// firstLoad returns the files of the page with their sizes, as sent compressed.
// Everything counts, although some pages are loaded only when they are opened.
export function firstLoad(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name !== 'absent.html' && !name.startsWith('.') && statSync(join(folder, name)).isFile())
    .map((name) => ({ name, bytes: gzipSync(readFileSync(join(folder, name)), { level: 9 }).length }));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const files = firstLoad(fileURLToPath(new URL('../internal/door/webui/page', import.meta.url)));
  const total = files.reduce((sum, file) => sum + file.bytes, 0);
  for (const file of files) console.log(`${String(file.bytes).padStart(8)}  ${file.name}`);
  console.log(`${String(total).padStart(8)}  bytes compressed; the limit is ${limit}`);
  if (total > limit) process.exit(1);
}
