import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SseParser } from '../../src/api/sse';

const STREAM = 'event: hello\ndata: {"tree_size":3}\n\n: heartbeat\n\nid: 4\r\nevent: state_changed\r\ndata: {"a":\r\ndata: 1}\r\n\r\ndata:x\n\nid: 5\n\n';
const EXPECTED = [
  { id: '', name: 'hello', data: '{"tree_size":3}' }, { id: '4', name: 'state_changed', data: '{"a":\n1}' }, { id: '', name: 'message', data: 'x' },
];

test('events are the same however the bytes are cut', () => {
  for (let size = 1; size <= STREAM.length; ++size) {
    const parser = new SseParser();
    const found = [];
    for (let at = 0; at < STREAM.length; at += size) found.push(...parser.take(STREAM.slice(at, at + size)));
    assert.deepEqual(found, EXPECTED, `in pieces of ${size}`);
  }
});

test('what is not whole yet is not told', () => {
  const parser = new SseParser();
  assert.deepEqual(parser.take('id: 1\ndata: a'), []);
  assert.deepEqual(parser.take('b\n'), []);
  assert.deepEqual(parser.take('\n'), [{ id: '1', name: 'message', data: 'ab' }]);
});

test('an event without an end is refused', () => {
  const parser = new SseParser();
  assert.throws(() => parser.take('x'.repeat((4 << 20) + 1)), /too long/);
  const lines = new SseParser();
  assert.throws(() => { for (let i = 0; i < 10; ++i) lines.take(`data: ${'y'.repeat(1 << 20)}\n`); }, /too long/);
});
