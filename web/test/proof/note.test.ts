import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HeadShelf, judgeContinuity, type Shelf } from '../../src/proof/heads';
import { NoHead, parseVerifierKey, readHead, verifierKeyText } from '../../src/proof/note';
import { judgeSignature, keysAt, keysText, NoKeys, parseKeys, parseStoredKeys, withRotations } from '../../src/proof/trust';
import { fixtures, realLog, TestKey } from './log';

const NAME = 'driftgate.local/log';
const log = realLog();

test('the signed head of a real folder verifies under its trust file and under its verifier key', () => {
  const { head, trust } = fixtures();
  const read = readHead(head);
  assert.equal(read.size, 246);
  for (const text of [JSON.stringify(trust), log.key.text]) {
    const keys = parseKeys(text);
    assert.equal(judgeSignature(read, keys, 0).state, 'good');
    assert.deepEqual(parseStoredKeys(keysText(keys)), keys);
  }
  assert.equal(judgeSignature(read, [], 0).state, 'no key');
  assert.equal(judgeSignature(read, parseKeys(TestKey.fresh(NAME).text), 0).state, 'other key');
  assert.equal(judgeSignature(read, parseKeys(TestKey.fresh('another/log').text), 0).state, 'other log');
  assert.equal(read.note, head);
});

test('no head with a changed byte verifies', () => {
  const bytes = Buffer.from(fixtures().head);
  const keys = parseKeys(log.key.text);
  for (let at = 0; at < bytes.length; at++) {
    for (const bit of [1, 2, 16, 64, 128]) {
      const changed = Buffer.from(bytes);
      changed[at]! ^= bit;
      try {
        const signed = judgeSignature(readHead(new TextDecoder().decode(changed)), keys, 0);
        assert.notEqual(signed.state, 'good', `byte ${at}, bit ${bit}`);
      } catch (error) {
        assert.ok(error instanceof NoHead, String(error));
      }
    }
  }
});

test('other forms of heads are refused', () => {
  const good = log.head();
  const [text = '', signature = ''] = good.split('\n\n');
  for (const note of ['', text, `${text}\n\n`, `${text}\n${signature}`, good.slice(0, -1), good.replace('\n246\n', '\n0246\n'), good.replace('\n246\n', '\n-1\n'),
    good.replace('— ', '- '), `${good}${signature}`, good.replace('log\n', 'log\r\n'), good.replace('\n246', '\n\n246'), `${good}\n`, good.padEnd(20_000, ' '),
    good.replace('\n\n', `\n\n${`— a AAAAAAAA\n`.repeat(101)}`)]) {
    assert.throws(() => readHead(note), NoHead, JSON.stringify(note.slice(0, 200)));
  }
  const extended = `${text}\nan extension\n`;
  assert.equal(judgeSignature(readHead(`${extended}\n${log.key.signature(extended)}`), parseKeys(log.key.text), 0).state, 'good');
  const cosigned = good + TestKey.fresh('witness').signature(`${text}\n`);
  assert.equal(judgeSignature(readHead(cosigned), parseKeys(log.key.text), 0).state, 'good');
});

test('verifier keys', () => {
  const { name, key } = parseVerifierKey(log.key.text)!;
  assert.equal(verifierKeyText(name, key), log.key.text);
  assert.equal(parseVerifierKey('sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8')?.name, 'sum.golang.org');
  const text = log.key.text;
  for (const at of [0, 3, NAME.length + 1, NAME.length + 12, text.length - 4]) {
    const other = text.slice(0, at) + (text[at] === 'a' ? 'b' : 'a') + text.slice(at + 1);
    assert.equal(parseVerifierKey(other), undefined, other);
  }
  for (const wrong of ['', 'no key', '{}', '{"v":1,"keys":[]}', '{"v":2,"keys":[{}]}', `${text}\nnonsense`,
    JSON.stringify({ v: 1, keys: [{ use: 'head', name: NAME, key: 'AAAA', from_us: 0 }] }),
    JSON.stringify({ v: 1, keys: [{ use: 'head', name: NAME, key: Buffer.alloc(32).toString('base64'), more: 1 }] })]) {
    assert.throws(() => parseKeys(wrong), NoKeys, wrong);
  }
});

test('rotations', () => {
  const [first, second] = [TestKey.fresh(NAME), TestKey.fresh(NAME)];
  const trust = parseKeys(JSON.stringify({ v: 1, keys: [
    { use: 'head', name: NAME, key: Buffer.from(first.raw).toString('base64'), from_size: 0, from_us: 1, until_us: 500 },
    { use: 'head', name: NAME, key: Buffer.from(second.raw).toString('base64'), from_size: 10, from_us: 500 }] }));
  const by = (key: TestKey, size: number, newestUs = 100) => judgeSignature(readHead(log.head(size, key)), trust, newestUs).state;
  assert.equal(by(first, 9), 'good');
  assert.equal(by(second, 9), 'other key');
  assert.equal(by(first, 10), 'good', 'at its size both may have signed');
  assert.equal(by(second, 10), 'good');
  assert.equal(by(first, 11), 'other key');
  assert.equal(by(second, 11, 900), 'good');
  assert.equal(by(first, 9, 500), 'retired');
  assert.deepEqual(keysAt(trust, 'another', 9), []);

  // With verifier keys alone, the log's own entries say when one ended; they never bring a new key.
  const rotation = { name: NAME, oldId: first.text.split('+')[1]!, newId: second.text.split('+')[1]!, newKey: second.text, fromSize: 10, timeUs: 500 };
  const one = withRotations(parseKeys(first.text), [rotation]);
  assert.equal(one.length, 1);
  assert.equal(judgeSignature(readHead(log.head(9, first)), one, 499).state, 'good');
  assert.equal(judgeSignature(readHead(log.head(12, first)), one, 600).state, 'retired');
  assert.equal(judgeSignature(readHead(log.head(12, second)), one, 600).state, 'other key');
  const both = withRotations(parseKeys(`${first.text}\n${second.text}`), [rotation]);
  assert.equal(judgeSignature(readHead(log.head(12, second)), both, 600).state, 'good');
});

