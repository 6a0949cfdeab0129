// The answer of GET /v1/promotions/{id}/series, with its numbers read.
import { readFigures, readHead, type ClauseFigures, type ClauseHead, type Json } from './clause';
import { num } from './numbers';

export interface Arms {
  candidate: number;
  incumbent: number;
}

export type Quantiles = [number | null, number | null, number | null] | null;

export interface LatencyArms {
  candidate: Quantiles;
  incumbent: Quantiles;
}

export interface SeriesPoint {
  time: number;
  step: number | null;
  phase: string;
  share: number;
  keys: number | null;
  requests: Arms;
  failures: Arms;
  action: string;
  latency: Record<string, LatencyArms>;
}

export interface ClausePoint extends ClauseFigures {
  time: number;
  eProof: number | null;
  verdict: string;
}

export interface ClauseSeries extends ClauseHead {
  slice: string;
  harmNeeded: number | null;
  proofNeeded: number | null;
  points: ClausePoint[];
}

export interface SeriesMark {
  time: number;
  seq: number | null;
  kind: string;
  text: string;
  actor: string | null;
}

export interface PlannedStep {
  step: number;
  share: number;
  approval: boolean;
  minDurationMs: number | null;
  bake: boolean;
}

export interface Series {
  stage: string | null;
  attempt: number | null;
  points: SeriesPoint[];
  clauses: ClauseSeries[];
  marks: SeriesMark[];
  planned: PlannedStep[];
}

const object = (value: unknown): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
const list = (value: unknown): Json[] => (Array.isArray(value) ? value.map(object) : []);
const text = (value: unknown): string =>
  typeof value === 'string' ? value : typeof value === 'number' ? String(value) : '';
const seconds = (value: unknown): number => (num(value) ?? 0) / 1e6;

function arms(value: unknown): Arms {
  const both = object(value);
  return { candidate: num(both.candidate) ?? 0, incumbent: num(both.incumbent) ?? 0 };
}

function quantiles(value: unknown): Quantiles {
  if (!Array.isArray(value)) return null;
  return [num(value[0]), num(value[1]), num(value[2])];
}

function latency(value: unknown): Record<string, LatencyArms> {
  const read: Record<string, LatencyArms> = {};
  for (const [metric, both] of Object.entries(object(value))) {
    const of = object(both);
    read[metric] = { candidate: quantiles(of.candidate), incumbent: quantiles(of.incumbent) };
  }
  return read;
}

function point(value: Json): SeriesPoint {
  return {
    time: seconds(value.time_us),
    step: num(value.step),
    phase: text(value.phase),
    share: num(value.share_bp) ?? 0,
    keys: num(value.keys),
    requests: arms(value.requests),
    failures: arms(value.failures),
    action: text(value.action),
    latency: latency(value.latency),
  };
}

function clausePoint(value: Json): ClausePoint {
  return {
    ...readFigures(value),
    time: seconds(value.time_us),
    eProof: num(value.e_proof),
    verdict: text(value.verdict),
  };
}

/** "language=de;domain=code"; the API may send the text or the object. */
export function sliceText(where: unknown): string {
  if (typeof where === 'string') return where;
  return Object.entries(object(where))
    .map(([dimension, value]) => `${dimension}=${text(value)}`)
    .join(';');
}

function clause(value: Json): ClauseSeries {
  return {
    ...readHead(value),
    slice: sliceText(value.slice ?? value.where),
    harmNeeded: num(value.e_harm_needed),
    proofNeeded: num(value.e_proof_needed),
    points: list(value.points).map(clausePoint),
  };
}

export function readSeries(value: unknown): Series {
  const answer = object(value);
  return {
    stage: typeof answer.stage === 'string' ? answer.stage : null,
    attempt: num(answer.attempt),
    points: list(answer.points).map(point),
    clauses: list(answer.clauses).map(clause),
    marks: list(answer.marks).map((mark) => ({
      time: seconds(mark.time_us),
      seq: num(mark.seq),
      kind: text(mark.kind),
      text: text(mark.text),
      actor: typeof mark.actor === 'string' ? mark.actor : null,
    })),
    planned: list(answer.planned).map((step) => ({
      step: num(step.step) ?? 0,
      share: num(step.share_bp) ?? 0,
      approval: step.approval === true,
      minDurationMs: num(step.min_duration_ms),
      bake: step.bake === true,
    })),
  };
}
