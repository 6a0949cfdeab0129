// A stage's report as the page reads it, and the order and wording of its verdicts.
import { readFigures, readHead, type ClauseFigures, type ClauseHead, type Json } from '../../charts/clause';
import { badSide, limitAt } from '../../charts/confidence';
import { count, figure, num } from '../../charts/numbers';
import type { ClauseSeries } from '../../charts/series';

export type Verdict = 'pass' | 'violated' | 'inconclusive' | 'error';
export type Where = Record<string, string>;

export interface ClauseVerdict extends ClauseHead, ClauseFigures {
  where: Where;
  role: string;
  verdict: Verdict;
  pValue: number | null;
  method: string;
  approximate: boolean;
  noHarmOnly: boolean;
  details: Record<string, number>;
  message: string;
}

export interface BoundLink {
  number: number;
  name: string;
  bound: string;
  horizon: string;
  inputs: Record<string, number>;
  value: number | null;
  upper: number | null;
  floors: Record<string, number>;
  alpha: number | null;
  method: string;
  from: string;
  approximate: boolean;
  assumption: string;
  status: string;
}

export interface BoundChain {
  where: Where;
  rows: number;
  sequences: number;
  links: BoundLink[];
  refused: string;
}

export interface SliceRank {
  clause: string;
  where: Where;
  role: string;
  verdict: Verdict;
  estimate: number | null;
  limit: number | null;
  lower: number | null;
  upper: number | null;
  corpus: number | null;
  excess: number;
  hidden: boolean;
}

export interface MetricFigures {
  n: number;
  mean: number | null;
  sequenceMean: number | null;
  max: number | null;
  p50: number | null;
  p99: number | null;
  floorTrain: number | null;
  floorInf: number | null;
}

export interface SliceSummary {
  where: Where;
  role: string;
  rows: number;
  sequences: number;
  /** By name, as they came: figuresOf reads one, since most are never shown. */
  metrics: Record<string, unknown>;
}

export interface Report {
  stage: string;
  verdict: Verdict;
  alpha: number | null;
  verdicts: ClauseVerdict[];
  bounds: BoundChain[];
  ranking: SliceRank[];
  slices: SliceSummary[];
  notes: string[];
  nothingDemanded: boolean;
}

const object = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
const list = (value: unknown): Json[] => (Array.isArray(value) ? value.map(object) : []);
const text = (value: unknown): string => (typeof value === 'string' ? value : '');

function numbers(value: unknown): Record<string, number> {
  const read: Record<string, number> = {};
  for (const [name, figureOf] of Object.entries(object(value))) {
    const one = num(figureOf);
    if (one !== null) read[name] = one;
  }
  return read;
}

function readWhere(value: unknown): Where {
  const read: Where = {};
  for (const [dimension, name] of Object.entries(object(value))) read[dimension] = String(name);
  return read;
}

const VERDICTS: readonly Verdict[] = ['pass', 'violated', 'inconclusive', 'error'];
const readVerdictWord = (value: unknown): Verdict => VERDICTS.find((word) => word === value) ?? 'error';

export function readVerdict(value: Json): ClauseVerdict {
  return {
    ...readHead(value),
    ...readFigures(value),
    where: readWhere(value.where),
    role: text(value.role),
    verdict: readVerdictWord(value.verdict),
    pValue: num(value.p_value),
    method: text(value.method),
    approximate: value.approximate === true,
    noHarmOnly: value.no_harm_only === true,
    details: numbers(value.details),
    message: text(value.message),
  };
}

function readLink(value: Json): BoundLink {
  return {
    number: num(value.number) ?? 0,
    name: text(value.name),
    bound: text(value.bound),
    horizon: text(value.horizon),
    inputs: numbers(value.inputs),
    value: num(value.value),
    upper: num(value.upper),
    floors: numbers(value.floor),
    alpha: num(value.alpha),
    method: text(value.method),
    from: text(value.from),
    approximate: value.approximate === true,
    assumption: text(value.assumption),
    status: text(value.status),
  };
}

