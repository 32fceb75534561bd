// A front for a daemon: it serves the page as it was built last and hands everything
// else on, so that a change of the page can be tried without building the daemon.
// The tests use it where BERTH_FRONT is set.
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const folder = fileURLToPath(new URL('../../../internal/door/webui/page', import.meta.url));
const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; frame-src 'self'; "
  + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export async function front(port, at = 0) {
  const server = http.createServer(async (asked, answer) => {
    const { pathname } = new URL(asked.url, 'http://berth');
    if (pathname.startsWith('/api')) {
      const handed = http.request({ host: '127.0.0.1', port, path: asked.url, method: asked.method, headers: { ...asked.headers, host: `127.0.0.1:${port}` } }, (from) => {
        answer.writeHead(from.statusCode, from.headers);
        from.pipe(answer).on('error', () => {});
        from.on('error', () => answer.destroy());
      });
      handed.on('error', () => answer.destroy());
      asked.pipe(handed);
      answer.on('close', () => handed.destroy());
      return;
    }
    try {
      const name = normalize(pathname === '/' ? '/index.html' : pathname);
      const body = await readFile(join(folder, name));
      answer.writeHead(200, { 'Content-Type': types[extname(name)] ?? 'application/octet-stream', 'Content-Security-Policy': policy, 'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'no-referrer', 'Content-Encoding': 'gzip' });
      answer.end(gzipSync(body));
    } catch {
      answer.writeHead(404).end();
    }
  });
  server.listen(at, '127.0.0.1');
  await once(server, 'listening');
  return server;
}
