// Debian's chromium under the rules of every test: an error in the console, an exception, a violation of the
// Content-Security-Policy or a request to another origin fails the test that caused it.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, before, test } from 'node:test';

const load = createRequire(path.join(process.env.DRIFTGATE_WEB_MODULES, 'package.json'));
const { chromium } = load('playwright-core');
const axeSource = load('axe-core').source;

export const PATIENCE_MS = Number(process.env.DRIFTGATE_TEST_PATIENCE_S ?? 60) * 1000;
export const PHONE = { width: 360, height: 740 };
export const DESK = { width: 1280, height: 900 };
const ARGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--host-resolver-rules=MAP driftgate.test 127.0.0.1'];

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: process.env.DRIFTGATE_CHROMIUM ?? '/usr/bin/chromium', headless: true, args: ARGS });
});
after(async () => browser?.close());

/** Faults of a page that no test may leave unexplained. */
class Faults {
  constructor() { this.found = []; this.allowed = []; }
  note(text) { this.found.push(text); }
  /** Faults that match are expected from now on. */
  allow(pattern) { this.allowed.push(pattern); }
  check() {
    const left = this.found.filter((text) => !this.allowed.some((pattern) => pattern.test(text)));
    assert.deepEqual(left, [], 'the page showed faults');
  }
}

const NETWORK = /^Failed to load resource: /; // what chromium says of an answer with an error status, or of none

function watch(page, faults, origins) {
  page.setDefaultTimeout(PATIENCE_MS);
  page.on('console', (message) => {
    if (message.type() !== 'error') return;
    const { url } = message.location();
    if (NETWORK.test(message.text()) && /\/(v1\/|readyz|healthz)/.test(url)) return; // the page shows these itself
    faults.note(`console: ${message.text()} (${url})`);
  });
  page.on('pageerror', (error) => faults.note(`exception: ${error.stack ?? error}`));
  page.on('dialog', (dialog) => { faults.note(`dialog: ${dialog.message()}`); dialog.dismiss().catch(() => {}); });
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (/^https?:$/.test(url.protocol) && !origins.some((origin) => url.origin === origin())) faults.note(`a request to ${url.href}`);
  });
}

const LISTEN = `addEventListener('securitypolicyviolation', (event) =>
  driftgateViolation(event.violatedDirective + ' ' + event.blockedURI + ' ' + event.sourceFile + ':' + event.lineNumber));`;

/** A context with an empty profile; origin() says where requests may go (it may change with a restart). */
export async function newContext(origin, options = {}) {
  const context = await browser.newContext({ viewport: DESK, reducedMotion: 'reduce', locale: 'en-GB', timezoneId: 'UTC', ...options });
  const faults = new Faults();
  await context.exposeBinding('driftgateViolation', (source, text) => faults.note(`CSP: ${text}`));
  await context.addInitScript(LISTEN);
  context.on('page', (page) => watch(page, faults, [origin]));
  return { context, faults };
}

/** A test with a context of its own: body({context, page, faults, …setup()}). */
export function browserTest(name, setup, body, { patience = PATIENCE_MS * 4, ...options } = {}) {
  test(name, { timeout: patience }, async () => {
    const made = await setup();
    const { context, faults } = await newContext(() => made.url(), options);
    const page = await context.newPage();
    try {
      await body({ ...made, context, page, faults });
      faults.check();
    } catch (error) {
      await shot(page, `failed ${name}`).catch(() => {});
      error.message += `\nfaults: ${JSON.stringify(faults.found, null, 1)}\nat ${page.url()}\n${await page.locator('body').innerText({ timeout: 1000 }).catch(() => '')}`.slice(0, 6000);
      throw error;
    } finally {
      await context.close();
      await made.close?.();
    }
  });
}

/** The rules of axe-core about colours, which take as long as all others together. */
export const COLOURS = ['color-contrast', 'link-in-text-block'];

/** What axe-core finds, one line for each rule and element; [] when nothing. `only`: by these rules; `without`: by all others. */
export async function axe(page, { only, without = [] } = {}) {
  if (!(await page.evaluate('typeof window.axe'))?.startsWith('object')) await page.evaluate(`${axeSource};0`);
  const options = { resultTypes: ['violations'], rules: Object.fromEntries(without.map((rule) => [rule, { enabled: false }])),
    ...(only ? { runOnly: { type: 'rule', values: only } } : {}) };
  const result = await page.evaluate((given) => window.axe.run(document, given), options);
  return result.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${rule.help}: ${node.html.slice(0, 200)} ${node.failureSummary?.split('\n')[1] ?? ''}`));
}

export async function checkAxe(page, what, rules = {}) {
  assert.deepEqual(await axe(page, rules), [], `axe-core finds faults in ${what}`);
}

/** No part of the page is wider than the window; what scrolls within its own box does not count. */
export async function checkFits(page, what) {
  const [scroll, inner, widest] = await page.evaluate(() => {
    const limit = document.documentElement.clientWidth;
    const wide = [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > limit + 1)
      .map((one) => `${one.tagName}.${one.className}`).slice(0, 8);
    return [document.documentElement.scrollWidth, limit, wide];
  });
  assert.ok(scroll <= inner, `${what} is ${scroll} px wide in a window of ${inner} px: ${widest.join(', ')}`);
}

/** A screenshot for people to look at, when DRIFTGATE_WEB_SHOTS names a folder. */
export async function shot(page, name, options = {}) {
  const folder = process.env.DRIFTGATE_WEB_SHOTS;
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: path.join(folder, `${name.replace(/[^\w]+/g, '_').slice(0, 90)}.png`), fullPage: true, ...options });
}

/** Presses Tab until the focus is on an element with this role and name; fails after `most` presses. */
export async function tabTo(page, role, name, most = 200) {
  const target = page.getByRole(role, { name });
  for (let i = 0; i < most; i += 1) {
    await page.keyboard.press('Tab');
    const count = await target.count();
    for (let j = 0; j < count; j += 1) if (await target.nth(j).evaluate((one) => one === document.activeElement)) return target.nth(j);
  }
  throw new Error(`no ${role} named ${name} can be reached by Tab`);
}

export { assert };
export * from './page.mjs';
