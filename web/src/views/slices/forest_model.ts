// Slices of a report as rows of a forest plot and of a heat map.
import { figuresOf, limitOf, sideOf, whereText, type ClauseVerdict, type Report, type Verdict } from '../promotion/report';

export interface ForestRow {
  slice: string;
  role: string;
  verdict: Verdict | null;
  estimate: number | null;
  lower: number | null;
  upper: number | null;
  rows: number;
  sequences: number;
  alpha: number | null;
  method: string;
  /** The average over everything is within the limit and this slice is not. */
  hidden: boolean;
  message: string;
}

export interface Forest {
  key: string;
  title: string;
  /** Worst first. */
  rows: ForestRow[];
  /** The figure over the whole corpus or all traffic. */
  overall: number | null;
  limit: number | null;
  side: 'above' | 'below';
}

export interface Choice {
  key: string;
  title: string;
}

const ofClause = (verdict: ClauseVerdict) => `${verdict.clause}|${verdict.limitKind}`;

/** What a forest can be drawn of: clauses that were tested on slices, then metrics of which slices have means. */
export function choicesOf(report: Report): Choice[] {
  const choices = new Map<string, Choice>();
  for (const verdict of report.verdicts) {
    if (Object.keys(verdict.where).length === 0) continue;
    const key = ofClause(verdict);
    const kind = verdict.limitKind === 'ratio_to_rest' ? ' against the rest' : '';
    choices.set(key, { key, title: `${verdict.clause}${kind}` });
  }
  for (const metric of metricsOf(report)) choices.set(`metric|${metric}`, { key: `metric|${metric}`, title: `mean ${metric}, without a test` });
  return [...choices.values()];
}

/** The choice for a clause of a link, or the one with the worst ranked slice, or the first. */
export function chooseBy(report: Report, wanted: string | null): string {
  const choices = choicesOf(report);
  const exact = choices.find(({ key }) => key === wanted) ?? choices.find(({ key }) => wanted !== null && key.startsWith(`${wanted}|`));
  if (exact) return exact.key;
  const worst = report.ranking[0];
  const ranked = worst && choices.find(({ key }) => key.startsWith(`${worst.clause}|`));
  return (ranked ?? choices.find(({ key }) => key === 'metric|tv') ?? choices[0])?.key ?? '';
}

