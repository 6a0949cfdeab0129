// Every view at a desk's width, light and dark, and at a phone's: no fault of axe-core, the console, the
// Content-Security-Policy or the layout; a heading and a title of its own; landmarks.
import { assert, checkAxe, checkFits, COLOURS, DESK, openAs, PHONE, shot, shown } from '../lib/browser.mjs';
import { mockTest, views } from '../lib/mocked.mjs';

async function visit(page, url, name, path, how, rules = {}) {
  await page.goto(url + path);
  await shown(page);
  await checkFits(page, `${name}, ${how}`);
  await checkAxe(page, `${name}, ${how}`, rules);
  await shot(page, `${how} ${name}`);
}

/** The view that is open, in dark: its colours are others, and nothing else of it. */
async function checkDark(page, name, how) {
  await page.emulateMedia({ colorScheme: 'dark' });
  await checkFits(page, `${name}, dark ${how}`);
  await checkAxe(page, `${name}, dark ${how}`, { only: COLOURS });
  await shot(page, `dark ${how} ${name}`);
  await page.emulateMedia({ colorScheme: 'light' });
}

// Colours do not depend on the width, but for the heads that a narrow table writes before its cells, which axe-core does not read.
for (const [device, viewport] of Object.entries({ desk: DESK, phone: PHONE })) {
  mockTest(`every view at a ${device}`, async ({ page, url, world }) => {
    world.token('everybody', ['approver', 'admin']);
    await openAs(page, url, 'dg_everybody');
    const titles = new Map();
    for (const [name, path] of Object.entries(views(world))) {
      await visit(page, url, name, path, `light ${device}`, viewport === DESK ? {} : { without: COLOURS });
      const [main, headings, title] = [await page.getByRole('main').count(), await page.getByRole('heading', { level: 1 }).count(), await page.title()];
      assert.deepEqual({ main, headings }, { main: 1, headings: 1 }, `${name} has one main part and one heading`);
      const one = path.split('?')[0].replace(/^\/p\/[^/]+/, '/p'); // parts of a view have its title
      assert.ok([undefined, one].includes(titles.get(title)), `${name} and ${titles.get(title)} have the same title ${title}`);
      titles.set(title, one);
      if (viewport === DESK) await checkDark(page, name, device);
    }
  }, { viewport, colorScheme: 'light' });
}

mockTest('a view that is opened in dark has the faults of none', async ({ page, url, world }) => {
  await openAs(page, url, 'dg_viewer');
  for (const name of ['overview', 'promotion rolled back in canary', 'slices']) await visit(page, url, name, views(world)[name], 'opened in dark');
}, { colorScheme: 'dark' });

mockTest('dark is dark and light is light', async ({ page, url }) => {
  await openAs(page, url, 'dg_viewer');
  const brightness = () => page.evaluate(() => {
    const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g).map(Number);
    return r + g + b;
  });
  await page.emulateMedia({ colorScheme: 'dark' });
  assert.ok(await brightness() < 200, 'dark');
  await page.emulateMedia({ colorScheme: 'light' });
  assert.ok(await brightness() > 600, 'light');
});

mockTest('a viewer sees every view that a viewer may see, and is told what the others need', async ({ page, url, world }) => {
  await openAs(page, url, 'dg_viewer');
  for (const [name, path] of Object.entries(views(world))) {
    await page.goto(url + path);
    await shown(page);
    await checkFits(page, `${name}, viewer`);
  }
  for (const [path, scope] of Object.entries({ '/evidence': /auditor/, '/tokens': /admin/ })) {
    await page.goto(url + path);
    await page.getByText(scope).first().waitFor();
    await checkAxe(page, `${path}, which needs ${scope}`);
  }
});

mockTest('names for screen readers: navigation, tables, controls', async ({ page, url, world }) => {
  await openAs(page, url, 'dg_chief');
  for (const [name, path] of Object.entries(views(world))) {
    await page.goto(url + path);
    await shown(page);
    const unnamed = await page.evaluate(() => [...document.querySelectorAll('button, a[href], input, select, textarea, table, [role=img], canvas')]
      .filter((one) => one.checkVisibility() && !one.closest('[aria-hidden=true]'))
      .filter((one) => {
        const label = one.labels?.[0]?.innerText ?? '';
        const by = (one.getAttribute('aria-labelledby') ?? '').split(' ').map((id) => document.getElementById(id)?.textContent ?? '').join('');
        const own = one.matches('table') ? one.caption?.textContent ?? '' : one.matches('canvas') ? one.closest('[aria-label],[aria-labelledby],figure') && 'in a named figure' : one.textContent;
        return !(label + by + (own ?? '') + (one.getAttribute('aria-label') ?? '') + (one.title ?? '')).trim();
      }).map((one) => one.outerHTML.slice(0, 160)));
    assert.deepEqual(unnamed, [], `without a name in ${name}`);
    await page.getByRole('navigation').first().waitFor();
  }
});

mockTest('an address that does not exist, and a promotion that does not exist, say so', async ({ page, url, faults }) => {
  await openAs(page, url, 'dg_viewer');
  await page.goto(`${url}/p/pr-nothing`);
  await page.getByText(/there is no promotion/i).first().waitFor();
  await checkAxe(page, 'a promotion that does not exist');
  faults.allow(/there is no/);
});

mockTest('text at twice its size still fits', async ({ page, url, world }) => {
  await openAs(page, url, 'dg_chief');
  for (const [name, path] of Object.entries(views(world))) {
    await page.goto(url + path);
    await shown(page);
    await page.evaluate(() => { document.documentElement.style.fontSize = '200%'; });
    await checkFits(page, `${name} at twice the size`);
  }
}, { viewport: { width: 640, height: 800 } });
