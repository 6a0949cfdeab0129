// The browser verifies by itself: under a pinned key everything holds; one changed byte of an entry, a proof or a head is
// shown as broken, an older head as a rollback, another history as a fork. The rule of a verdict is left to the verifiers.
import { assert, checkAxe, checkEntry, checkFits, checks, found, openAs, PHONE, pin, shot, shown } from '../lib/browser.mjs';
import { Log } from '../mock/log.mjs';
import { mockTest } from '../lib/mocked.mjs';

const firstSentence = (text) => text.replace(/ Computed in .*/s, '');
const entryOf = (world, test) => world.log.entries.map((source) => JSON.parse(source)).find(test);
const verdictOf = (world) => entryOf(world, (entry) => entry.kind === 'verdict_reached' && entry.body.rule === 'test' && entry.body.verdict === 'violated');

async function ready(page, url, world) {
  await openAs(page, url, 'dg_auditor', '/evidence');
  await pin(page, world.log.verifierKey);
}

mockTest('an entry is verified in one click under the pinned key', async ({ page, url, world }) => {
  await ready(page, url, world);
  await shot(page, 'evidence pinned');
  await checks(page).first().click();
  assert.match(await found(page), /^Verified in this browser/);
  await checkAxe(page, 'a verified entry');
  await shot(page, 'verified', { fullPage: false });
});

mockTest('every kind of entry is verified', async ({ page, url, world }) => {
  await ready(page, url, world);
  const seen = new Map();
  for (const source of world.log.entries) {
    const entry = JSON.parse(source);
    seen.set(`${entry.kind} ${entry.body.rule ?? ''} ${entry.body.verdict && !entry.body.clause ? 'stage' : ''}`, entry.seq);
  }
  for (const [kind, seq] of seen) assert.match(await checkEntry(page, url, seq), /^Verified in this browser/, `${kind}, entry ${seq}`);
});

mockTest('without a pinned key it says that who signed stays open', async ({ page, url }) => {
  await openAs(page, url, 'dg_auditor', '/evidence');
  await checks(page).first().click();
  assert.match(await found(page), /What could be checked holds; not checked/);
});

mockTest('a changed byte of an entry is broken', async ({ page, url, mock, world }) => {
  await ready(page, url, world);
  const { seq } = entryOf(world, (entry) => entry.kind === 'state_changed');
  const bytes = world.log.entries[seq].replace('"to":"running"', '"to":"runnind"');
  assert.notEqual(bytes, world.log.entries[seq]);
  mock.override('GET', `/v1/evidence/${seq}`, () => ({ raw: bytes, type: 'application/json' }));
  assert.match(await checkEntry(page, url, seq), /^Broken at:/);
  await page.getByText(/a byte differs/).first().waitFor();
  await checkAxe(page, 'a broken entry');
  await shot(page, 'broken', { fullPage: false });
});

mockTest('a changed byte of a proof is broken', async ({ page, url, mock, world }) => {
  await ready(page, url, world);
  const proof = world.log.proof(40);
  const flipped = (hex) => (hex[0] === '0' ? '1' : '0') + hex.slice(1);
  for (const broken of [{ ...proof, path: proof.path.map((hash, i) => (i === 2 ? flipped(hash) : hash)) }, { ...proof, path: proof.path.slice(1) },
    { ...proof, root_hash: flipped(proof.root_hash) }, { ...proof, leaf_hash: flipped(proof.leaf_hash) }]) {
    const mend = mock.override('GET', '/v1/log/proof/40', () => ({ json: broken }));
    assert.match(await checkEntry(page, url, 40), /^Broken/);
    mend();
  }
  assert.match(await checkEntry(page, url, 40), /^Verified/);
});

mockTest('a changed byte of a head is broken', async ({ page, url, mock, world }) => {
  await ready(page, url, world);
  const proof = world.log.proof(40);
  const lines = proof.checkpoint.split('\n');
  const swap = (text, at) => text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1);
  for (const [line, at] of [[2, 5], [4, lines[4].length - 20]]) {
    const changed = lines.map((text, i) => (i === line ? swap(text, at) : text)).join('\n');
    const mend = mock.override('GET', '/v1/log/proof/40', () => ({ json: { ...proof, checkpoint: changed } }));
    assert.match(await checkEntry(page, url, 40), /^Broken/, `line ${line}`);
    mend();
  }
});

