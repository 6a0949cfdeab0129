// Measures the page against the goals of docs/design/web.md in Debian's chromium; called by scripts/page_budget, which
// installs what it needs. Prints a table in Markdown and ends with 1 when a goal is missed.
//   --url URL --token dg_…   a daemon that runs, such as that of scripts/demo --keep, instead of the tests' mock: sizes,
//                            first content and Lighthouse alone
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import { cpus, tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { makeManySlices } from '../../tests/web/mock/extreme.mjs';
import { Mock } from '../../tests/web/mock/server.mjs';
import { clicks, first, forest, live, proof, ramp, signInProfile } from './measure.mjs';

const modules = createRequire(path.join(process.env.DRIFTGATE_BUDGET_MODULES, 'package.json'));
const { chromium } = modules('playwright-core');
const { default: lighthouse } = await import(pathToFileURL(modules.resolve('lighthouse')));

const option = (name) => { const at = process.argv.indexOf(`--${name}`); return at < 0 ? undefined : process.argv[at + 1]; };
const ARGS = ['--no-sandbox', '--headless', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--remote-debugging-port=0'];

/** A browser with an empty profile that both playwright and Lighthouse talk to. */
async function startBrowser() {
  const profile = mkdtempSync(path.join(tmpdir(), 'driftgate-budget-'));
  const child = spawn(process.env.DRIFTGATE_CHROMIUM, [...ARGS, `--user-data-dir=${profile}`, 'about:blank'], { stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  const port = await new Promise((done, failed) => {
    let said = '';
    const timer = setTimeout(() => failed(new Error(`chromium did not start: ${said}`)), 60_000);
    child.on('exit', (code) => failed(new Error(`chromium ended with ${code}: ${said}`)));
    child.stderr.on('data', (data) => {
      said += data;
      const found = /DevTools listening on ws:\/\/[^:]+:(\d+)\//.exec(said);
      if (found) { clearTimeout(timer); done(Number(found[1])); }
    });
  });
  const browser = await chromium.connectOverCDP(`http://127.0.0.1:${port}`);
  const stop = async () => {
    await browser.close().catch(() => {});
    if (child.exitCode === null && child.signalCode === null) {
      await new Promise((done) => { child.once('exit', done); try { process.kill(-child.pid, 'SIGKILL'); } catch { done(); } });
    }
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  };
  return { browser, port, stop };
}

/** Bytes of one answer as they travel with gzip. */
function gzipBytes(url) {
  return new Promise((done, failed) => http.get(url, { headers: { 'accept-encoding': 'gzip' } }, (response) => {
    let bytes = 0;
    response.on('data', (part) => { bytes += part.length; });
    response.on('end', () => done(bytes));
  }).on('error', failed));
}

async function audit(port, url) {
  const result = await lighthouse(url, { port, output: 'json', logLevel: 'error', disableStorageReset: true,
    onlyCategories: ['performance', 'accessibility', 'best-practices', 'seo'], throttlingMethod: 'simulate',
    throttling: { cpuSlowdownMultiplier: 4, rttMs: 40, throughputKbps: 10_240, requestLatencyMs: 0, downloadThroughputKbps: 0, uploadThroughputKbps: 0 },
    formFactor: 'desktop', screenEmulation: { mobile: false, width: 1350, height: 940, deviceScaleFactor: 1, disabled: false } });
  const { categories, audits } = result.lhr;
  const lost = Object.values(categories).flatMap((category) => category.auditRefs.filter((ref) => ref.weight > 0 && audits[ref.id].score !== null
    && audits[ref.id].score < 0.9).map((ref) => `${category.id}: ${audits[ref.id].title} ${audits[ref.id].displayValue ?? ''} ${JSON.stringify(audits[ref.id].details?.items?.slice(0, 3) ?? '').slice(0, 300)}`));
  return { scores: Object.fromEntries(Object.entries(categories).map(([name, category]) => [name, Math.round(category.score * 100)])), lost };
}

const rows = [];
let missed = 0;
/** A line of the table; goal: [comparison, number] or null. */
function row(what, value, unit, goal) {
  const reached = !goal || (goal[0] === '≤' ? value <= goal[1] : value >= goal[1]);
  if (!reached) missed += 1;
  rows.push([what, goal ? `${goal[0]} ${goal[1]}${unit && ` ${unit}`}` : '', `${value}${unit && ` ${unit}`}`, goal ? (reached ? 'reached' : '**missed**') : '']);
}

const round = (x, digits = 1) => Number(x.toFixed(digits));

async function lighthouseRows(port, where, url) {
  const { scores, lost } = await audit(port, url);
  for (const [category, score] of Object.entries(scores)) row(`Lighthouse, ${where}: ${category}`, score, '', ['≥', 95]);
  for (const line of lost) process.stderr.write(`${where}: ${line}\n`);
}

async function measure({ browser, port }, base, token, mock) {
  const start = await first(browser, base, token);
  const sizes = await Promise.all(start.urls.map(gzipBytes));
  row('transferred until first use (gzip)', round(sizes.reduce((sum, one) => sum + one, 0) / 1000), 'kB', ['≤', 60]);
  row('first content, median of 9 loads', round(start.firstContent), 'ms', ['≤', 300]);
  row('data shown, median of 9 loads', round(start.dataShown), 'ms', null);
  if (mock) {
    const slices = mock.world.promotions[1].id;
    makeManySlices(mock.world, `${slices}/statistical-slice`, 200);
    const plot = await forest(browser, base, token, slices);
    row('forest plot of 200 slices, from its data until a frame shows the first screen of it, median of 9', round(plot.drawn), 'ms', ['≤', 50]);
    row('the same until all 200 rows are laid out', round(plot.laidOut), 'ms', null);
    row('live update of the overview, mean of 100', round(await live(browser, base, token, mock), 2), 'ms', ['≤', 8]);
    row('live update of a promotion, mean of 100', round(await ramp(browser, base, token, mock), 2), 'ms', ['≤', 8]);
    row('an inclusion proof checked, median of 9', round(await proof(browser, base, token, mock)), 'ms', ['≤', 50]);
    const counted = await clicks(browser, base, token, mock);
    row('clicks from a link to an approval given', counted.approve, '', ['≤', 2]);
    row('clicks from a promotion to its worst slice', counted.slice, '', ['≤', 1]);
    row('clicks from an entry to its check', counted.check, '', ['≤', 1]);
  }
  await signInProfile(browser, base, token);
  await lighthouseRows(port, 'overview', `${base}/`);
  const id = mock ? mock.world.promotions[0].id : start.promotion;
  if (id) await lighthouseRows(port, 'promotion', `${base}/p/${id}`);
}

const mock = option('url') ? undefined : await new Mock({ dist: process.env.DRIFTGATE_WEB_DIST, fixtures: process.env.DRIFTGATE_WEB_FIXTURES }).start();
const started = await startBrowser();
try {
  await measure(started, mock?.url ?? option('url'), option('token') ?? 'dg_chief', mock);
} finally {
  await started.stop();
  await mock?.stop();
}
const processor = /model name\s*: (.*)/.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? process.arch;
process.stdout.write(`| what | goal | measured | |\n| --- | --- | --- | --- |\n${rows.map((cells) => `| ${cells.join(' | ')} |`).join('\n')}\n\n`
  + `${cpus().length} processors (${processor}), node ${process.version}, ${mock ? 'mocked API' : 'a running daemon'}; Lighthouse 12 at 4× CPU throttle.\n`);
process.exit(missed ? 1 : 0);
