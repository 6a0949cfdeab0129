import assert from 'node:assert/strict';
import { test } from 'node:test';
import { match, segment } from '../../src/app/router';
import { routeOf } from '../../src/app/routes';

test('patterns', () => {
  assert.deepEqual(match('/', '/'), {});
  assert.deepEqual(match('/p/:id', '/p/pr-1'), { id: 'pr-1' });
  assert.equal(match('/p/:id', '/p/pr-1/slices'), null);
  assert.equal(match('/p/:id', '/p/'), null);
  assert.deepEqual(match('/models/*name', '/models/team%2Fa/b'), { name: 'team/a/b' });
  assert.equal(match('/models/*name', '/models/'), null);
  assert.equal(match('/p/:id', '/p/%ff'), null, 'no valid percent-encoding');
});

test('a name survives being a segment', () => {
  for (const name of ['a/b', 'sha256:00', 'a b?c#d', '<script>', '\u202eabc', '100%']) {
    assert.deepEqual(match('/models/*name', `/models/${segment(name)}`), { name });
  }
});

test('every address has its view', () => {
  const titles = { '/': 'Models and promotions', '/p/pr-1/slices': 'Slices', '/c/': 'Contracts', '/c/sha256:00': 'Contract', '/health': 'Health' };
  for (const [path, title] of Object.entries(titles)) assert.equal(routeOf(path)?.route.title, title);
  assert.equal(routeOf('/nothing'), null);
});