/** All metrics of slices, the most telling first. */
export function metricsOf(report: Report): string[] {
  const names = new Set<string>();
  for (const slice of report.slices) for (const name of Object.keys(slice.metrics)) names.add(name);
  const rank = (name: string) => {
    const at = TELLING.indexOf(name);
    return at < 0 ? TELLING.length : at;
  };
  return [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

const TELLING = ['tv', 'kl_inf_train', 'kl_train_inf', 'js', 'hellinger2', 'top1_flip', 'log_ratio', 'logit_span', 'logit_max_abs', 'logit_rms', 'chi2', 'nonfinite'];

export function forestOf(report: Report, key: string): Forest {
  const metric = key.startsWith('metric|') ? key.slice('metric|'.length) : null;
  return metric === null ? ofVerdicts(report, key) : ofMetric(report, metric);
}

function ofVerdicts(report: Report, key: string): Forest {
  const sizes = new Map(report.slices.map((slice) => [whereText(slice.where), slice]));
  const hidden = new Set(report.ranking.filter((rank) => rank.hidden).map((rank) => `${rank.clause} ${whereText(rank.where)}`));
  const verdicts = report.verdicts.filter((verdict) => ofClause(verdict) === key);
  const whole = verdicts.find((verdict) => Object.keys(verdict.where).length === 0);
  const tested = verdicts.filter((verdict) => Object.keys(verdict.where).length > 0);
  const first = tested[0] ?? whole;
  const side = first ? sideOf(first) : 'above';
  const rows = tested.map((verdict): ForestRow => {
    const slice = whereText(verdict.where);
    const size = sizes.get(slice);
    return {
      slice,
      role: verdict.role || (size?.role ?? ''),
      verdict: verdict.verdict,
      estimate: verdict.estimate,
      lower: verdict.lower,
      upper: verdict.upper,
      rows: size?.rows ?? verdict.n,
      sequences: size?.sequences ?? verdict.clusters,
      alpha: verdict.alpha,
      method: verdict.method,
      hidden: hidden.has(`${verdict.clause} ${slice}`),
      message: verdict.message,
    };
  });
  const clause = key.slice(0, key.lastIndexOf('|'));
  return {
    key,
    title: clause,
    rows: worstFirst(rows, side),
    overall: whole?.estimate ?? first?.details['corpus_estimate'] ?? report.ranking.find((rank) => rank.clause === clause)?.corpus ?? null,
    limit: first ? limitOf(first) : null,
    side,
  };
}

function ofMetric(report: Report, metric: string): Forest {
  const mean = (slice: Report['slices'][number]) => {
    const figures = figuresOf(slice, metric);
    return figures?.sequenceMean ?? figures?.mean ?? null;
  };
  const whole = report.slices.find((slice) => Object.keys(slice.where).length === 0);
  const rows = report.slices
    .filter((slice) => Object.keys(slice.where).length > 0 && figuresOf(slice, metric))
    .map((slice): ForestRow => ({
      slice: whereText(slice.where), role: slice.role, verdict: null, estimate: mean(slice), lower: null, upper: null,
      rows: slice.rows, sequences: slice.sequences, alpha: null, method: '', hidden: false, message: '',
    }));
  return {
    key: `metric|${metric}`, title: `mean ${metric}`, rows: worstFirst(rows, 'above'), overall: whole ? mean(whole) : null, limit: null, side: 'above',
  };
}

/** By the limit that could be worst: the largest upper one, or the smallest lower one where small is bad. */
function worstFirst(rows: ForestRow[], side: 'above' | 'below'): ForestRow[] {
  const worst = (row: ForestRow) => (side === 'above' ? (row.upper ?? row.estimate) : negated(row.lower ?? row.estimate)) ?? -Infinity;
  return [...rows].sort((a, b) => {
    const [x, y] = [worst(a), worst(b)];
    if (x !== y) return x > y ? -1 : 1;
    return (b.estimate ?? -Infinity) - (a.estimate ?? -Infinity) || (a.slice < b.slice ? -1 : 1);
  });
}

const negated = (value: number | null) => (value === null ? null : -value);

/** Puts figures on a width. */
export interface Scale {
  low: number;
  high: number;
  at: (value: number) => number;
}

/** From all finite figures of a forest, zero, the overall figure and the limit, with a little room. */
export function scaleOf(forest: Forest, width: number): Scale {
  let low = 0;
  let high = 0;
  const take = (value: number | null) => {
    if (value === null || !Number.isFinite(value)) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  };
  for (const row of forest.rows) {
    take(row.estimate);
    take(row.lower);
    take(row.upper);
  }
  take(forest.overall);
  take(forest.limit);
  if (high === low) high = low + 1;
  const inset = 6;
  const at = (value: number) => {
    const part = (Math.min(high, Math.max(low, value)) - low) / (high - low);
    return Math.round((inset + part * (width - 2 * inset)) * 10) / 10;
  };
  return { low, high, at };
}

/** The side of a row's square: its area stands for its rows. */
export function squareOf(rows: number, most: number): number {
  if (most <= 0 || rows <= 0) return 3;
  return Math.round((3 + 8 * Math.sqrt(rows / most)) * 10) / 10;
}

/** Metrics of which more is worse; others are not coloured in a heat map. */
const WORSE = new Set([
  'tv', 'kl_inf_train', 'kl_train_inf', 'js', 'hellinger2', 'chi2', 'top1_flip', 'log_ratio', 'logit_span', 'logit_max_abs',
  'logit_rms', 'nonfinite',
]);

/** 0 to 5 by how many times the whole corpus's figure it is; 0 for metrics of which more is not worse. */
export function heatOf(metric: string, value: number | null, corpus: number | null): number {
  if (!WORSE.has(metric) || value === null || corpus === null) return 0;
  const [own, all] = [Math.abs(value), Math.abs(corpus)];
  if (all === 0) return own > 0 ? 5 : 0;
  const times = own / all;
  return [1.1, 1.4, 2, 3, 5].filter((edge) => times > edge).length;
}

export interface HeatRow {
  slice: string;
  role: string;
  rows: number;
  cells: { metric: string; value: number | null; heat: number }[];
}

/** Slice × metric: means of each metric, hottest slices first. The whole corpus comes before them. */
export function heatMapOf(report: Report, metrics: readonly string[]): HeatRow[] {
  const corpus = report.slices.find((slice) => Object.keys(slice.where).length === 0);
  const overall = new Map(metrics.map((metric) => [metric, corpus ? (figuresOf(corpus, metric)?.mean ?? null) : null]));
  const rows = report.slices.map((slice): HeatRow & { whole: boolean } => ({
    slice: whereText(slice.where),
    whole: slice === corpus,
    role: slice.role,
    rows: slice.rows,
    cells: metrics.map((metric) => {
      const value = figuresOf(slice, metric)?.mean ?? null;
      return { metric, value, heat: slice === corpus ? 0 : heatOf(metric, value, overall.get(metric) ?? null) };
    }),
  }));
  const warmth = (row: HeatRow) => row.cells.reduce((sum, cell) => sum + cell.heat, 0);
  return rows
    .sort((a, b) => Number(b.whole) - Number(a.whole) || warmth(b) - warmth(a) || (b.cells[0]?.value ?? 0) - (a.cells[0]?.value ?? 0))
    .map(({ whole: _, ...row }) => row);
}