mockTest('a head by another key than the pinned one is not accepted', async ({ page, url, world }) => {
  await openAs(page, url, 'dg_auditor', '/evidence');
  const id = world.log.verifierKey.split('+')[1];
  await pin(page, world.log.verifierKey);
  await page.getByRole('button', { name: 'Keys and kept heads' }).click();
  await page.getByRole('dialog').getByRole('button', { name: `Unpin the key ${id}` }).click();
  await page.keyboard.press('Escape');
  const { generateKeyPairSync } = await import('node:crypto');
  const stranger = new Log([], generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));
  await pin(page, stranger.verifierKey);
  assert.doesNotMatch(await checkEntry(page, url, 40), /^Verified/);
});

mockTest('a log shorter than the head that this browser kept is a rollback', async ({ page, url, world }) => {
  await ready(page, url, world);
  await page.getByText(/head verified/).first().waitFor();
  world.log.entries.length -= 10;
  world.log.leaves.length -= 10;
  world.log.known.clear();
  await page.reload();
  await shown(page);
  await page.getByText(/rolled back|rollback/i).first().waitFor();
  await checkAxe(page, 'a rollback');
  await shot(page, 'rollback');
  assert.match(await checkEntry(page, url, 40), /Broken: the log was rolled back/);
});

mockTest('another history of the same length is a fork', async ({ page, url, world }) => {
  await ready(page, url, world);
  await page.getByText(/head verified/).first().waitFor();
  const other = world.log.entries[9].replace('first version', 'first vers1on');
  assert.notEqual(other, world.log.entries[9]);
  world.log = new Log(world.log.entries.map((entry, i) => (i === 9 ? other : entry)), world.fixtures.key);
  await page.reload();
  await shown(page);
  await page.getByText(/fork/i).first().waitFor();
  assert.match(await checkEntry(page, url, 40), /fork/);
});

mockTest('a longer log that does not continue the kept head is a fork', async ({ page, url, world }) => {
  await ready(page, url, world);
  await page.getByText(/head verified/).first().waitFor();
  const other = world.log.entries[9].replace('first version', 'first vers1on');
  world.log = new Log(world.log.entries.map((entry, i) => (i === 9 ? other : entry)), world.fixtures.key);
  world.log.append({ kind: 'daemon_started', time_us: world.now_us });
  await page.reload();
  await shown(page);
  await page.getByText(/fork/i).first().waitFor();
});

mockTest('the rule of a verdict is not checked, and the commands that check it are shown beside the recorded numbers', async ({ page, url, world }) => {
  await ready(page, url, world);
  const { seq, subject } = verdictOf(world);
  assert.equal(await checkEntry(page, url, seq).then(firstSentence), 'Verified in this browser; not checked here: rule of the verdict.');
  const dialog = page.getByRole('dialog');
  await dialog.getByText(/^The rule is not checked here/).waitFor();
  const bundle = `${subject.promotion}.bundle`;
  assert.deepEqual(await dialog.getByLabel('Command', { exact: true }).allInnerTexts(), [`driftgate audit export --promotion ${subject.promotion} --out ${bundle}`,
    `driftgate audit verify ${bundle} --trust trust.json`, `scripts/verify_bundle.py --trust trust.json ${bundle}`]);
  for (const name of ['alpha', 'p_value', 'threshold']) await dialog.getByText(name, { exact: true }).first().waitFor();
  await checkAxe(page, 'a verdict whose rule is not checked');
  await shot(page, 'rule not checked', { fullPage: false });
});

mockTest('a list that shows something else than the bytes say is broken', async ({ page, url, mock, world }) => {
  await ready(page, url, world);
  const newest = JSON.parse(world.log.entries.at(-1));
  mock.override('GET', /^\/v1\/evidence$/, (request, at) => (at.searchParams.get('kind') ? undefined
    : { json: { items: [{ ...newest, actor: 'somebody else' }], tree_size: world.log.size, next: null } }));
  await page.reload();
  await shown(page);
  await checks(page).first().click();
  assert.match(await found(page), /^Broken/);
});

mockTest('evidence and its check at a phone', async ({ page, url, world }) => {
  await ready(page, url, world);
  await checkEntry(page, url, verdictOf(world).seq);
  await checkFits(page, 'a check');
  await checkAxe(page, 'a check at a phone');
  await shot(page, 'phone check', { fullPage: false });
}, { viewport: PHONE });
