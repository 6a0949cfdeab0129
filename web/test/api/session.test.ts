import assert from 'node:assert/strict';
import { test } from 'node:test';
import { may, takeTokenOfFragment } from '../../src/api/session';
import { sessionOf } from '../promotion';

test('the token leaves the address at once', () => {
  const place = { hash: '#token=dg_a%2Bb', pathname: '/p/pr-1', search: '?x=1' } as Location;
  const replaced: unknown[] = [];
  const log = { state: null, replaceState: (...all: unknown[]) => replaced.push(all) } as unknown as History;
  assert.equal(takeTokenOfFragment(place, log), 'dg_a+b');
  assert.deepEqual(replaced, [[null, '', '/p/pr-1?x=1']]);
  assert.equal(takeTokenOfFragment({ ...place, hash: '#main' } as Location, log), null);
  assert.equal(replaced.length, 1, 'another fragment is left alone');
});

test('what a scope implies', () => {
  assert.equal(may('viewer', sessionOf('a', 'promoter')), true);
  assert.equal(may('auditor', sessionOf('a', 'admin')), true);
  assert.equal(may('approver', sessionOf('a', 'admin')), false);
  assert.equal(may('viewer', null), false);
});
