// People decide on a real promotion in the browser: live, by two clicks, by the keyboard, over a restart of the daemon, in
// conflict with each other; then an auditor verifies. The tests share one daemon and follow one another.
import {
  assert, browserTest, checkAxe, checkEntry, checkFits, checks, closed, COLOURS, found, give, openAs, PATIENCE_MS, PHONE, pin, shot, shown, tabTo,
} from '../lib/browser.mjs';
import { api, daemon, reach } from '../lib/real.mjs';

const STAGE_MS = PATIENCE_MS * 4;
const info = await daemon.info();
const bearer = (who) => info.people[who].bearer;
const headKey = (trust) => JSON.stringify({ ...JSON.parse(trust), keys: JSON.parse(trust).keys.filter((key) => key.use === 'head') });

let failed = ''; // the first test that failed: what follows it would only wait for what cannot come
function realTest(name, body, options = {}) {
  browserTest(name, async () => ({ url: () => info.url }), async (made) => {
    assert.equal(failed, '', 'a test before it failed');
    try {
      await body({ ...made, url: info.url });
    } catch (error) {
      if (followed.has(name)) failed = name;
      throw error;
    }
  }, { ...options, patience: STAGE_MS * 2 });
}

const firstHead = await api(info, 'vera', 'GET', '/v1/log/checkpoint');
let first; // the promotion that passes all four stages
let second; // the one that people end
const followed = new Set(['a promotion is followed live through its stages to its first approval', 'approve from a link in two clicks',
  'the daemon is restarted under an open page, which recovers and says so', 'approve with the keyboard alone; the promotion succeeds under the open page']);

realTest('a link signs in, and an empty overview says how to begin', async ({ page, url }) => {
  await openAs(page, url, bearer('vera'));
  assert.equal(page.url(), `${url}/`);
  await page.getByText('tinylm').first().waitFor();
  await checkAxe(page, 'the overview without a promotion');
});

realTest('a promotion is followed live through its stages to its first approval', async ({ page, context, url }) => {
  await openAs(page, url, bearer('vera'));
  await page.evaluate(() => { window.still = true; });
  first = await daemon.promote('bf16', 'page-whole');
  await page.locator(`main a[href="/p/${first}"]`).first().waitFor();
  const detail = await context.newPage();
  await detail.goto(`${url}/p/${first}`);
  await shown(detail);
  await detail.evaluate(() => { window.still = true; });
  await shot(detail, 'real live offline');
  const waits = (one) => one.getByText(/awaiting approval/i).first().waitFor({ timeout: STAGE_MS });
  await Promise.all([waits(page), waits(detail)]);
  for (const one of [page, detail]) assert.equal(await one.evaluate(() => window.still), true, 'without loading the page again');
  const seen = await api(info, 'vera', 'GET', `/v1/promotions/${first}`);
  assert.equal(seen.state, 'awaiting_approval');
  await detail.getByText('50%').first().waitFor();
  await checkAxe(detail, 'a promotion that waits');
  await checkFits(detail, 'a promotion that waits');
  await shot(detail, 'real live waiting');
});

/** Takes an action from the page as it is opened. Traffic goes on, so that a verdict may change between the look and the
 * decision, which is then refused: it is looked at again, a few times. */
async function decide(page, act) {
  for (let attempt = 1; attempt <= 5; attempt += 1) {
    await act();
    await page.waitForFunction(() => /^It changed while/m.test(document.querySelector('dialog[open]')?.innerText ?? 'It changed while'));
    if (await page.locator('dialog[open]').count() === 0) return;
    await page.reload();
    await shown(page);
  }
  throw new Error('what was decided on changed at each of 5 attempts');
}

realTest('approve from a link in two clicks', async ({ page, url }) => {
  await openAs(page, url, bearer('anna'), `/p/${first}`);
  await decide(page, async () => {
    await page.evaluate(() => { window.clicks = 0; addEventListener('click', (event) => { window.clicks += event.isTrusted; }, true); });
    await give(page, 'Approve', 'figures of the first step read');
  });
  assert.ok(await page.evaluate(() => window.clicks) <= 2);
  const given = await api(info, 'audrey', 'GET', `/v1/evidence?promotion=${first}&kind=approval_given`);
  assert.deepEqual(given.items.map((entry) => entry.actor), ['anna']);
  await page.getByText('70%').first().waitFor({ timeout: STAGE_MS });
});

