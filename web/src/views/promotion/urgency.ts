// The order in which live clauses stand.
import type { ClauseSeries } from '../../charts/series';

const RANK: Record<string, number> = { violated: 0, error: 1, inconclusive: 2, pass: 3 };

/** Tells the tests of a promotion apart. */
export const keyOf = (series: ClauseSeries) => `${series.clause}\u0000${series.slice}\u0000${series.limitKind}`;

/** Failing first, then by how near the e-value of harm is to its level. */
export function byUrgency(clauses: readonly ClauseSeries[]): ClauseSeries[] {
  const last = (series: ClauseSeries) => series.points[series.points.length - 1];
  const rank = (series: ClauseSeries) => RANK[last(series)?.verdict ?? ''] ?? 2;
  const near = (series: ClauseSeries) => (last(series)?.eValue ?? 0) / (series.harmNeeded ?? 1);
  return [...clauses].sort((a, b) => rank(a) - rank(b) || near(b) - near(a) || (keyOf(a) < keyOf(b) ? -1 : 1));
}