function readRank(value: Json): SliceRank {
  return {
    clause: text(value.clause),
    where: readWhere(value.where),
    role: text(value.role),
    verdict: readVerdictWord(value.verdict),
    estimate: num(value.estimate),
    limit: num(value.limit),
    lower: num(value.lower),
    upper: num(value.upper),
    corpus: num(value.corpus_estimate),
    excess: num(value.excess) ?? 0,
    hidden: value.hidden_by_mean === true,
  };
}

function readSlice(value: Json): SliceSummary {
  return {
    where: readWhere(value.where),
    role: text(value.role),
    rows: num(value.rows) ?? 0,
    sequences: num(value.sequences) ?? 0,
    metrics: object(value.metrics),
  };
}

/** The figures of one metric on a slice; of captures that hold a part of each distribution, the upper bounds. */
export function figuresOf(slice: SliceSummary, metric: string): MetricFigures | null {
  if (!Object.hasOwn(slice.metrics, metric)) return null;
  const figures = object(slice.metrics[metric]);
  const floor = object(figures.floor);
  return {
    n: num(figures.n) ?? 0,
    mean: num(figures.mean) ?? num(figures.mean_upper),
    sequenceMean: num(figures.sequence_mean) ?? num(figures.sequence_mean_upper),
    max: num(figures.max) ?? num(figures.max_upper),
    p50: num(figures.p50),
    p99: num(figures.p99),
    floorTrain: num(floor.train),
    floorInf: num(floor.inf),
  };
}

export function readReport(value: unknown): Report {
  const report = object(value);
  return {
    stage: text(report.stage),
    verdict: readVerdictWord(report.verdict),
    alpha: num(report.alpha),
    verdicts: list(report.verdicts).map(readVerdict),
    bounds: list(report.bounds).map((chain) => ({
      where: readWhere(chain.where),
      rows: num(chain.rows) ?? 0,
      sequences: num(chain.sequences) ?? 0,
      links: list(chain.links).map(readLink),
      refused: text(chain.refused),
    })),
    ranking: list(report.ranking).map(readRank),
    slices: list(report.slices).map(readSlice),
    notes: Array.isArray(report.notes) ? report.notes.map(String) : [],
    nothingDemanded: report.nothing_demanded === true,
  };
}

/** "language=de;domain=code", as the API and the CLI write slices; '' is the whole corpus or all traffic. */
export function whereText(where: Where): string {
  return Object.entries(where)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([dimension, name]) => `${dimension}=${name}`)
    .join(';');
}

const WORST_FIRST: Record<Verdict, number> = { violated: 0, error: 1, inconclusive: 2, pass: 3 };

