// What of a contract binds the verdicts under it (docs/evidence.md: `role` and `severity` follow from the contract).

import { sha256 } from '@noble/hashes/sha2.js';
import { toHex, utf8 } from './bytes';
import type { ClauseVerdict, Severity } from './clause';
import { type Discovery, severityOf } from './rules';

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

const FAMILIES = ['numerical', 'statistical', 'runtime', 'observability'];
const SEARCHING_STAGE = 'statistical-slice';

export interface ContractTerms {
  clauses: Map<string, { severity: Severity; namesCritical: boolean }>;
  critical: Map<string, string>[];
  discovery: Discovery | undefined;
}

/** The canonical text (RFC 8785) of a parsed JSON value. */
export function canonicalText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, item]) => `${JSON.stringify(name)}:${canonicalText(item)}`).join(',')}}`;
}

/** "sha256:…" of a document that people wrote. */
export function documentDigest(document: unknown): string {
  return `sha256:${toHex(sha256(utf8(canonicalText(document))))}`;
}

function isObject(value: Json | undefined): value is { [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textsOf(value: Json): Map<string, string> | undefined {
  if (!isObject(value)) return undefined;
  const found = new Map<string, string>();
  for (const [name, item] of Object.entries(value)) {
    if (typeof item !== 'string') return undefined;
    found.set(name, item);
  }
  return found;
}

/** Undefined for a document whose clauses or slices do not have the form of a contract's. */
export function readTerms(document: unknown): ContractTerms | undefined {
  const contract = document as Json;
  if (!isObject(contract)) return undefined;
  const terms: ContractTerms = { clauses: new Map(), critical: [], discovery: undefined };
  if (contract['slices'] !== undefined && !readSlices(contract['slices'], terms)) return undefined;
  for (const family of FAMILIES) {
    const clauses = contract[family] ?? (family in contract ? null : []);
    if (!Array.isArray(clauses) || !clauses.every((clause) => readClause(clause, family, terms))) return undefined;
  }
  return terms;
}

function readClause(clause: Json, family: string, terms: ContractTerms): boolean {
  if (!isObject(clause) || typeof clause['id'] !== 'string') return false;
  const severity = clause['severity'] === undefined ? 'hard' : clause['severity'];
  const slices = clause['slices'] === undefined ? [] : clause['slices'];
  if (severity !== 'hard' && severity !== 'soft') return false;
  if (!Array.isArray(slices) || !slices.every((role) => typeof role === 'string')) return false;
  terms.clauses.set(`${family}.${clause['id']}`, { severity, namesCritical: slices.includes('critical') });
  return true;
}

function readSlices(slices: Json, terms: ContractTerms): boolean {
  if (!isObject(slices)) return false;
  const critical = slices['critical'] === undefined ? [] : slices['critical'];
  if (!Array.isArray(critical)) return false;
  for (const where of critical) {
    const texts = textsOf(where);
    if (!texts) return false;
    terms.critical.push(texts);
  }
  const discover = slices['discover'];
  if (discover === undefined) return true;
  if (!isObject(discover)) return false;
  const action = discover['action'] === undefined ? 'report' : discover['action'];
  if (action !== 'report' && action !== 'block') return false;
  terms.discovery = { blocks: action === 'block' };
  const ratio = discover['max_ratio'];
  if (ratio === undefined) return true;
  if (typeof ratio !== 'number') return false;
  terms.discovery.maxRatio = ratio;
  return true;
}

function isSameSlice(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  return a.size === b.size && [...a].every(([name, value]) => b.get(name) === value);
}

function roleFits(verdict: ClauseVerdict, isCritical: boolean, stage: string): boolean {
  const isOnAll = verdict.where.size === 0;
  switch (verdict.role) {
    case 'corpus':
      return isOnAll;
    case 'critical':
      return isCritical;
    case 'monitored':
      return !isOnAll && !isCritical;
    case 'discovered':
      // A search that was too large to be made has a verdict on no slice.
      return stage === SEARCHING_STAGE && !isCritical && (!isOnAll || verdict.rule === 'cannot');
    case 'described':
      return false;
  }
}

/** In words, how a verdict's clause, role or severity is not what the contract says; undefined when they are. */
export function faultUnder(terms: ContractTerms, verdict: ClauseVerdict, stage: string): string | undefined {
  const clause = terms.clauses.get(verdict.clause);
  if (!clause) return `${verdict.clause} is no clause of the contract.`;
  const isCritical = clause.namesCritical && terms.critical.some((where) => isSameSlice(where, verdict.where));
  if (!roleFits(verdict, isCritical, stage)) {
    return `Its slice does not have the role ${verdict.role} under the contract.`;
  }
  if (severityOf(verdict, clause.severity, terms.discovery) !== verdict.severity) {
    return `The contract does not give the severity ${verdict.severity} to it.`;
  }
  return undefined;
}
