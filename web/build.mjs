// Builds the page: node build.mjs [--outdir DIR] [--sizes]
//
// DIR (default: dist) gets index.html, assets/NAME-HASH.{js,css,svg}, of each a .gz and a .br, and manifest.json, which
// names every file that the daemon embeds. The same sources give the same bytes. --sizes prints what the first use of
// the page transfers.
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, extname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

function option(name) {
  const at = process.argv.indexOf(name);
  return at < 0 ? undefined : process.argv[at + 1];
}

/** All style sheets below src: the tokens first, then what is shared, then the views, each by name. */
function styleSheets() {
  const found = readdirSync(join(here, 'src'), { recursive: false, withFileTypes: true });
  const walk = (folder) =>
    readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return walk(path);
      return extname(entry.name) === '.css' ? [path] : [];
    });
  const rank = (path) => (path.endsWith('ui/tokens.css') ? 0 : path.includes('/src/ui/') ? 1 : path.includes('/src/app/') ? 2 : 3);
  return found
    .filter((entry) => entry.isDirectory())
    .flatMap((entry) => walk(join(here, 'src', entry.name)))
    .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

async function bundleStyles(out) {
  const contents = styleSheets().map((path) => `@import ${JSON.stringify('./' + relative(here, path))};`).join('\n');
  const result = await build({
    stdin: { contents, resolveDir: here, loader: 'css', sourcefile: 'styles.css' },
    bundle: true,
    minify: true,
    write: false,
    target: ['chrome109', 'firefox115', 'safari16.4'],
    logLevel: 'warning',
  });
  const bytes = result.outputFiles[0].contents;
  const name = `assets/app-${hashOf(bytes).slice(0, 8).toUpperCase()}.css`;
  writeFileSync(join(out, name), bytes);
  return name;
}

async function bundleScripts(out) {
  const result = await build({
    entryPoints: { app: join(here, 'src/main.tsx') },
    absWorkingDir: here,
    outdir: out,
    entryNames: 'assets/[name]-[hash]',
    chunkNames: 'assets/[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    minify: true,
    metafile: true,
    target: ['chrome109', 'firefox115', 'safari16.4'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    define: { 'process.env.NODE_ENV': '"production"' },
    legalComments: 'none',
    logLevel: 'warning',
  });
  const outputs = Object.entries(result.metafile.outputs).map(([path, output]) => [relative(out, resolve(here, path)), output]);
  const [entry, made] = outputs.find(([, output]) => output.entryPoint?.endsWith('src/main.tsx'));
  const byName = new Map(outputs);
  const needed = (name, seen = new Set()) => {
    if (seen.has(name)) return seen;
    seen.add(name);
    for (const one of byName.get(name)?.imports ?? []) {
      if (one.kind === 'import-statement' && !one.external) needed(relative(out, resolve(here, one.path)), seen);
    }
    return seen;
  };
  const first = [...needed(entry)].filter((name) => name !== entry);
  const views = Object.fromEntries(
    outputs.filter(([, output]) => output.entryPoint?.includes('/views/'))
      .map(([name, output]) => [output.entryPoint.replace(/^.*\/views\//, '').replace(/\.tsx?$/, ''), [...needed(name)]]));
  return { entry, first, views, bytes: made.bytes };
}

function hashOf(bytes) {
  return createHash('sha256').update(bytes).digest('hex');
}

function gzip(bytes) {
  return gzipSync(bytes, { level: 9, memLevel: 9 });
}

function brotli(bytes) {
  return brotliCompressSync(bytes, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 22, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
  });
}

function copyIcon(out) {
  const bytes = readFileSync(join(here, 'src/icon.svg'));
  const name = `assets/icon-${hashOf(bytes).slice(0, 8).toUpperCase()}.svg`;
  writeFileSync(join(out, name), bytes);
  return name;
}

function writeIndex(out, names) {
  const preloads = names.first.map((name) => `<link rel="modulepreload" href="/${name}">`).join('\n    ');
  const html = readFileSync(join(here, 'src/index.html'), 'utf8')
    .replace('%STYLE%', `/${names.style}`)
    .replace('%ICON%', `/${names.icon}`)
    .replace('%SCRIPT%', `/${names.entry}`)
    .replace(/[ \t]*%PRELOADS%\n/, preloads ? `    ${preloads}\n` : '');
  writeFileSync(join(out, 'index.html'), html);
}

/** Writes the compressed variants and manifest.json for index.html and all assets. */
function writeManifest(out) {
  const names = ['index.html', ...readdirSync(join(out, 'assets')).sort().map((name) => `assets/${name}`)];
  const files = names.map((name) => {
    const bytes = readFileSync(join(out, name));
    writeFileSync(join(out, `${name}.gz`), gzip(bytes));
    writeFileSync(join(out, `${name}.br`), brotli(bytes));
    return { path: `/${name}`, file: name, type: TYPES[extname(name)], sha256: hashOf(bytes) };
  });
  writeFileSync(join(out, 'manifest.json'), `${JSON.stringify({ files }, null, 1)}\n`);
}

function printSizes(out, names) {
  const size = (name) => readFileSync(join(out, `${name}.gz`)).length;
  const start = ['index.html', names.style, names.entry, ...names.first];
  const total = (list) => list.reduce((sum, name) => sum + size(name), 0);
  const rows = { start: total(start) };
  for (const [view, needed] of Object.entries(names.views)) {
    rows[view] = total(needed.filter((name) => !start.includes(name)));
  }
  rows['first use (start and overview)'] = rows.start + (rows['overview/view'] ?? 0);
  for (const [name, bytes] of Object.entries(rows)) console.log(`${(bytes / 1000).toFixed(1).padStart(8)} kB gzip  ${name}`);
}

const out = resolve(option('--outdir') ?? join(here, 'dist'));
rmSync(join(out, 'assets'), { recursive: true, force: true });
mkdirSync(join(out, 'assets'), { recursive: true });
const scripts = await bundleScripts(out);
const names = { ...scripts, style: await bundleStyles(out), icon: copyIcon(out) };
writeIndex(out, names);
writeManifest(out);
if (process.argv.includes('--sizes')) printSizes(out, names);
