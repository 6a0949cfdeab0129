import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ago, count, duration, num, percent, plural, toNumber, utc } from '../../src/ui/format';

test('durations are told in their two largest units', () => {
  assert.equal(duration(0), '0 s');
  assert.equal(duration(59.4), '59 s');
  assert.equal(duration(60), '1 min');
  assert.equal(duration(93_784), '1 d 2 h');
  assert.equal(duration(3605), '1 h');
  assert.equal(duration(-5), '0 s');
});

test('ages and what is to come', () => {
  const now = 1_700_000_000_000;
  assert.equal(ago(now * 1000, now), 'just now');
  assert.equal(ago((now - 200_000) * 1000, now), '3 min ago');
  assert.equal(ago((now + 7_200_000) * 1000, now), 'in 2 h');
});

test('times keep their microseconds', () => {
  assert.equal(utc(1_700_000_000_123_456), '2023-11-14T22:13:20.123456Z');
  assert.equal(utc(NaN), 'not a time');
});

test('shares are basis points', () => {
  assert.equal(percent(1250), '12.5%');
  assert.equal(percent(10_000), '100%');
  assert.equal(percent(1), '0.01%');
});

test('numbers that are not finite have signs of their own, and none is a zero', () => {
  assert.equal(num('inf'), '∞');
  assert.equal(num('-inf'), '−∞');
  assert.equal(num('nan'), 'not a number');
  assert.equal(num('Infinity'), '∞');
  assert.equal(num('-Infinity'), '−∞');
  assert.equal(num('NaN'), 'not a number');
  assert.equal(num(null), '–');
  assert.equal(num(0), '0');
  assert.equal(num(-0.123456), '−0.1235');
  assert.equal(num(8.648e13), '8.648e+13');
  assert.equal(num(12345.6), '12\u202f350');
  assert.equal(count(1_234_567), '1\u202f234\u202f567');
  assert.ok(Number.isNaN(toNumber('nan')));
  assert.equal(toNumber('inf'), Infinity);
  assert.equal(toNumber('-Infinity'), -Infinity);
  assert.ok(Number.isNaN(toNumber('NaN')));
});

test('plurals', () => {
  assert.equal(plural(1, 'promotion'), '1 promotion');
  assert.equal(plural(0, 'promotion'), '0 promotions');
});
