// The answer of GET …/stages/{stage}/distribution: the distribution of one figure, and where it is large.
import { decades, type ChartModel, type Line } from './model';
import { figure, num } from './numbers';

export interface Ecdf {
  edges: number[];
  cdf: number[];
  mean: number | null;
  quantiles: Record<string, number>;
}

export interface Bucket {
  from: number | null;
  to: number | null;
  rows: number;
  mean: number | null;
}

export interface WorstRow {
  row: number;
  value: number | null;
  sequence: number;
  position: number;
  token: number | null;
  tokenText: string | null;
  slice: string;
}

export interface Distribution {
  metric: string;
  slice: string;
  rows: number;
  candidate: Ecdf | null;
  floors: { train: Ecdf | null; inf: Ecdf | null };
  by: Record<string, Bucket[]>;
  worst: WorstRow[];
}

type Json = Record<string, unknown>;

const object = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

function readEcdf(value: unknown): Ecdf | null {
  const of = object(value);
  if (!Array.isArray(of.edges) || !Array.isArray(of.cdf)) return null;
  const quantiles: Record<string, number> = {};
  for (const [name, at] of Object.entries(object(of.quantiles))) {
    const read = num(at);
    if (read !== null) quantiles[name] = read;
  }
  return {
    edges: of.edges.map((edge) => num(edge) ?? NaN),
    cdf: of.cdf.map((share) => num(share) ?? NaN),
    mean: num(of.mean),
    quantiles,
  };
}

function readWorst(value: unknown): WorstRow {
  const row = object(value);
  const slices = row.slice ?? row.slices;
  return {
    row: num(row.row) ?? 0,
    value: num(row.value),
    sequence: num(row.sequence) ?? 0,
    position: num(row.position) ?? 0,
    token: num(row.token),
    tokenText: typeof row.token_text === 'string' ? row.token_text : null,
    slice:
      typeof slices === 'string'
        ? slices
        : Object.entries(object(slices)).map(([dimension, name]) => `${dimension}=${String(name)}`).join(';'),
  };
}

export function readDistribution(value: unknown): Distribution {
  const answer = object(value);
  const floors = object(answer.floors);
  const by: Record<string, Bucket[]> = {};
  for (const [name, buckets] of Object.entries(object(answer.by))) {
    by[name] = list(buckets)
      .map(object)
      .map((bucket) => ({
        from: num(bucket.from),
        to: num(bucket.to),
        rows: num(bucket.rows) ?? 0,
        mean: num(bucket.mean),
      }));
  }
  return {
    metric: typeof answer.metric === 'string' ? answer.metric : '',
    slice: typeof answer.slice === 'string' ? answer.slice : '',
    rows: num(answer.rows) ?? 0,
    candidate: readEcdf(answer.candidate),
    floors: { train: readEcdf(floors.train), inf: readEcdf(floors.inf) },
    by,
    worst: list(answer.worst).map(readWorst),
  };
}

/** The share of rows at or below `x`. */
export function cdfAt(of: Ecdf, x: number): number | null {
  let found: number | null = null;
  for (let at = 0; at < of.edges.length && at < of.cdf.length; ++at) {
    if ((of.edges[at] as number) > x) break;
    found = of.cdf[at] as number;
  }
  return found ?? (of.edges.length > 0 ? 0 : null);
}

const shareOf = (value: number) => `${figure(Math.round(value * 1e4) / 100)}%`;

function quantilesText(of: Ecdf): string {
  const named = Object.entries(of.quantiles)
    .sort(([a], [b]) => Number(a) - Number(b))
    .map(([name, value]) => `p${figure(Number(name) * 100)} ${figure(value)}`);
  const mean = of.mean === null ? [] : [`mean ${figure(of.mean)}`];
  return [...mean, ...named].join(', ');
}

/** The ECDF of the candidate and of the noise floors on one log axis. Null where there is nothing to draw. */
export function ecdfModel(of: Distribution): ChartModel | null {
  const drawn: { line: Line; ecdf: Ecdf }[] = [];
  const add = (label: string, role: Line['role'], dashed: boolean, ecdf: Ecdf | null) => {
    if (ecdf && ecdf.edges.length > 0) drawn.push({ line: { label, role, shape: 'step', dashed }, ecdf });
  };
  add('Candidate', 'candidate', false, of.candidate);
  add('Floor of the training kernel', 'floor-train', true, of.floors.train);
  add('Floor of the inference kernel', 'floor-inf', true, of.floors.inf);
  if (drawn.length === 0) return null;
  const positive = drawn.flatMap(({ ecdf }) => ecdf.edges.filter((edge) => edge > 0 && Number.isFinite(edge)));
  const log = positive.length > 1 && drawn.every(({ ecdf }) => ecdf.edges.every((edge) => !(edge < 0)));
  const usable = drawn.flatMap(({ ecdf }) => ecdf.edges.filter((edge) => Number.isFinite(edge) && (!log || edge > 0)));
  const xs = [...new Set(usable)].sort((a, b) => a - b);
  if (xs.length === 0) return null;
  const floors = drawn.length > 1 ? '' : ' No noise floor was measured.';
  return {
    name: `Distribution of ${of.metric}`,
    summary:
      drawn.map(({ line, ecdf }) => `${line.label}: ${quantilesText(ecdf)}.`).join(' ') + floors,
    x: {
      kind: log ? 'log' : 'linear',
      label: of.metric,
      format: figure,
      ...(log ? { range: tight(xs) } : {}),
    },
    y: { kind: 'linear', label: 'Share of rows', range: [0, 1.02], format: shareOf },
    lines: drawn.map(({ line }) => line),
    bands: [],
    levels: [],
    marks: [],
    xs,
    ys: drawn.map(({ ecdf }) => xs.map((x) => cdfAt(ecdf, x))),
  };
}

function tight(xs: number[]): [number, number] {
  const first = xs[0] as number;
  const last = xs[xs.length - 1] as number;
  return first === last ? decades(first, last) : [first, last];
}

/** "0.1 to 0.5", "from 6"; positions are whole numbers and their buckets end before `to`. */
export function bucketText(bucket: Bucket, whole: boolean): string {
  const { from, to } = bucket;
  if (to === null || to === Infinity) return `from ${figure(from)}`;
  if (whole && from !== null) return to - from <= 1 ? figure(from) : `${figure(from)} to ${figure(to - 1)}`;
  if (from === null || from === -Infinity) return `under ${figure(to)}`;
  return `${figure(from)} to ${figure(to)}`;
}
