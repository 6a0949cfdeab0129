// Runs every *.test.ts and *.test.tsx below this folder with node's own test runner, bundled by esbuild first.
// `npm test -- NAME` runs those whose path contains NAME.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const wanted = process.argv[2] ?? '';

function testsBelow(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return testsBelow(path);
    return /\.test\.tsx?$/.test(entry.name) ? [path] : [];
  });
}

const tests = testsBelow(here).filter((path) => relative(here, path).includes(wanted));
if (!tests.length) {
  console.error(`no test has '${wanted}' in its path`);
  process.exit(1);
}
const out = mkdtempSync(join(tmpdir(), 'driftgate-web-test-'));
try {
  await build({
    entryPoints: tests,
    outdir: out,
    outbase: here,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    format: 'esm',
    platform: 'node',
    conditions: ['browser'],
    mainFields: ['module', 'main'],
    target: 'node18',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    define: { __TEST_DIR__: JSON.stringify(here) },
    sourcemap: 'inline',
    logLevel: 'warning',
  });
  const bundled = tests.map((path) => join(out, relative(here, path).replace(/\.tsx?$/, '.mjs')));
  const result = spawnSync(process.execPath, ['--enable-source-maps', '--test', ...bundled], { stdio: 'inherit' });
  process.exitCode = result.status ?? 1;
} finally {
  rmSync(out, { recursive: true, force: true });
}
