// The confidence sequence and the e-values of one live clause, over the number of observations.
import { decades, extent, increasing, padded, type ChartModel, type Level } from './model';
import { isRate, withIntervals } from './mixture';
import { count, figure } from './numbers';
import type { ClausePoint, ClauseSeries } from './series';

/** On which side of its limit a figure breaks the clause. */
export function badSide(limitKind: string): 'above' | 'below' {
  return ['min', 'min_count', 'min_coverage', 'non_inferiority_margin'].includes(limitKind) ? 'below' : 'above';
}

/** Where the limit lies on the axis of the estimate; a margin of m is broken below −m. */
export function limitAt(limitKind: string, threshold: number | null): number | null {
  if (threshold === null) return null;
  return limitKind === 'non_inferiority_margin' ? -threshold : threshold;
}

export function clauseTitle(series: ClauseSeries): string {
  return series.slice ? `${series.clause} on ${series.slice}` : series.clause;
}

function byCount(series: ClauseSeries): ClausePoint[] {
  return increasing(
    series.points.filter((point) => point.n >= 1),
    (point) => point.n,
  );
}

const nAxis = (points: readonly ClausePoint[]): ChartModel['x'] => ({
  kind: 'log',
  label: 'n',
  format: count,
  ...(points.length > 0 ? { range: rangeOfCounts(points) } : {}),
});

function rangeOfCounts(points: readonly ClausePoint[]): [number, number] {
  const first = (points[0] as ClausePoint).n;
  const last = (points[points.length - 1] as ClausePoint).n;
  return first === last ? [first / 2, first * 2] : [first, last];
}

function intervalText(point: ClausePoint): string {
  if (point.lower === null && point.upper === null) return '';
  return ` (between ${figure(point.lower ?? -Infinity)} and ${figure(point.upper ?? Infinity)})`;
}

/** Infinite limits are drawn at the edge of what is shown. */
function clamp(values: (number | null)[], [low, high]: [number, number]): (number | null)[] {
  return values.map((value) => (value === null ? null : Math.min(high, Math.max(low, value))));
}

export function confidenceModel(series: ClauseSeries): ChartModel {
  const fromCounts = isRate(series);
  const points = fromCounts ? withIntervals(byCount(series), series.alpha as number) : byCount(series);
  const limit = limitAt(series.limitKind, series.threshold);
  const lists = [points.map((point) => point.estimate), points.map((point) => point.upper), points.map((point) => point.lower)];
  const range = padded(extent(lists, limit === null ? [] : [limit]) ?? [0, 1]);
  const banded = points.some((point) => point.lower !== null || point.upper !== null);
  // What the decision did not use is never labelled as if it had.
  const source = fromCounts ? ', by this page from the counts' : '';
  const last = points[points.length - 1];
  const levels: Level[] =
    limit === null
      ? []
      : [{ value: limit, label: `Limit ${figure(limit)}`, role: 'limit', shade: badSide(series.limitKind) }];
  return {
    name: fromCounts ? `Failure rate of ${clauseTitle(series)}, with limits by this page` : `Confidence sequence of ${clauseTitle(series)}`,
    summary: last
      ? `After ${count(last.n)} ${fromCounts ? 'keys' : 'observations'} the estimate is ${figure(last.estimate)}${intervalText(last)}` +
        `${limit === null ? '' : `; the limit is ${figure(limit)}`}. Verdict: ${last.verdict || 'none yet'}.` +
        (fromCounts ? ' The band is computed by this page from the counts (beta-binomial mixture); the decision is by the e-values.' : '')
      : 'Nothing has been observed yet.',
    x: { ...nAxis(points), ...(fromCounts ? { label: 'keys' } : {}) },
    y: { kind: 'linear', label: 'Figure', range, format: figure },
    lines: [
      { label: 'Estimate', role: 'estimate', shape: 'line' },
      ...(banded
        ? [
            { label: `Upper limit${source}`, role: 'estimate' as const, shape: 'line' as const, faint: true },
            { label: `Lower limit${source}`, role: 'estimate' as const, shape: 'line' as const, faint: true },
          ]
        : []),
    ],
    bands: banded ? [{ upper: 1, lower: 2, role: 'estimate' }] : [],
    levels,
    marks: [],
    xs: points.map((point) => point.n),
    ys: (banded ? lists : lists.slice(0, 1)).map((values) => clamp(values, range)),
  };
}

const LEAST_E = 1e-4;
const MOST_E = 1e12;

function logValue(value: number | null): number | null {
  if (value === null) return null;
  return Math.min(MOST_E, Math.max(LEAST_E, value));
}

function eSentence(what: string, value: number | null, needed: number | null): string {
  if (value === null) return '';
  const of = needed === null ? '' : ` of ${figure(needed)} needed`;
  return `The e-value of ${what} is ${figure(value)}${of}${needed !== null && value >= needed ? ', which is reached' : ''}.`;
}

export function eValueModel(series: ClauseSeries): ChartModel {
  const points = byCount(series);
  const harm = points.map((point) => logValue(point.eValue));
  const proof = points.map((point) => logValue(point.eProof));
  const levels: Level[] = [];
  if (series.harmNeeded !== null) {
    levels.push({ value: series.harmNeeded, label: `Harm is shown at ${figure(series.harmNeeded)}`, role: 'harm' });
  }
  if (series.proofNeeded !== null) {
    levels.push({ value: series.proofNeeded, label: `Proof is reached at ${figure(series.proofNeeded)}`, role: 'proof' });
  }
  const [low, high] = extent([harm, proof], [0.1, ...levels.map((level) => level.value)]) ?? [0.1, 10];
  const last = points[points.length - 1];
  const said = last
    ? [eSentence('harm', last.eValue, series.harmNeeded), eSentence('proof', last.eProof, series.proofNeeded)]
    : ['Nothing has been observed yet.'];
  return {
    name: `e-values of ${clauseTitle(series)}`,
    summary: said.filter((sentence) => sentence !== '').join(' ') || 'This clause has no e-value yet.',
    x: nAxis(points),
    y: { kind: 'log', label: 'e-value', range: decades(low, high), format: figure },
    lines: [
      { label: 'Harm', role: 'harm', shape: 'line' },
      ...(proof.some((value) => value !== null)
        ? [{ label: 'Proof', role: 'proof' as const, shape: 'line' as const }]
        : []),
    ],
    bands: [],
    levels,
    marks: [],
    xs: points.map((point) => point.n),
    ys: proof.some((value) => value !== null) ? [harm, proof] : [harm],
  };
}

/** Whether any point has an e-value. */
export function hasEValues(series: ClauseSeries): boolean {
  return series.points.some((point) => point.eValue !== null || point.eProof !== null);
}

/** Whether there is an estimate to draw. */
export function hasEstimates(series: ClauseSeries): boolean {
  return series.points.some((point) => point.estimate !== null && point.n >= 1);
}