class Memory implements Shelf {
  readonly kept = new Map<string, string>();
  getItem(key: string) { return this.kept.get(key) ?? null; }
  setItem(key: string, value: string) { this.kept.set(key, value); }
  removeItem(key: string) { this.kept.delete(key); }
}

test('what a head is beside the kept one', () => {
  const at = (size: number) => readHead(log.head(size));
  const proof = (from: number, to: number) => ({ from, to, path: log.consistency(from, to).path.map((one) => Uint8Array.from(Buffer.from(one, 'hex'))) });
  assert.equal(judgeContinuity(undefined, at(5), undefined), 'first');
  assert.equal(judgeContinuity(at(5), at(5), undefined), 'same');
  assert.equal(judgeContinuity(at(5), at(9), proof(5, 9)), 'continues');
  assert.equal(judgeContinuity(at(5), at(9), undefined), 'unproven');
  assert.equal(judgeContinuity(at(9), at(5), proof(5, 9)), 'rollback');
  assert.equal(judgeContinuity(at(5), at(9), proof(6, 9)), 'fork');
  assert.equal(judgeContinuity(at(5), at(9), { ...proof(5, 9), path: proof(5, 9).path.slice(1) }), 'fork');
  const other = TestKey.fresh('another/log');
  assert.equal(judgeContinuity(readHead(log.head(5, other)), at(9), proof(5, 9)), 'other log');
  const rewritten = readHead(log.head(5).replace(/\n[A-Za-z0-9+/]{43}=\n/, `\n${Buffer.alloc(32).toString('base64')}\n`));
  assert.equal(judgeContinuity(rewritten, at(5), undefined), 'fork');
});

test('heads and keys are kept by log, and damaged ones are passed over', () => {
  const memory = new Memory();
  const shelf = new HeadShelf(memory);
  assert.deepEqual(shelf.all(), []);
  assert.ok(shelf.keep({ head: readHead(log.head(5)), seenUs: 1, signedBy: 'x' }));
  assert.ok(shelf.keep({ head: readHead(log.head(9)), seenUs: 2, signedBy: 'x' }));
  const other = TestKey.fresh('another/log');
  assert.ok(shelf.keep({ head: readHead(log.head(7, other)), seenUs: 3, signedBy: '' }));
  assert.deepEqual(shelf.all().map(({ head }) => head.size), [7, 9]);
  assert.equal(shelf.find(NAME)?.head.size, 9);
  shelf.forget('another/log');
  assert.deepEqual(shelf.all().map(({ head }) => head.size), [9]);
  memory.setItem('driftgate.heads', '[{"note":"x","seenUs":1,"signedBy":""}]');
  assert.deepEqual(shelf.all(), []);
  memory.setItem('driftgate.heads', '{');
  assert.deepEqual(shelf.all(), []);
  shelf.pin(log.key.text);
  assert.equal(shelf.keysText(), log.key.text);
  shelf.unpin();
  assert.equal(shelf.keysText(), '');
  const full: Shelf = { getItem: () => { throw new Error('denied'); }, setItem: () => { throw new Error('full'); }, removeItem: () => { throw new Error('denied'); } };
  const none = new HeadShelf(full);
  assert.deepEqual([none.all(), none.keysText(), none.pin('x'), none.keep({ head: readHead(log.head(5)), seenUs: 1, signedBy: '' })], [[], '', false, false]);
});

test('a key pinned as a line stays one of which nobody said when it began, beside a trust file', () => {
  const [line, filed] = [TestKey.fresh('driftgate.local/log'), TestKey.fresh('driftgate.local/log')];
  const trust = { v: 1, keys: [{ use: 'head', name: filed.name, key: Buffer.from(filed.raw).toString('base64'), from_size: 10, until_us: 7 }] };
  const keys = [...parseKeys(line.text), ...parseKeys(JSON.stringify(trust))];
  const again = parseStoredKeys(keysText(keys));
  assert.deepEqual(again, keys);
  assert.equal(again[0]!.fromSize, undefined);
  assert.equal(keysAt(again, line.name, 20).length, 2, 'both may have signed');
  delete (trust.keys[0] as { from_size?: number }).from_size;
  assert.equal(parseKeys(JSON.stringify(trust))[0]!.fromSize, 0, 'a person’s file says 0 by leaving it out');
});
