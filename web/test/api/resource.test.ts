import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readRest } from '../../src/api/resource';

test('what follows the first page is read from its cursor, as far as it was shown', async () => {
  const pages: Record<string, { items: number[]; next: string | null }> = { a: { items: [3, 4], next: 'b' }, b: { items: [5, 6], next: 'c' }, c: { items: [7], next: null } };
  const asked: string[] = [];
  const realFetch = globalThis.fetch;
  globalThis.fetch = (async (path: string) => {
    asked.push(path);
    const after = new URLSearchParams(path.split('?')[1]).get('after') ?? '';
    return new Response(JSON.stringify(pages[after]), { headers: { 'Content-Type': 'application/json' } });
  }) as typeof fetch;
  const signal = new AbortController().signal;
  try {
    assert.deepEqual(await readRest('/v1/x?q=m', 2, 'a', 3, signal), { items: [3, 4, 5, 6], next: 'c' });
    assert.deepEqual(asked, ['/v1/x?q=m&limit=2&after=a', '/v1/x?q=m&limit=2&after=b']);
    assert.deepEqual(await readRest('/v1/x', 2, 'a', 9, signal), { items: [3, 4, 5, 6, 7], next: null });
    assert.deepEqual(await readRest('/v1/x', 2, null, 2, signal), { items: [], next: null }, 'the first page has everything now');
  } finally {
    globalThis.fetch = realFetch;
  }
});
