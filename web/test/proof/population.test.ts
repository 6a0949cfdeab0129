import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkCompleteness } from '../../src/proof/population';
import { parseKeys } from '../../src/proof/trust';
import { realLog, TestKey } from './log';

const log = realLog();
const keys = parseKeys(log.key.text);

/** What AuditPopulation says of a range, with heads of the newest size where the key of an end is retired. */
function answer(from: number, to: number, newest?: number) {
  const end = (size: number) => {
    const { root } = log.consistency(size, size);
    const proof = newest === undefined ? [] : log.consistency(size, newest).path;
    return { root, checkpoint: log.head(newest ?? size), continuation: proof };
  };
  const [first, last] = [end(from), end(to)];
  return { from_size: from, to_size: to, from_root: first.root, to_root: last.root, from_checkpoint: first.checkpoint, to_checkpoint: last.checkpoint,
    from_continuation: first.continuation, to_continuation: last.continuation, path: log.consistency(from, to).path };
}

const broken = (of: unknown) => checkCompleteness(of, keys, 0).filter(({ state }) => state === 'broken').map(({ name }) => name);

test('a range between two signed heads is whole, also through a newer head', () => {
  for (const [from, to] of [[1, 246], [9, 100], [50, 50], [0, 17]] as const) {
    assert.deepEqual(broken(answer(from, to)), []);
    if (from > 0) assert.deepEqual(broken(answer(from, to, 246)), []);
  }
  assert.equal(checkCompleteness(answer(9, 100), [], 0).find(({ name }) => name === 'signature')?.state, 'open');
});

test('a range that is not whole is broken', () => {
  const good = answer(9, 100);
  assert.deepEqual(broken({ ...good, path: good.path.slice(1) }), ['path']);
  assert.deepEqual(broken({ ...good, from_checkpoint: log.head(10) }), ['head']);
  assert.deepEqual(broken({ ...good, to_root: good.from_root }), ['path', 'head']);
  assert.deepEqual(broken({ ...good, to_size: 99 }), ['head']);
  assert.deepEqual(broken({ ...good, to_checkpoint: log.head(100, TestKey.fresh('driftgate.local/log')) }), ['signature']);
  const newer = answer(9, 100, 246);
  assert.deepEqual(broken({ ...newer, from_continuation: newer.to_continuation }), ['head']);
  for (const odd of [null, 1, {}, { ...good, path: 'x' }, { ...good, from_root: 'zz' }, { ...good, to_checkpoint: '' }]) assert.deepEqual(broken(odd), ['path']);
});

test('a key that was retired before the range ended vouches for no end, and no range is more than open', () => {
  const [key] = keys;
  const at = (newestUs: number) => checkCompleteness(answer(9, 100), [{ ...key!, untilUs: 1000 }], newestUs);
  assert.equal(at(999).find(({ name }) => name === 'signature')?.state, 'good');
  assert.equal(at(1000).find(({ name }) => name === 'signature')?.state, 'broken');
  assert.equal(checkCompleteness(answer(50, 50), keys, 0).find(({ name }) => name === 'entry')?.state, 'open');
});
