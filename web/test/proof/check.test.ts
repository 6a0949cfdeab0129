import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkEntry, type Checked, type Material, type Pinned } from '../../src/proof/check';
import { readEntry } from '../../src/proof/entry';
import { readHead } from '../../src/proof/note';
import { sentenceOf } from '../../src/views/evidence/steps';
import { parseKeys } from '../../src/proof/trust';
import { fixtures, numbersFrom, realLog, TestKey, TestLog } from './log';

const log = realLog();
const pinned: Pinned = { keys: parseKeys(log.key.text), rotations: [] };

function materialOf(seq: number): Material {
  return { seq, entry: log.bytes[seq]!, proof: log.proof(seq) };
}

const brokenOf = (checked: Checked) => checked.steps.filter(({ state }) => state === 'broken').map(({ name }) => name);
const isVerdict = (bytes: Uint8Array) => readEntry(bytes).kind === 'verdict_reached';
const clause = log.bytes.findIndex(isVerdict);
const stage = log.bytes.findIndex((bytes) => isVerdict(bytes) && readEntry(bytes).body['scope'] === 'stage');

test('every entry of a real log holds', () => {
  for (let seq = 0; seq < log.size; seq++) {
    const checked = checkEntry(materialOf(seq), pinned);
    assert.equal(checked.state, 'good', JSON.stringify(checked.steps));
    assert.equal(checked.entry?.seq, seq);
  }
});

test('without a pinned key it is open, and says so', () => {
  const checked = checkEntry(materialOf(3), { keys: [], rotations: [] });
  assert.equal(checked.state, 'open');
  assert.match(checked.steps.find(({ name }) => name === 'signature')!.text, /No key is pinned/);
});

test('a changed byte of an entry is broken at its leaf or its bytes', () => {
  for (const seq of [0, clause, stage]) {
    const good = materialOf(seq);
    for (let at = seq % 7; at < good.entry.length; at += seq === 0 ? 1 : 7) {
      const entry = Uint8Array.from(good.entry);
      entry[at]! ^= 1 << at % 8;
      const checked = checkEntry({ ...good, entry }, pinned);
      assert.equal(checked.state, 'broken', `entry ${seq}, byte ${at}`);
      for (const name of ['leaf', 'path', 'head'] as const) assert.ok(brokenOf(checked).includes(name), `entry ${seq}, byte ${at}: ${name}`);
    }
  }
});

test('a changed proof is broken, and the step is named', () => {
  const good = materialOf(clause);
  const proof = log.proof(clause);
  const check = (changed: unknown) => brokenOf(checkEntry({ ...good, proof: changed }, pinned));
  proof.path.forEach((hash, at) => {
    for (let digit = 0; digit < hash.length; digit += 7) {
      const other = hash.slice(0, digit) + (hash[digit] === '0' ? '1' : '0') + hash.slice(digit + 1);
      assert.deepEqual(check({ ...proof, path: proof.path.map((one, i) => (i === at ? other : one)) }), ['path', 'head']);
    }
  });
  assert.deepEqual(check({ ...proof, path: proof.path.slice(1) }), ['path', 'head']);
  assert.deepEqual(check({ ...proof, path: [...proof.path, proof.path[0]] }), ['path', 'head']);
  assert.deepEqual(check({ ...proof, path: ['x'] }), ['path']);
  assert.deepEqual(check({ ...proof, seq: clause + 1 }), ['path']);
  assert.deepEqual(check({ ...proof, leaf_hash: proof.root_hash }), ['leaf']);
  assert.deepEqual(check({ ...proof, root_hash: proof.leaf_hash }), ['path']);
  assert.ok(check({ ...proof, tree_size: proof.tree_size - 1 }).includes('head'));
  assert.deepEqual(check(null), ['path']);
  assert.deepEqual(check({ ...log.proof(clause + 1), seq: clause }), ['leaf', 'path', 'head']);
});

test('a changed byte of the head is broken', () => {
  const good = materialOf(7);
  const proof = log.proof(7);
  const bytes = Buffer.from(proof.checkpoint);
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed[at]! ^= 1 << at % 8;
    const checked = checkEntry({ ...good, proof: { ...proof, checkpoint: changed.toString() } }, pinned);
    assert.equal(checked.state, 'broken', `byte ${at}`);
  }
});

test('a whole log that somebody else made and signed is broken at the signature', () => {
  const forger = new TestLog(fixtures().entries.map((entry) => entry.replace('"promoter"', '"prompter"')), TestKey.fresh('driftgate.local/log'));
  const seq = 5;
  const checked = checkEntry({ seq, entry: forger.bytes[seq]!, proof: forger.proof(seq) }, pinned);
  assert.deepEqual(brokenOf(checked), ['signature']);
});

test('another entry, or another than the list showed', () => {
  const good = materialOf(4);
  assert.deepEqual(brokenOf(checkEntry({ ...good, entry: log.bytes[5]! }, pinned)), ['entry', 'leaf', 'path', 'head']);
  const { kind, time_us } = readEntry(good.entry);
  assert.equal(checkEntry({ ...good, listed: { kind, time_us } }, pinned).state, 'good');
  assert.deepEqual(brokenOf(checkEntry({ ...good, listed: { kind, time_us, actor: 'somebody' } }, pinned)), ['entry']);
});