realTest('the daemon is restarted under an open page, which recovers and says so', async ({ page, url }) => {
  await openAs(page, url, bearer('bert'), `/p/${first}`);
  await page.evaluate(() => { window.still = true; });
  await daemon.stop();
  await page.getByText(/does not answer/).first().waitFor();
  await page.getByText('tinylm').first().waitFor();
  await checkAxe(page, 'a page whose daemon is away');
  await shot(page, 'real away');
  await daemon.start();
  await page.getByText(/is back/).first().waitFor();
  assert.equal(await page.evaluate(() => window.still), true, 'without loading the page again');
  await page.getByText(/awaiting approval/i).first().waitFor({ timeout: STAGE_MS });
  await page.getByRole('button', { name: 'Sign out' }).waitFor(); // the session outlived the daemon
});

realTest('approve with the keyboard alone; the promotion succeeds under the open page', async ({ page, url }) => {
  await reach(info, first, ['awaiting_approval']);
  await openAs(page, url, bearer('bert'), `/p/${first}`);
  await decide(page, async () => {
    await tabTo(page, 'button', 'Approve');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.type('figures of the second step read');
    await tabTo(page, 'button', 'Approve', 6);
    await page.keyboard.press('Enter');
  });
  await page.getByText(/succeeded/i).first().waitFor({ timeout: STAGE_MS });
  const done = await reach(info, first, ['succeeded']);
  assert.equal(done.traffic, 'live');
});

const finished = () => ({ overview: '/', promotion: `/p/${first}`, slices: `/p/${first}/slices`, model: '/models/tinylm', contracts: '/c/', contract: '/c/page-whole',
  evidence: '/evidence', served: '/evidence?show=served', population: '/evidence?show=population', exceptions: '/evidence?show=exceptions', schedules: '/schedules',
  holds: '/holds', tokens: '/tokens', settings: '/settings', health: '/health' });

for (const [device, options] of Object.entries({ desk: {}, 'phone, dark': { viewport: PHONE, colorScheme: 'dark' } })) {
  realTest(`every view with the data of a finished promotion, ${device}`, async ({ page, url }) => {
    const { bearer: token } = await daemon.person(`everybody-${device.length}`, ['admin']);
    await openAs(page, url, token);
    for (const [name, path] of Object.entries(finished())) {
      await page.goto(url + path);
      await shown(page);
      assert.equal(await page.locator('main [role="alert"]').count(), 0, `${name} says that something failed: ${await page.locator('main [role="alert"]').allInnerTexts()}`);
      await checkFits(page, name);
      await checkAxe(page, name, options.viewport ? { only: COLOURS } : {});
      await shot(page, `real ${device} ${name}`);
    }
  }, options);
}

realTest('every clause of the report stands on the page, and the ramp has its points', async ({ page, url }) => {
  await openAs(page, url, bearer('vera'), `/p/${first}`);
  const report = await api(info, 'vera', 'GET', `/v1/promotions/${first}/stages/canary/report`);
  const { points } = await api(info, 'vera', 'GET', `/v1/promotions/${first}/series`);
  assert.ok(points.length > 3 && points.at(-1).share_bp > 5000, `${points.length} points`);
  for (const clause of new Set(report.verdicts.map((one) => one.clause))) await page.getByText(clause).first().waitFor({ state: 'attached' });
});

realTest('the worst slice in one click', async ({ page, url }) => {
  await openAs(page, url, bearer('vera'), `/p/${first}`);
  await page.getByRole('link', { name: /worst slice/i }).first().click();
  await page.waitForURL(/\/slices\?.*slice=/);
  await page.getByText(/language=/).first().waitFor();
});

realTest('what if: the stored evidence under another contract', async ({ page, url }) => {
  await api(info, 'vera', 'GET', '/v1/contracts/page-whole');
  await openAs(page, url, bearer('vera'), '/c/page-whole');
  await page.getByLabel('Promotion', { exact: true }).selectOption(first);
  await page.getByRole('button', { name: 'Decide again' }).click();
  await page.getByText(/Under this contract/).first().waitFor();
  await checkAxe(page, 'an answer to what-if');
});

