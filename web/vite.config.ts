import { defineConfig } from 'vitest/config';

// The daemon embeds what is written to outDir. Nothing is inlined: its content
// security policy allows neither inline scripts nor data: URLs for them.
export default defineConfig({
  base: './',
  build: {
    outDir: '../internal/door/webui/page',
    emptyOutDir: false, // absent.html stays; clean.mjs removes what a build before this one wrote
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    reportCompressedSize: false,
    // One file for all of the first view: each more that the browser asks for delays it.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'page', test: /\/src\/main\.tsx$/ }] } } },
  },
  server: {
    // The page on its own server, the API of a daemon: BERTH=http://127.0.0.1:8000 npm run dev
    proxy: { '/api': process.env.BERTH ?? 'http://127.0.0.1:8000' },
  },
  // That long no test takes, however busy the machine is.
  test: { include: ['test/unit/**/*.test.ts'], environment: 'node', testTimeout: 300_000, hookTimeout: 300_000 },
});
