// The measurements of scripts/page_budget that look into a page.
import { checks, closed, found, give, openAs, pin, shown } from '../../tests/web/lib/page.mjs';

const VIEW = { viewport: { width: 1350, height: 940 }, reducedMotion: 'reduce' };
const PATIENCE_MS = 60_000;

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** A page that is signed in by a link, in a context of its own. */
async function signedIn(browser, base, token, where = '/') {
  const context = await browser.newContext(VIEW);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await openAs(page, base, token, where);
  return { page, context };
}

/** Signs the browser's own profile in, where Lighthouse looks. */
export async function signInProfile(browser, base, token) {
  const page = await browser.contexts()[0].newPage();
  await openAs(page, base, token);
  await page.close();
}

/** First content and data of nine cold loads by somebody who is signed in, and what one of them transferred. */
export async function first(browser, base, token) {
  const { context, page } = await signedIn(browser, base, token);
  const storageState = await context.storageState();
  const link = await page.locator('main a[href^="/p/"]').first().getAttribute('href', { timeout: 2000 }).catch(() => null);
  await context.close();
  const firstContents = [], data = [];
  let urls = [];
  for (let i = 0; i < 9; i += 1) {
    const cold = await browser.newContext({ ...VIEW, storageState });
    const one = await cold.newPage();
    await one.goto(`${base}/`);
    await shown(one);
    const seen = await one.evaluate(() => ({ now: performance.now(), paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
      urls: performance.getEntriesByType('resource').map((entry) => entry.name) }));
    data.push(seen.now);
    firstContents.push(seen.paint);
    urls = [`${base}/`, ...new Set(seen.urls.filter((url) => new URL(url).pathname.startsWith('/assets/')))];
    await cold.close();
  }
  return { firstContent: median(firstContents), dataShown: median(data), urls, promotion: link?.split('/')[2] };
}

/** From the last byte of the report, or from the click where the page has it already: until a frame shows a screen full of
 * rows, and until all of them are laid out; reached from the promotion. */
export async function forest(browser, base, token, id) {
  const { page, context } = await signedIn(browser, base, token, `/p/${id}/slices`);
  const laidOut = [], drawn = [];
  const SCREEN = 30;
  for (let i = 0; i < 9; i += 1) {
    await page.getByRole('link', { name: 'Back to the promotion' }).click();
    await page.getByRole('link', { name: 'Slices', exact: true }).waitFor();
    await shown(page);
    const [layout, frame] = await page.evaluate((screen) => new Promise((done) => {
      performance.clearResourceTimings();
      let began = 0;
      const since = () => performance.now() - Math.max(began, ...performance.getEntriesByType('resource')
        .filter((one) => /\/report$/.test(new URL(one.name).pathname)).map((one) => one.responseEnd));
      let frame = 0;
      let layout = 0;
      const end = () => { if (frame > 0 && layout) done([layout, frame]); };
      const observer = new MutationObserver(() => {
        const rows = document.querySelectorAll('main tbody tr svg').length;
        if (rows >= screen && !frame) {
          frame = -1;
          requestAnimationFrame(() => setTimeout(() => { frame = since(); end(); }));
        }
        if (rows < 200) return;
        observer.disconnect();
        document.body.getBoundingClientRect(); // style and layout happen here
        layout = since();
        if (frame > 0) end();
      });
      observer.observe(document, { childList: true, subtree: true });
      began = performance.now();
      [...document.querySelectorAll('main a')].find((one) => one.textContent === 'Slices').click();
    }), SCREEN);
    laidOut.push(layout);
    drawn.push(frame);
  }
  await context.close();
  return { laidOut: median(laidOut), drawn: median(drawn) };
}

/** Milliseconds of the page's main thread (scripts, style, layout) for each of 100 events, sent one by one. */
async function perUpdate(page, send, seen) {
  const client = await page.context().newCDPSession(page);
  await client.send('Performance.enable');
  const busy = async () => {
    const { metrics } = await client.send('Performance.getMetrics');
    const of = (name) => metrics.find((one) => one.name === name).value;
    return (of('ScriptDuration') + of('LayoutDuration') + of('RecalcStyleDuration')) * 1000;
  };
  await send(0);
  await seen(0);
  const before = await busy();
  for (let i = 1; i <= 100; i += 1) {
    const drawn = seen(i);
    await send(i);
    await drawn;
  }
  return (await busy() - before) / 100;
}

const containsText = (page, text) => page.waitForFunction((wanted) => document.querySelector('main').innerText.includes(wanted), text, { polling: 'raf' });

async function updates(browser, base, token, mock, where) {
  const { page, context } = await signedIn(browser, base, token, where);
  const view = mock.world.waiting();
  const before = { ...view };
  const value = await perUpdate(page, (i) => { view.why = view.reason = `Update number ${i}.`; mock.progress(view); }, (i) => containsText(page, `Update number ${i}.`));
  Object.assign(view, before);
  await context.close();
  return value;
}

export const live = (browser, base, token, mock) => updates(browser, base, token, mock, '/');
export const ramp = (browser, base, token, mock) => updates(browser, base, token, mock, `/p/${mock.world.waiting().id}`);

/** From the last answer that the check needs until its result stands there. */
export async function proof(browser, base, token, mock) {
  const times = [];
  const { page, context } = await signedIn(browser, base, token, '/evidence');
  await pin(page, mock.world.log.verifierKey);
  for (let i = 0; i < 9; i += 1) {
    await page.goto(`${base}/evidence?kind=verdict_reached`);
    await shown(page);
    await page.evaluate(() => performance.clearResourceTimings());
    await checks(page).nth(i).click();
    times.push(await page.evaluate(() => new Promise((done) => {
      const look = () => {
        if (!/Verified/.test(document.querySelector('.check-sentence')?.textContent ?? '')) return false;
        const now = performance.now();
        const last = Math.max(...performance.getEntriesByType('resource').filter((entry) => /\/v1\/(log|evidence)/.test(entry.name)).map((entry) => entry.responseEnd));
        done(now - last);
        return true;
      };
      if (look()) return;
      const observer = new MutationObserver(() => { if (look()) observer.disconnect(); });
      observer.observe(document, { childList: true, subtree: true, characterData: true, attributes: true });
    })));
  }
  await context.close();
  return median(times);
}

/** Clicks that three tasks take. */
export async function clicks(browser, base, token, mock) {
  const counted = {};
  const { page, context } = await signedIn(browser, base, token, '/evidence');
  await pin(page, mock.world.log.verifierKey);
  // The browser counts what it was clicked, from the page that a link leads to until what was wanted stands there.
  const count = async (where, act) => {
    await page.goto(base + where);
    await page.evaluate(() => { window.clicked = 0; addEventListener('click', (event) => { if (event.isTrusted) window.clicked += 1; }, true); });
    await act();
    return page.evaluate(() => window.clicked);
  };
  counted.slice = await count(`/p/${mock.world.promotions[1].id}`, async () => {
    await page.getByRole('link', { name: /worst slice/i }).first().click();
    await page.waitForURL(/[?&]slice=/);
    await page.locator('main [aria-expanded="true"]').first().waitFor();
  });
  counted.check = await count('/evidence?kind=verdict_reached', async () => {
    await checks(page).first().click();
    await page.locator('.check-sentence', { hasText: 'Verified' }).waitFor();
  });
  counted.approve = await count(`/p/${mock.world.waiting().id}`, async () => {
    await give(page, 'Approve', 'figures read');
    await closed(page);
  });
  await context.close();
  return counted;
}
