// Actions: bound to the evidence that is shown, with a reason, once; by the keyboard; refused with the reason why.
import { assert, checkAxe, checkFits, closed, give, openAs, PHONE, shot, shown, tabTo } from '../lib/browser.mjs';
import { move } from '../mock/api.mjs';
import { mockTest } from '../lib/mocked.mjs';

const button = (page, name) => page.getByRole('main').getByRole('button', { name, exact: true }).first();

mockTest('approve from a link in two clicks, naming the evidence that is shown', async ({ page, url, mock, world }) => {
  const view = world.waiting();
  const digest = view.approval.evidence_digest;
  await openAs(page, url, 'dg_approver', `/p/${view.id}`);
  await give(page, 'Approve', 'figures read');
  await closed(page);
  const [sent] = await mock.asked('POST', `/v1/promotions/${view.id}/approve`);
  assert.deepEqual(sent.body, { evidence_digest: digest, reason: 'figures read' });
  assert.ok(sent.headers['idempotency-key'] && sent.headers['x-csrf-token'], 'with an idempotency key and the CSRF token');
  await page.getByText(/running/i).first().waitFor();
});

mockTest('approve with the keyboard alone', async ({ page, url, mock, world }) => {
  const view = world.waiting();
  await openAs(page, url, 'dg_approver');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/p/${view.id}`);
  await shown(page);
  await tabTo(page, 'button', 'Approve');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  assert.ok(await page.evaluate(() => document.querySelector('dialog').contains(document.activeElement)), 'the focus is in the dialog');
  await page.keyboard.type('figures read');
  await tabTo(page.getByRole('dialog').page(), 'button', 'Approve', 6);
  await page.keyboard.press('Enter');
  await closed(page);
  assert.equal((await mock.asked('POST', /approve$/)).length, 1);
});

mockTest('abort needs a typed reason; Escape changes nothing and gives the focus back', async ({ page, url, mock, world }) => {
  const view = world.waiting();
  await openAs(page, url, 'dg_operator', `/p/${view.id}`);
  await button(page, 'Abort').click();
  const dialog = page.getByRole('dialog');
  await checkAxe(page, 'the dialog of abort');
  await shot(page, 'abort');
  await dialog.getByRole('button', { name: 'Abort', exact: true }).click();
  await dialog.getByText('Type the reason first.').waitFor();
  await page.keyboard.press('Escape');
  await closed(page);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Abort');
  assert.equal(mock.requests.filter((one) => one.method === 'POST' && /abort/.test(one.path)).length, 0, 'nothing was sent');
  await give(page, 'Abort', 'no longer wanted');
  await closed(page);
  const [sent] = await mock.asked('POST', /abort$/);
  assert.equal(sent.body.reason, 'no longer wanted');
  assert.match(sent.body.evidence_digest, /^sha256:/);
  await page.getByText(/aborted/i).first().waitFor();
});

mockTest('a conflict says what changed since, and nothing was done', async ({ page, url, mock, world }) => {
  const view = world.waiting();
  await openAs(page, url, 'dg_approver', `/p/${view.id}`);
  await button(page, 'Approve').click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel(/^Reason/).fill('figures read');
  view.state = 'paused'; // somebody else, a moment before; its event is still on its way
  await dialog.getByRole('button', { name: 'Approve', exact: true }).click();
  await dialog.getByText(/nothing was done/).waitFor();
  const changes = dialog.getByRole('table', { name: 'What is different now' });
  await changes.getByRole('row', { name: /State.*awaiting approval.*paused/i }).waitFor();
  await checkAxe(page, 'a conflict');
  await shot(page, 'conflict');
  await dialog.getByRole('button', { name: 'Close and look again' }).click();
  await closed(page);
  assert.equal(view.state, 'paused');
  assert.equal((await mock.asked('POST', /approve$/)).length, 1);
});

mockTest('an action of somebody else shows while the page is open', async ({ page, url, mock, world }) => {
  const view = world.waiting();
  await openAs(page, url, 'dg_viewer', `/p/${view.id}`);
  view.why = 'olga said so';
  move(mock, view, 'paused', 'olga', { reason: 'wait for the report' });
  await page.getByText(/wait for the report/).first().waitFor();
});

mockTest('an answer that is lost does not do it twice', async ({ page, url, mock, world }) => {
  const view = world.waiting();
  await openAs(page, url, 'dg_approver', `/p/${view.id}`);
  let lost = 0;
  await page.route('**/approve', async (route) => {
    if (lost) return route.continue();
    lost += 1;
    await route.fetch();
    return route.abort('connectionreset');
  });
  await give(page, 'Approve', 'figures read');
  await page.getByRole('dialog').getByText(/not known whether it was done/).waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Try again' }).click();
  await closed(page);
  const sent = await mock.asked('POST', /approve$/, 2);
  assert.equal(new Set(sent.map((one) => one.headers['idempotency-key'])).size, 1, 'the same key');
  assert.deepEqual(sent.map((one) => one.status), [200, 200]);
});

mockTest('what a role may not do is shown, refused and explained', async ({ page, url, mock, world }) => {
  const view = world.waiting();
  await openAs(page, url, 'dg_viewer', `/p/${view.id}`);
  for (const [verb, scope] of Object.entries({ Approve: 'approver', Abort: 'operator', 'Roll back': 'operator', Pause: 'operator' })) {
    const one = button(page, verb);
    assert.equal(await one.getAttribute('aria-disabled'), 'true', verb);
    const why = await one.evaluate((element) => document.getElementById(element.getAttribute('aria-describedby')).textContent);
    assert.match(why, new RegExp(`scope ${scope}`), verb);
    await one.click({ force: true });
  }
  assert.equal(await page.getByRole('dialog').count(), 0);
  assert.equal(mock.requests.filter((one) => one.method === 'POST' && one.path !== '/v1/session').length, 0);
});

mockTest('who asked for a promotion is told that another person must approve', async ({ page, url, world }) => {
  world.token('promoter', ['promoter', 'approver']);
  await openAs(page, url, 'dg_promoter', `/p/${world.waiting().id}`);
  await page.getByText(/another person must approve/).first().waitFor();
});

mockTest('no single key does anything but move', async ({ page, url, mock, world }) => {
  await openAs(page, url, 'dg_chief', `/p/${world.waiting().id}`);
  for (const key of 'abcdefhilmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789') {
    await page.keyboard.press(key);
    await page.keyboard.press('Escape');
  }
  assert.equal(mock.requests.filter((one) => one.method !== 'GET' && one.path !== '/v1/session').length, 0);
});

mockTest('keys: g p, g c, g e, / and ?', async ({ page, url }) => {
  await openAs(page, url, 'dg_chief', '/health');
  for (const [keys, path] of [['gc', '/c/'], ['ge', '/evidence'], ['gp', '/']]) {
    for (const key of keys) await page.keyboard.press(key);
    await page.waitForURL(`${url}${path}`);
    await shown(page);
  }
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await checkAxe(page, 'the help on keys');
  await page.keyboard.press('Escape');
  await closed(page);
  await page.keyboard.press('/');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.type('tinylm');
  await page.getByRole('dialog').getByText('tinylm').first().waitFor();
  await checkAxe(page, 'the search');
});

mockTest('a hold is lifted with a reason', async ({ page, url, mock }) => {
  await openAs(page, url, 'dg_operator', '/holds');
  await give(page, 'Lift the hold', 'engine repaired');
  await closed(page);
  const [sent] = await mock.asked('POST', /lift-hold$/);
  assert.equal(sent.body.reason, 'engine repaired');
  assert.equal(mock.world.models[0].hold, null);
}, { change: (world) => { world.models[0].hold = { reason: 'int8 failed', by: 'driftgate', since_us: world.now_us, promotion: world.promotions[2].id }; } });

mockTest('the dialogs fit a phone', async ({ page, url, world }) => {
  await openAs(page, url, 'dg_chief', `/p/${world.waiting().id}`);
  for (const verb of ['Approve', 'Abort']) {
    await button(page, verb).click();
    await checkFits(page, `the dialog of ${verb}`);
    await checkAxe(page, `the dialog of ${verb} at a phone`);
    await shot(page, `phone ${verb}`, { fullPage: false });
    await page.keyboard.press('Escape');
    await closed(page);
  }
}, { viewport: PHONE });
