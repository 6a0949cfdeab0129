// Requests and latency of both arms over time.
import { extent, increasing, type ChartModel } from './model';
import { clockText, count, figure } from './numbers';
import type { Quantiles, Series, SeriesPoint } from './series';

const timeAxis = (points: readonly SeriesPoint[]): ChartModel['x'] => {
  const first = points[0];
  const last = points[points.length - 1];
  const long = first !== undefined && last !== undefined && last.time - first.time > 86_400;
  return { kind: 'time', label: 'Time', format: (value) => clockText(value, long) };
};

const byTime = (series: Series): SeriesPoint[] => increasing(series.points, (point) => point.time);

/** Counts are since the point before, and points are unevenly apart: per second they can be compared. */
function perSecond(points: readonly SeriesPoint[], pick: (point: SeriesPoint) => number): (number | null)[] {
  return points.map((point, at) => {
    const before = points[at - 1];
    return before ? pick(point) / (point.time - before.time) : null;
  });
}

/** Requests of each arm per second, and those that failed. */
export function requestsModel(series: Series): ChartModel {
  const points = byTime(series);
  const sum = (pick: (point: SeriesPoint) => number) => series.points.reduce((total, point) => total + pick(point), 0);
  const candidate = sum((point) => point.requests.candidate);
  const incumbent = sum((point) => point.requests.incumbent);
  const failedHere = sum((point) => point.failures.candidate);
  const failedThere = sum((point) => point.failures.incumbent);
  const failed = failedHere + failedThere > 0;
  const lists = [
    perSecond(points, (point) => point.requests.candidate),
    perSecond(points, (point) => point.requests.incumbent),
    ...(failed ? [perSecond(points, (point) => point.failures.candidate), perSecond(points, (point) => point.failures.incumbent)] : []),
  ];
  const most = extent(lists)?.[1] ?? 1;
  return {
    name: 'Requests by arm',
    summary:
      `The candidate answered ${count(candidate)} requests, of which ${count(failedHere)} failed; ` +
      `the incumbent answered ${count(incumbent)}, of which ${count(failedThere)} failed.`,
    x: timeAxis(points),
    y: { kind: 'linear', label: 'Requests per second', range: [0, Math.max(1, most) * 1.08], format: figure },
    lines: [
      { label: 'Candidate', role: 'candidate', shape: 'step' },
      { label: 'Incumbent', role: 'incumbent', shape: 'step' },
      ...(failed
        ? [
            { label: 'Candidate failed', role: 'harm' as const, shape: 'step' as const },
            { label: 'Incumbent failed', role: 'other' as const, shape: 'step' as const, dashed: true },
          ]
        : []),
    ],
    bands: [],
    levels: [],
    marks: [],
    xs: points.map((point) => point.time),
    ys: lists,
  };
}

const LATENCY_NAMES: Record<string, string> = {
  ttft_ms: 'Time to the first token',
  inter_token_ms: 'Gap between tokens',
  total_ms: 'Time to the last byte',
};

/** The latency metrics of which any window has quantiles. */
export function latencyMetrics(series: Series): string[] {
  const names = new Set<string>();
  for (const point of series.points) {
    for (const [metric, arms] of Object.entries(point.latency)) {
      if (arms.candidate || arms.incumbent) names.add(metric);
    }
  }
  return [...names].sort();
}

function quantilesText(name: string, of: Quantiles): string {
  if (!of) return `${name}: too few answers`;
  return `${name}: p50 ${figure(of[0])} ms, p90 ${figure(of[1])} ms, p99 ${figure(of[2])} ms`;
}

/** p50, p90 and p99 of one latency in both arms. */
export function latencyModel(series: Series, metric: string): ChartModel {
  const points = byTime(series);
  const pick = (arm: 'candidate' | 'incumbent', at: 0 | 1 | 2) =>
    points.map((point) => point.latency[metric]?.[arm]?.[at] ?? null);
  const lists = [
    pick('candidate', 0), pick('candidate', 1), pick('candidate', 2),
    pick('incumbent', 0), pick('incumbent', 1), pick('incumbent', 2),
  ];
  const last = [...points].reverse().find((point) => point.latency[metric]);
  const high = extent(lists)?.[1] ?? 1;
  return {
    name: `${LATENCY_NAMES[metric] ?? metric}: quantiles of both arms`,
    summary: last
      ? `Newest window. ${quantilesText('Candidate', last.latency[metric]?.candidate ?? null)}. ` +
        `${quantilesText('Incumbent', last.latency[metric]?.incumbent ?? null)}.`
      : 'No latency has been measured yet.',
    x: timeAxis(points),
    y: { kind: 'linear', label: 'ms', range: [0, high * 1.08], format: figure },
    lines: [
      { label: 'Candidate p50', role: 'candidate', shape: 'line' },
      { label: 'Candidate p90', role: 'candidate', shape: 'line', faint: true },
      { label: 'Candidate p99', role: 'candidate', shape: 'line', dashed: true },
      { label: 'Incumbent p50', role: 'incumbent', shape: 'line' },
      { label: 'Incumbent p90', role: 'incumbent', shape: 'line', faint: true },
      { label: 'Incumbent p99', role: 'incumbent', shape: 'line', dashed: true },
    ],
    bands: [],
    levels: [],
    marks: [],
    xs: points.map((point) => point.time),
    ys: lists,
  };
}