/** Failing first; of equal verdicts those that block before those that do not, then by clause and slice. */
export function failingFirst(verdicts: readonly ClauseVerdict[]): ClauseVerdict[] {
  const soft = (verdict: ClauseVerdict) => (verdict.severity === 'soft' ? 1 : 0);
  return [...verdicts].sort(
    (a, b) =>
      WORST_FIRST[a.verdict] - WORST_FIRST[b.verdict] ||
      soft(a) - soft(b) ||
      compare(a.clause, b.clause) ||
      compare(whereText(a.where), whereText(b.where)),
  );
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** What the estimate is held against: the tolerated share of rows for a quantile, else the threshold. */
export function limitOf(verdict: ClauseVerdict): number | null {
  return verdict.details.tolerated_fraction ?? limitAt(verdict.limitKind, verdict.threshold);
}

/** On which side of its limit the figure breaks the clause; a share of rows beyond a quantile must stay below. */
export function sideOf(verdict: ClauseVerdict): 'above' | 'below' {
  return verdict.details.tolerated_fraction === undefined ? badSide(verdict.limitKind) : 'above';
}

export function intervalText(lower: number | null, upper: number | null): string {
  if (lower === null && upper === null) return '–';
  return `${lower === null ? '−∞' : figure(lower)} … ${upper === null ? '∞' : figure(upper)}`;
}

const LIMIT_WORDS: Record<string, string> = {
  max: '≤',
  min: '≥',
  max_ratio: 'ratio ≤',
  max_delta: 'difference ≤',
  non_inferiority_margin: 'margin',
  min_count: '≥',
  min_coverage: '≥',
  max_staleness: '≤',
  ratio_to_rest: 'ratio to the rest ≤',
  equal: 'equal to',
};

/** "≤ 0.02"; for a quantile "≤ 10% of rows beyond 0.037". */
export function limitText(verdict: ClauseVerdict): string {
  const tolerated = verdict.details['tolerated_fraction'];
  if (tolerated !== undefined) {
    return `≤ ${figure(Math.round(tolerated * 1e6) / 1e4)}% of rows beyond ${figure(verdict.threshold)}`;
  }
  if (verdict.threshold === null) return '–';
  const unit = verdict.limitKind === 'max_staleness' ? ' ms' : '';
  return `${LIMIT_WORDS[verdict.limitKind] ?? verdict.limitKind} ${figure(verdict.threshold)}${unit}`;
}

/** "16 480 in 1 030 units": observations, and the independent units that they fall into. */
export function sampleText(verdict: Pick<ClauseVerdict, 'n' | 'clusters'>): string {
  const units = verdict.clusters > 0 && verdict.clusters !== verdict.n ? ` in ${count(verdict.clusters)} units` : '';
  return `${count(verdict.n)}${units}`;
}

export function methodText(verdict: ClauseVerdict): string {
  const parts = [verdict.method || verdict.rule];
  if (verdict.approximate) parts.push('approximate');
  if (verdict.noHarmOnly) parts.push('passes because no harm is shown');
  if (verdict.severity === 'soft') parts.push('soft: does not block');
  return parts.join(', ');
}

/** The newest point of each live clause, as a verdict, while the stage has no report. */
export function liveVerdicts(clauses: readonly ClauseSeries[]): ClauseVerdict[] {
  return clauses.flatMap((series) => {
    const last = series.points[series.points.length - 1];
    if (!last) return [];
    return [{
      clause: series.clause,
      severity: series.severity,
      where: whereOf(series.slice),
      role: '',
      verdict: readVerdictWord(last.verdict || 'inconclusive'),
      rule: series.rule,
      n: last.n,
      clusters: last.clusters,
      estimate: last.estimate,
      lower: last.lower,
      upper: last.upper,
      eValue: last.eValue,
      pValue: null,
      threshold: series.threshold,
      limitKind: series.limitKind,
      alpha: series.alpha,
      method: '',
      approximate: false,
      noHarmOnly: false,
      details: {
        ...(series.harmNeeded === null ? {} : { e_harm_needed: series.harmNeeded }),
        ...(series.proofNeeded === null ? {} : { e_proof_needed: series.proofNeeded }),
        ...(last.eProof === null ? {} : { e_proof: last.eProof }),
      },
      message: '',
    }];
  });
}

/** The reverse of whereText. */
export function whereOf(slice: string): Where {
  const where: Where = {};
  for (const part of slice.split(';')) {
    const at = part.indexOf('=');
    if (at > 0) where[part.slice(0, at)] = part.slice(at + 1);
  }
  return where;
}

/** "harm 0.6 of 800, proof 12 of 40"; '' without e-values. */
export function eText(verdict: ClauseVerdict): string {
  const said: string[] = [];
  const of = (value: number, needed: number | undefined) => (needed === undefined ? figure(value) : `${figure(value)} of ${figure(needed)}`);
  if (verdict.eValue !== null) said.push(`harm ${of(verdict.eValue, verdict.details.e_harm_needed)}`);
  const proof = verdict.details.e_proof;
  if (proof !== undefined) said.push(`proof ${of(proof, verdict.details.e_proof_needed)}`);
  return said.join(', ');
}

/** The slice that is furthest beyond a limit, over the reports of a promotion; null without slices. */
export function worstSlice(reports: readonly { stage: string; report: Report }[]): { stage: string; rank: SliceRank } | null {
  let worst: { stage: string; rank: SliceRank } | null = null;
  for (const { stage, report } of reports) {
    for (const rank of report.ranking) {
      if (!worst || rank.excess > worst.rank.excess) worst = { stage, rank };
    }
  }
  return worst;
}
