// A confidence sequence for the rate of independent failures, from counts alone: the daemon decides rates by e-values and
// keeps no interval, and people ask for one. It holds for all n at once at level 1 − α (the beta-binomial mixture with
// the weights of Beta(½, ½): Robbins 1970; Howard, Ramdas, McAuliffe, Sekhon 2021).
import type { ClausePoint, ClauseSeries } from './series';

const COEFFICIENTS = [
  676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905, -0.13857109526572012,
  9.9843695780195716e-6, 1.5056327351493116e-7,
];

/** log Γ(x) for x > 0, by Lanczos. */
export function logGamma(x: number): number {
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const y = x - 1;
  let sum = 0.99999999999980993;
  for (let i = 0; i < COEFFICIENTS.length; ++i) sum += (COEFFICIENTS[i] as number) / (y + i + 1);
  const t = y + COEFFICIENTS.length - 0.5;
  return 0.5 * Math.log(2 * Math.PI) + (y + 0.5) * Math.log(t) - t + Math.log(sum);
}

function logBeta(a: number, b: number): number {
  return logGamma(a) + logGamma(b) - logGamma(a + b);
}

/** The rates that `failed` of `n` do not refute at level 1 − α. */
export function rateInterval(failed: number, n: number, alpha: number): { lower: number; upper: number } {
  const passed = n - failed;
  const mixture = logBeta(failed + 0.5, passed + 0.5) - logBeta(0.5, 0.5);
  const needed = -Math.log(alpha);
  // log of the e-value against the rate p; it falls up to failed / n and rises after it.
  const logE = (p: number) => mixture - (failed > 0 ? failed * Math.log(p) : 0) - (passed > 0 ? passed * Math.log1p(-p) : 0);
  const middle = failed / n;
  const edge = (from: number, to: number) => {
    let [inside, outside] = [from, to];
    for (let i = 0; i < 50; ++i) {
      const half = (inside + outside) / 2;
      if (logE(half) >= needed) outside = half;
      else inside = half;
    }
    return (inside + outside) / 2;
  };
  return { lower: failed === 0 ? 0 : edge(middle, 0), upper: failed === n ? 1 : edge(middle, 1) };
}

const kept = new Map<string, { lower: number; upper: number }>();
const KEPT = 5000;

/** Whether the series is a rate whose interval can be had from its counts: the daemon's `max` of failures counts the first
 * request of each key, so that n, the clusters and the trials are all keys. */
export function isRate(series: ClauseSeries): boolean {
  return (
    series.rule === 'e_value' && series.limitKind === 'max' && series.alpha !== null && series.alpha > 0 && series.alpha < 1 &&
    series.points.every((point) => point.n === point.clusters && point.lower === null && point.upper === null && (point.estimate === null || (point.estimate >= 0 && point.estimate <= 1)))
  );
}

/** The points with the interval of their counts. */
export function withIntervals(points: readonly ClausePoint[], alpha: number): ClausePoint[] {
  return points.map((point) => {
    if (point.estimate === null || point.n < 1) return point;
    const failed = Math.round(point.estimate * point.n);
    const key = `${failed} ${point.n} ${alpha}`;
    let interval = kept.get(key);
    if (!interval) {
      interval = rateInterval(failed, point.n, alpha);
      if (kept.size >= KEPT) kept.clear();
      kept.set(key, interval);
    }
    return { ...point, ...interval };
  });
}
