// Asks for what every view needs while the browser still loads the page; src/api/early.ts
// takes the answers. A link that signs somebody in has to be used before.
if (!location.hash.startsWith('#login=') && window.early === undefined) {
  const ask = (path) => [path, fetch(path, { credentials: 'same-origin', cache: 'no-store', redirect: 'error', headers: { Accept: 'application/json' }, signal: AbortSignal.timeout(8000) }).catch(() => undefined)];
  window.early = {
    at: Date.now(),
    answers: new Map(['/api/gpu/status/all', '/api/leases', '/api/gpu/memory/available', '/api/whoami', '/api/gpu/config'].map(ask)),
  };
}
