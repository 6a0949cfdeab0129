// Screenshots of a running demo for the README; called by scripts/page_images: images.mjs URL TOKEN FOLDER
import { createRequire } from 'node:module';
import path from 'node:path';

const { chromium } = createRequire(path.join(process.env.DRIFTGATE_WEB_MODULES, 'package.json'))('playwright-core');
const [url, token, folder] = process.argv.slice(2);

async function read(where) {
  const response = await fetch(url + where, { headers: { Authorization: `Bearer ${token}` } });
  if (!response.ok) throw new Error(`GET ${where}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** The newest promotion that fulfils the condition. */
async function promotion(what, test) {
  const { items } = await read('/v1/promotions?limit=100');
  const found = items.find(test);
  if (!found) throw new Error(`the daemon has no promotion that ${what}: run scripts/demo --keep first`);
  return found.id;
}

const succeeded = await promotion('succeeded', (one) => one.state === 'succeeded');
const sliced = await promotion('was rejected in statistical-slice', (one) => one.state === 'rejected' && one.stage === 'statistical-slice');
const browser = await chromium.launch({ executablePath: process.env.DRIFTGATE_CHROMIUM, headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] });
try {
  const page = await browser.newPage({ viewport: { width: 1100, height: 820 }, colorScheme: 'light', reducedMotion: 'reduce', locale: 'en-GB', timezoneId: 'UTC' });
  await page.goto(`${url}/#token=${token}`);
  await page.locator('main h1').waitFor();
  for (const [name, where] of [['promotion', `/p/${succeeded}`], ['slices', `/p/${sliced}/slices`]]) {
    await page.goto(url + where);
    await page.locator('main h1').waitFor();
    await page.waitForFunction(() => !document.querySelector('main [aria-busy="true"]'));
    await page.waitForLoadState('networkidle', { timeout: 5000 }).catch(() => {}); // the stream of events stays open
    await page.evaluate(() => document.fonts.ready);
    await page.screenshot({ path: path.join(folder, `${name}.png`) });
  }
} finally {
  await browser.close();
}
