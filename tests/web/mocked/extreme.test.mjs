// Names that try to run, reorder or widen the page; 10,000 promotions; a table of 500 slices.
import { assert, checkAxe, checkFits, COLOURS, openAs, PHONE, shot, shown } from '../lib/browser.mjs';
import { makeHostile, makeMany, makeManySlices } from '../mock/extreme.mjs';
import { mockTest, views } from '../lib/mocked.mjs';

async function nothingRan(page, name) {
  const found = await page.evaluate(() => [window.pwned, document.querySelectorAll('main script, main [onload], main [onerror], main img[src="x"], main a[href^="javascript:"]').length]);
  assert.deepEqual(found, [undefined, 0], `a name ran in ${name}`);
  const text = await page.locator('body').innerText();
  assert.doesNotMatch(text, /[\u202a-\u202e\u2066-\u2069]/, `a mark that reorders text is in ${name}`);
}

for (const [device, viewport] of [['desk', undefined], ['phone', PHONE]]) {
  mockTest(`hostile names in every view at a ${device}`, async ({ page, url, world }) => {
    world.token('everybody', ['approver', 'admin']);
    await openAs(page, url, 'dg_everybody');
    for (const [name, path] of Object.entries(views(world))) {
      await page.goto(url + path);
      await shown(page);
      await nothingRan(page, name);
      await checkFits(page, `${name} with hostile names`);
      if (!viewport) await checkAxe(page, `${name} with hostile names`, { without: COLOURS });
      await shot(page, `hostile ${device} ${name}`);
    }
  }, { change: makeHostile, ...(viewport ? { viewport } : {}) });
}

mockTest('somebody whose own name is hostile', async ({ page, url }) => {
  await openAs(page, url, 'dg_hostile');
  await nothingRan(page, 'the bar');
  await checkFits(page, 'the bar');
}, { viewport: PHONE, change: (world) => { world.token('hostile', ['viewer']).name; world.tokens.at(-1).name = '<img src=x onerror=window.pwned=1>\u202e'.repeat(7); } });

mockTest('hostile names in dialogs and the search', async ({ page, url, world }) => {
  world.token('everybody', ['approver', 'admin']);
  await openAs(page, url, 'dg_everybody', `/p/${world.waiting().id}`);
  await page.getByRole('main').getByRole('button', { name: 'Approve', exact: true }).first().click();
  await nothingRan(page, 'the dialog');
  await checkFits(page, 'the dialog');
  await page.keyboard.press('Escape');
  await page.keyboard.press('/');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.type('<script>');
  await page.getByRole('dialog').getByText('<script>').first().waitFor();
  await nothingRan(page, 'the search');
  await checkFits(page, 'the search');
}, { change: makeHostile });

mockTest('10,000 promotions: pages, filters and a bounded page', async ({ page, url, mock }) => {
  await openAs(page, url, 'dg_viewer');
  const elements = () => page.evaluate(() => document.querySelectorAll('*').length);
  assert.ok(await elements() < 12_000, `${await elements()} elements`);
  const limits = mock.requests.filter((one) => /^\/v1\/(promotions|status)$/.test(one.path)).map((one) => Number(new URLSearchParams(one.search).get('limit') ?? 50));
  assert.ok(limits.length && limits.every((one) => one <= 100), `lists are read by pages: ${limits}`);
  await checkAxe(page, 'the overview of 10,000 promotions');
  await shot(page, '10000 promotions');
  await page.getByRole('link', { name: /^All promotions/ }).or(page.getByRole('tab', { name: /^All promotions/ })).or(page.getByRole('button', { name: /^All promotions/ })).first().click();
  const more = page.getByRole('button', { name: 'Show more' }).first();
  await more.waitFor();
  const rows = () => page.locator('main a[href^="/p/"]').count();
  const before = await rows();
  await more.click();
  await page.waitForFunction((count) => document.querySelectorAll('main a[href^="/p/"]').length > count, before);
}, { change: (world) => makeMany(world) });

mockTest('a table of 500 slices', async ({ page, url, world }) => {
  await openAs(page, url, 'dg_viewer', `/p/${world.promotions[1].id}/slices`);
  await page.getByText(/language/).first().waitFor();
  await checkFits(page, '500 slices');
  await checkAxe(page, '500 slices');
  await shot(page, '500 slices', { fullPage: false });
  const rows = await page.locator('main tbody tr').count();
  assert.ok(rows > 40, `${rows} rows`);
}, { change: (world) => makeManySlices(world, `${world.promotions[1].id}/statistical-slice`, 500) });
