import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logGamma, rateInterval } from '../../src/charts/mixture';

test('log Γ is that of factorials and of ½', () => {
  for (const [x, value] of [[1, 0], [2, 0], [5, Math.log(24)], [0.5, Math.log(Math.PI) / 2], [101, 363.73937555556349]] as const) {
    assert.ok(Math.abs(logGamma(x) - value) < 1e-9, `${x}: ${logGamma(x)}`);
  }
});

test('the interval ends where the mixture is 1/α times likelier than the rate', () => {
  // With no failure of n the upper limit solves (1 − p)^n = α B(½, n + ½) / B(½, ½).
  const upper = rateInterval(0, 100, 0.05).upper;
  const mixture = Math.exp(logGamma(0.5) + logGamma(100.5) - logGamma(101)) / Math.PI;
  assert.ok(Math.abs((1 - upper) ** 100 - 0.05 * mixture) < 1e-12);
  assert.deepEqual(rateInterval(0, 5, 0.05).lower, 0);
  assert.deepEqual(rateInterval(5, 5, 0.05).upper, 1);
});

test('over a whole run it misses the true rate no more often than α', () => {
  let seed = 12345;
  const uniform = () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
  const alpha = 0.2;
  let missed = 0;
  for (let run = 0; run < 300; ++run) {
    let failed = 0;
    for (let n = 1; n <= 300; ++n) {
      failed += uniform() < 0.1 ? 1 : 0;
      const { lower, upper } = rateInterval(failed, n, alpha);
      if (lower > 0.1 || upper < 0.1) {
        missed += 1;
        break;
      }
    }
  }
  assert.ok(missed / 300 <= alpha, `${missed} of 300`);
  assert.ok(missed > 0, 'so wide that it never misses');
});
