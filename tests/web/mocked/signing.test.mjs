// Signing in and out: by a link whose token is erased, by hand; a revoked token ends everything at once.
import { assert, checkAxe, openAs, shown } from '../lib/browser.mjs';
import { mockTest } from '../lib/mocked.mjs';

const signedOut = (page) => page.getByRole('heading', { name: 'Sign in' }).waitFor();

mockTest('a link signs in, and its token is nowhere afterwards', async ({ page, context, url, mock }) => {
  await openAs(page, url, 'dg_approver', '/p/pr-x?y=z');
  assert.equal(page.url(), `${url}/p/pr-x?y=z`, 'the fragment is erased');
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, history.state, document.documentElement.outerHTML]));
  assert.ok(!kept.includes('dg_approver'), 'the token is kept nowhere that scripts can read');
  await page.goBack().catch(() => {});
  assert.ok(!page.url().includes('dg_'), 'the history does not have it');
  const [cookie] = await context.cookies();
  assert.deepEqual({ httpOnly: cookie.httpOnly, sameSite: cookie.sameSite }, { httpOnly: true, sameSite: 'Strict' });
  assert.equal(mock.requests.filter((one) => one.headers.authorization).length, 1, 'one request had the token');
});

mockTest('a token is pasted; a wrong one is explained; sign out ends the session', async ({ page, url, mock }) => {
  await page.goto(`${url}/schedules`);
  await signedOut(page);
  await checkAxe(page, 'the sign-in');
  await page.getByLabel('Token').fill('dg_nobody');
  await page.keyboard.press('Enter');
  await page.getByText(/does not know this token/).waitFor();
  await checkAxe(page, 'a refused sign-in');
  await page.getByLabel('Token').fill('dg_operator');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Schedules', level: 1 }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await signedOut(page);
  assert.equal(mock.sessions.size, 0, 'the session has ended at the daemon too');
  await page.reload();
  await signedOut(page);
});

mockTest('a revoked token signs out every tab at once, and says so', async ({ page, context, url, mock, world }) => {
  await openAs(page, url, 'dg_operator');
  const second = await context.newPage();
  await second.goto(`${url}/holds`);
  await shown(second);
  mock.revoke(world.bearers.get('dg_operator').id);
  for (const one of [page, second]) {
    await signedOut(one);
    await one.getByText(/session (has )?ended|signed out/i).first().waitFor();
  }
  assert.equal(await page.getByText('tinylm').count(), 0, 'nothing of what was shown is left');
});

mockTest('all tabs of a browser share one stream, and the next tab takes over', async ({ page, context, url, mock, world }) => {
  await openAs(page, url, 'dg_viewer');
  const tabs = [page];
  await mock.streaming(1);
  for (let i = 0; i < 7; i += 1) {
    const tab = await context.newPage();
    await tab.goto(`${url}/`);
    await shown(tab);
    tabs.push(tab);
  }
  assert.equal(mock.streams.size, 1, 'one stream');
  const waiting = world.waiting();
  const [first] = mock.streams;
  await tabs[0].close(); // the tab that leads
  await mock.streamsAre(([stream, ...more]) => stream && stream !== first && more.length === 0);
  waiting.why = waiting.reason = 'Another sentence.';
  mock.progress(waiting);
  for (const tab of tabs.slice(1)) await tab.getByText('Another sentence.').first().waitFor();
});

mockTest('the page works on plain http under another name than localhost', async ({ page, url, faults }) => {
  faults.allow(/Cross-Origin-Opener-Policy header has been ignored/); // chromium says so of every plain http origin
  await openAs(page, url, 'dg_chief');
  assert.equal(await page.evaluate(() => isSecureContext), false);
  await page.goto(`${url}/evidence`);
  await shown(page);
}, { host: 'driftgate.test' });

mockTest('a request that another site makes with the cookie is refused', async ({ page, context, url, mock }) => {
  await openAs(page, url, 'dg_operator');
  const [cookie] = await context.cookies();
  const send = (headers) => fetch(`${mock.url}/v1/session`, { method: 'DELETE', headers: { cookie: `${cookie.name}=${cookie.value}`, ...headers } });
  assert.equal((await send({})).status, 403, 'without the CSRF token');
  await page.reload();
  await shown(page);
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
});
