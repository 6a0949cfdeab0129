import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { readExplanation } from '../../src/views/contract/explain';

const real = globalThis.fetch;
afterEach(() => { globalThis.fetch = real; });

function answers(list: [number, object][]): () => number {
  let asked = 0;
  globalThis.fetch = () => {
    const [status, body] = list[Math.min(asked++, list.length - 1)]!;
    return Promise.resolve(new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } }));
  };
  return () => asked;
}

const busy: [number, object] = [503, { code: 'unavailable', detail: 'another contract is being explained' }];
const control = () => new AbortController().signal;

test('it asks again while another contract is being explained, and not for ever', async () => {
  let asked = answers([busy, busy, [200, { name: 'x' }]]);
  assert.deepEqual(await readExplanation('/v1/contracts/x/explain', control(), 1), { name: 'x' });
  assert.equal(asked(), 3);
  asked = answers([busy]);
  await assert.rejects(readExplanation('/v1/contracts/x/explain', control(), 1), /another contract/);
  assert.equal(asked(), 5);
});

test('other refusals, and an end by the reader, are not asked again', async () => {
  let asked = answers([[404, { code: 'not_found', detail: 'no such contract' }]]);
  await assert.rejects(readExplanation('/v1/contracts/x/explain', control(), 1), /no such contract/);
  assert.equal(asked(), 1);
  asked = answers([busy]);
  const stop = new AbortController();
  const reading = readExplanation('/v1/contracts/x/explain', stop.signal, 20);
  setTimeout(() => stop.abort(), 5);
  await assert.rejects(reading, { name: 'AbortError' });
  assert.equal(asked(), 1);
});
