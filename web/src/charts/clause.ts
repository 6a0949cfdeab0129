// What a series and a report both say of a clause, read in one place.
import { num } from './numbers';

export type Json = Record<string, unknown>;

/** The clause itself, and what its verdict follows from. */
export interface ClauseHead {
  clause: string;
  severity: string;
  rule: string;
  limitKind: string;
  threshold: number | null;
  alpha: number | null;
}

/** What was measured of it. */
export interface ClauseFigures {
  n: number;
  clusters: number;
  estimate: number | null;
  lower: number | null;
  upper: number | null;
  eValue: number | null;
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

export function readHead(value: Json): ClauseHead {
  return {
    clause: text(value.clause),
    severity: text(value.severity),
    rule: text(value.rule),
    limitKind: text(value.limit_kind),
    threshold: num(value.threshold),
    alpha: num(value.alpha),
  };
}

export function readFigures(value: Json): ClauseFigures {
  return {
    n: num(value.n) ?? 0,
    clusters: num(value.clusters) ?? 0,
    estimate: num(value.estimate),
    lower: num(value.lower),
    upper: num(value.upper),
    eValue: num(value.e_value),
  };
}
