// Removes the page that a build before this one wrote, and leaves absent.html.
import { readdirSync, rmSync } from 'node:fs';

const page = new URL('../internal/door/webui/page/', import.meta.url);
let names = [];
try {
  names = readdirSync(page);
} catch {
  // There is no page yet.
}
for (const name of names) {
  if (name !== 'absent.html' && name !== '.gitignore') {
    rmSync(new URL(name, page), { recursive: true });
  }
}