realTest('an entry is verified in one click under a pinned key; a changed byte is broken', async ({ page, url, context }) => {
  await openAs(page, url, bearer('audrey'), '/evidence');
  await pin(page, headKey(info.trust));
  await checks(page).first().click();
  assert.match(await found(page), /^Verified in this browser/);
  await shot(page, 'real verified', { fullPage: false });
  const entries = await api(info, 'audrey', 'GET', `/v1/evidence?promotion=${first}&limit=500`);
  const verdict = entries.items.find((entry) => entry.body.clause && entry.body.verdict === 'pass');
  const stage = entries.items.find((entry) => entry.kind === 'verdict_reached' && !entry.body.clause);
  for (const { seq } of [verdict, stage]) assert.match(await checkEntry(page, url, seq), /^Verified in this browser; not checked here: rule of the verdict/, `entry ${seq}`);

  const flip = (text, at) => text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ 1) + text.slice(at + 1);
  const alter = async (pattern, change) => context.route(pattern, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, body: change(await answer.text()) });
  });
  const broken = async (what, pattern, change) => {
    await alter(pattern, change);
    assert.match(await checkEntry(page, url, verdict.seq), /^Broken/, what);
    await shot(page, `real broken ${what}`, { fullPage: false });
    await context.unroute(pattern);
  };
  await broken('a byte of the entry', `**/v1/evidence/${verdict.seq}`, (text) => flip(text, text.indexOf('"seed":"') + 9));
  await broken('a byte of the proof', `**/v1/log/proof/${verdict.seq}`, (text) => { const proof = JSON.parse(text); proof.path[0] = flip(proof.path[0], 3); return JSON.stringify(proof); });
  await broken('a byte of the head', `**/v1/log/proof/${verdict.seq}`, (text) => {
    const proof = JSON.parse(text);
    const [origin, size, root, ...rest] = proof.checkpoint.split('\n');
    return JSON.stringify({ ...proof, checkpoint: [origin, size, flip(root, 5), ...rest].join('\n') });
  });
  assert.match(await checkEntry(page, url, verdict.seq), /^Verified in this browser/);
});

realTest('an older head than the kept one is shown as a rollback', async ({ page, url }) => {
  await openAs(page, url, bearer('audrey'), '/evidence');
  await pin(page, headKey(info.trust));
  await page.getByText(/head verified/).first().waitFor();
  await page.route('**/v1/log/checkpoint', (route) => route.fulfill({ body: firstHead, contentType: 'text/plain' }));
  await page.reload();
  await shown(page);
  await page.getByText(/roll(ed )?back/i).first().waitFor();
  await shot(page, 'real rollback');
});

realTest('a conflict with what somebody else did in the meantime is explained', async ({ page, url }) => {
  second = await daemon.promote('f32', 'page-short', false);
  await reach(info, second, ['awaiting_approval']);
  await openAs(page, url, bearer('anna'), `/p/${second}`);
  await page.getByRole('main').getByRole('button', { name: 'Approve', exact: true }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel(/^Reason/).fill('figures read');
  await api(info, 'olga', 'POST', `/v1/promotions/${second}/pause`, { reason: 'wait for the report' });
  await dialog.getByRole('button', { name: 'Approve', exact: true }).click();
  await dialog.getByText(/nothing was done/).waitFor();
  await dialog.getByText(/paused/i).first().waitFor();
  await checkAxe(page, 'a conflict');
  await shot(page, 'real conflict');
  assert.equal((await api(info, 'vera', 'GET', `/v1/promotions/${second}`)).state, 'paused');
});

realTest('abort with a typed reason', async ({ page, url }) => {
  await openAs(page, url, bearer('otto'), `/p/${second}`);
  await give(page, 'Abort', 'no longer wanted');
  await closed(page);
  await page.getByText(/aborted/i).first().waitFor();
  const ended = await api(info, 'vera', 'GET', `/v1/promotions/${second}`);
  assert.deepEqual([ended.state, ended.traffic], ['aborted', 'reverted']);
  const [entry] = (await api(info, 'audrey', 'GET', `/v1/evidence?promotion=${second}&kind=state_changed&order=newest&limit=1`)).items;
  assert.equal(entry.actor, 'otto');
});

realTest('a revoked token signs out at once', async ({ page, url }) => {
  const { id, bearer: token } = await daemon.person('gone', ['operator']);
  await openAs(page, url, token);
  await api(info, 'ada', 'DELETE', `/v1/tokens/${id}`, undefined, 204);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.getByText(/session (has )?ended/i).first().waitFor();
});

realTest('a token with a hostile name, everywhere that it can be', async ({ page, url }) => {
  const name = '<img src=x onerror=window.pwned=1>';
  const issued = await fetch(`${url}/v1/tokens`, { method: 'POST', headers: { Authorization: `Bearer ${bearer('ada')}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name, scopes: ['admin'] }) });
  if (issued.status !== 201) return assert.ok(issued.status === 400 || issued.status === 422, 'the daemon takes no such name');
  await openAs(page, url, (await issued.json()).bearer, '/tokens');
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  return undefined;
});