test('rollback, fork and continuation', () => {
  const kept = (size: number, from = log) => ({ head: readHead(from.head(size)), seenUs: 1, signedBy: '' });
  const at = (size: number, more: Partial<Material> = {}): Material => ({ ...materialOf(3), proof: log.proof(3, size), ...more });
  const step = (material: Material, before: Pinned['kept']) => {
    const checked = checkEntry(material, before ? { ...pinned, kept: before } : pinned);
    return { ...checked.steps.find(({ name }) => name === 'kept')!, continuity: checked.continuity };
  };
  assert.deepEqual([step(at(20), undefined).state, step(at(20), kept(20)).state], ['none', 'good']);
  assert.equal(step(at(20, { consistency: log.consistency(11, 20) }), kept(11)).continuity, 'continues');
  assert.equal(step(at(20), kept(11)).state, 'open');
  const rollback = step(at(20), kept(30));
  assert.equal(rollback.state, 'broken');
  assert.match(rollback.text, /Rollback/);
  const since = (consistency: unknown, before = kept(30)) => checkEntry(at(20, { consistency }), { ...pinned, kept: before, isKeptSince: true });
  assert.deepEqual([since(log.consistency(20, 30)).continuity, since(log.consistency(20, 30)).state], ['before', 'good'], 'kept after this was asked for');
  assert.deepEqual([since(undefined).continuity, since(undefined).state], ['unproven', 'open']);
  assert.equal(since(log.consistency(19, 30)).continuity, 'fork');
  const fork = new TestLog([...fixtures().entries.slice(0, 9), '{"other":1}', ...fixtures().entries.slice(10)], log.key);
  for (const consistency of [log.consistency(11, 20), fork.consistency(11, 20), { from: 11, to: 20, path: 'x' }, { from: 'x' }]) {
    const forked = step(at(20, { consistency }), kept(11, fork));
    assert.equal(forked.state, 'broken');
    assert.match(forked.text, /Fork/);
  }
  assert.equal(since(log.consistency(20, 30), kept(30, fork)).continuity, 'fork');
  const { path } = log.consistency(11, 20);
  path.forEach((_, i) => {
    const changed = path.map((one, j) => (i === j ? one.replace(/.$/, (digit) => (digit === '0' ? '1' : '0')) : one));
    assert.equal(step(at(20, { consistency: { from: 11, to: 20, path: changed } }), kept(11)).continuity, 'fork');
  });
});

const ruleOf = (checked: Checked) => checked.steps.find(({ name }) => name === 'rule')!;

test('the rule of a verdict is not checked here, and the commands that check it are named', () => {
  for (const seq of [clause, stage]) {
    const checked = checkEntry(materialOf(seq), pinned);
    const promotion = checked.entry!.subject.promotion!;
    assert.deepEqual([ruleOf(checked).state, checked.state], ['elsewhere', 'good']);
    assert.match(ruleOf(checked).text, /^The rule is not checked here/);
    assert.deepEqual(ruleOf(checked).commands, [
      `driftgate audit export --promotion ${promotion} --out ${promotion}.bundle`,
      `driftgate audit verify ${promotion}.bundle --trust trust.json`,
      `scripts/verify_bundle.py --trust trust.json ${promotion}.bundle`,
    ]);
    assert.equal(sentenceOf(checked), 'Verified in this browser; not checked here: rule of the verdict.');
    const unpinned = checkEntry(materialOf(seq), { keys: [], rotations: [] });
    assert.equal(sentenceOf(unpinned), 'What could be checked holds; not checked: signature of the head, rule of the verdict.');
  }
  const other = checkEntry(materialOf(0), pinned);
  assert.deepEqual([ruleOf(other).state, ruleOf(other).commands, sentenceOf(other)], ['none', [], 'Verified in this browser.']);
});

test('a verdict whose promotion has no name of the program’s gives no command', () => {
  const { subject } = JSON.parse(fixtures().entries[clause]!) as { subject: { promotion: string } };
  for (const name of ['pr-1; rm -r x', 'pr-$(x)', '-x', '']) {
    const entries = fixtures().entries.map((entry, at) => (at === clause ? entry.replace(`"promotion":"${subject.promotion}"`, `"promotion":"${name}"`) : entry));
    const forged = new TestLog(entries, log.key);
    const checked = checkEntry({ seq: clause, entry: forged.bytes[clause]!, proof: forged.proof(clause) }, pinned);
    assert.deepEqual([checked.entry?.subject.promotion, ruleOf(checked).state, ruleOf(checked).commands], [name, 'elsewhere', []]);
  }
});

test('answers of any form are broken or open, and never throw', () => {
  const random = numbersFrom(5);
  const odd: unknown[] = [undefined, null, 0, -1, 1.5, '', 'x', [], {}, [{}], true, '00'.repeat(32), 2 ** 53];
  for (let i = 0; i < 500; i++) {
    const pick = () => odd[random(odd.length)];
    const proof: Record<string, unknown> = { ...log.proof(clause) };
    for (const name of Object.keys(proof)) if (random(3) === 0) proof[name] = pick();
    const material = { ...materialOf(clause), proof: random(9) === 0 ? pick() : proof, consistency: pick() };
    const checked = checkEntry(material, { ...pinned, kept: { head: readHead(log.head(9)), seenUs: 0, signedBy: '' } });
    assert.notEqual(checked.state, 'good');
  }
});

test('a check takes no more than 50 ms', () => {
  const times = Array.from({ length: 21 }, (_, i) => checkEntry(materialOf(clause + i % 3), pinned).ms).sort((a, b) => a - b);
  assert.ok(times[10]! <= 50, `${times[10]} ms`);
});
