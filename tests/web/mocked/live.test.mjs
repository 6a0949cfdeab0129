// A page that stays open: changes come by themselves, a lost daemon is said and its data kept, and it recovers.
import { assert, checkAxe, openAs, shot, shown } from '../lib/browser.mjs';
import { move } from '../mock/api.mjs';
import { mockTest } from '../lib/mocked.mjs';

const away = (page) => page.getByText(/does not answer/).first().waitFor();
const back = (page) => page.getByText(/is back/).first().waitFor();

mockTest('the overview follows a promotion', async ({ page, url, mock, world }) => {
  const view = world.waiting();
  await openAs(page, url, 'dg_viewer');
  await page.evaluate(() => { window.still = true; });
  view.canary.share_bp = view.share_bp = 9900;
  view.why = view.reason = 'A sentence that was not there.';
  mock.progress(view);
  await page.getByText('A sentence that was not there.').first().waitFor();
  move(mock, view, 'aborted', 'olga', { reason: 'enough' });
  await page.getByText(/aborted/i).first().waitFor();
  assert.equal(await page.evaluate(() => window.still), true, 'without loading the page again');
});

mockTest('the daemon goes away and comes back under an open page', async ({ page, url, mock, world }) => {
  const view = world.waiting();
  await openAs(page, url, 'dg_viewer', `/p/${view.id}`);
  await page.evaluate(() => { window.still = true; });
  await mock.stop();
  await away(page);
  await page.getByText('tinylm').first().waitFor();
  await checkAxe(page, 'a page whose daemon is away');
  await shot(page, 'away');
  view.why = view.reason = 'It went on in the meantime.';
  await mock.restart();
  await back(page);
  await page.getByText('It went on in the meantime.').first().waitFor();
  assert.equal(await page.evaluate(() => window.still), true, 'without loading the page again');
  await checkAxe(page, 'a page whose daemon is back');
});

mockTest('a stream that is cut resumes behind the last event, without a gap', async ({ page, url, mock, world }) => {
  const view = world.waiting();
  await openAs(page, url, 'dg_auditor', `/p/${view.id}`);
  move(mock, view, 'paused', 'olga', { reason: 'first' });
  await page.getByText('first').first().waitFor();
  mock.cutStreams();
  move(mock, view, 'running', 'olga', { reason: 'second' });
  await page.getByText('second').first().waitFor();
});

mockTest('a restored log is noticed: everything is read again', async ({ page, url, mock, world }) => {
  const view = world.waiting();
  await openAs(page, url, 'dg_viewer', `/p/${view.id}`);
  await mock.stop();
  await away(page);
  for (let i = 0; i < 20; i += 1) world.log.entries.pop();
  world.log.leaves.length = world.log.entries.length;
  world.log.known.clear();
  view.why = view.reason = 'From the backup.';
  await mock.restart();
  await page.getByText('From the backup.').first().waitFor();
});

mockTest('what failed says so and can be read again', async ({ page, url, mock }) => {
  await openAs(page, url, 'dg_chief', '/health');
  for (const [path, api] of Object.entries({ '/': '/v1/status', '/schedules': '/v1/schedules', '/settings': '/v1/settings', '/evidence': '/v1/evidence', '/c/': '/v1/contracts' })) {
    const mend = mock.fail('GET', api, 503, 'unavailable', `the database of ${api} is busy`);
    await page.goto(url + path);
    await page.getByText(new RegExp(`the database of ${api} is busy`)).first().waitFor();
    await checkAxe(page, `${path} after a failure`);
    mend();
    await page.getByRole('button', { name: 'Try again' }).first().click();
    await page.getByText(/is busy/).first().waitFor({ state: 'hidden' });
    await shown(page);
  }
});
