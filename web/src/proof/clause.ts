// A clause's verdict as the body of an entry records it.

import type { Members, Value } from './canonical';
import { isMembers } from './entry';
import { readNumber } from './numbers';

export type Verdict = 'pass' | 'violated' | 'inconclusive' | 'error';
export type Severity = 'hard' | 'soft';
export type Role = 'corpus' | 'critical' | 'monitored' | 'discovered' | 'described';

export const VERDICTS: readonly Verdict[] = ['pass', 'violated', 'inconclusive', 'error'];
const SEVERITIES: readonly Severity[] = ['hard', 'soft'];
const ROLES: readonly Role[] = ['corpus', 'critical', 'monitored', 'discovered', 'described'];
export const MEASURED = ['alpha', 'estimate', 'lower', 'upper', 'e_value', 'p_value', 'threshold'] as const;
export type MeasuredName = (typeof MEASURED)[number];

export interface ClauseVerdict {
  clause: string;
  rule: string;
  rules: number;
  statesRules: boolean;
  verdict: Verdict;
  severity: Severity;
  role: Role;
  where: Map<string, string>;
  limitKind: string;
  noHarmOnly: boolean;
  n: number;
  clusters: number;
  numbers: Map<MeasuredName, number>;
  details: Map<string, number>;
}

/** The body records no verdict: the message names the member. */
export class NoVerdict extends Error {}

const MAX_SEED = 2n ** 64n;
const MAX_VERSION = 2 ** 32 - 1;

class Body {
  constructor(private readonly body: Members) {}

  private get(name: string): Value {
    const value = this.body[name];
    if (value === undefined) throw new NoVerdict(`body/${name} is missing`);
    return value;
  }

  text(name: string): string {
    const value = this.get(name);
    if (typeof value !== 'string') throw new NoVerdict(`body/${name} must be a text`);
    return value;
  }

  word<T extends string>(name: string, words: readonly T[]): T {
    const value = this.text(name);
    const found = words.find((word) => word === value);
    if (found === undefined) throw new NoVerdict(`body/${name} must be one of ${words.join(', ')}`);
    return found;
  }

  flag(name: string): boolean {
    const value = this.get(name);
    if (typeof value !== 'boolean') throw new NoVerdict(`body/${name} must be true or false`);
    return value;
  }

  count(name: string): number {
    const value = this.get(name);
    if (typeof value !== 'number' || value < 0) throw new NoVerdict(`body/${name} must be a whole number from 0`);
    return value;
  }

  /** An object, or the list of {name, value} that stands for one whose names are no keys of an entry. */
  named(name: string): [string, Value][] {
    const value = this.get(name);
    if (isMembers(value)) return Object.entries(value);
    if (!Array.isArray(value)) throw new NoVerdict(`body/${name} must be an object, or a list of {name, value}`);
    const seen = new Set<string>();
    return value.map((pair) => {
      const isPair = isMembers(pair) && Object.keys(pair).length === 2 && typeof pair['name'] === 'string';
      const item = isPair ? pair['value'] : undefined;
      if (!isPair || item === undefined) throw new NoVerdict(`body/${name} must be a list of {name, value}`);
      const key = String(pair['name']);
      if (seen.has(key)) throw new NoVerdict(`body/${name} has the name ${key} twice`);
      seen.add(key);
      return [key, item];
    });
  }

  texts(name: string): Map<string, string> {
    const found = new Map<string, string>();
    for (const [key, value] of this.named(name)) {
      if (typeof value !== 'string') throw new NoVerdict(`body/${name} must hold texts`);
      found.set(key, value);
    }
    return found;
  }
}

/** Throws NoVerdict for a body that records no verdict of a clause. */
export function readClause(members: Members): ClauseVerdict {
  const body = new Body(members);
  const statesRules = members['rules'] !== undefined;
  const rules = statesRules ? body.count('rules') : 1;
  if (rules < 1 || rules > MAX_VERSION) throw new NoVerdict('body/rules must be the number of a version');
  for (const name of ['message', 'method'] as const) body.text(name);
  body.flag('approximate');
  const seed = body.text('seed');
  if (!/^[0-9]{1,20}$/.test(seed) || BigInt(seed) >= MAX_SEED) {
    throw new NoVerdict('body/seed must be a whole number below 2^64 as a text');
  }
  if (members['tables'] !== undefined) body.texts('tables');
  return {
    clause: body.text('clause'),
    rule: body.text('rule'),
    rules,
    statesRules,
    verdict: body.word('verdict', VERDICTS),
    severity: body.word('severity', SEVERITIES),
    role: body.word('role', ROLES),
    where: body.texts('where'),
    limitKind: body.text('limit_kind'),
    noHarmOnly: body.flag('no_harm_only'),
    n: body.count('n'),
    clusters: body.count('clusters'),
    numbers: measuredMembers(members, statesRules),
    details: measuredDetails(body, statesRules),
  };
}

function measuredMembers(members: Members, isStated: boolean): Map<MeasuredName, number> {
  const found = new Map<MeasuredName, number>();
  for (const name of MEASURED) {
    if (members[name] === undefined) continue;
    const value = readNumber(members[name], isStated);
    if (value === undefined) throw new NoVerdict(`body/${name} must be a measured number`);
    found.set(name, value);
  }
  if (!found.has('alpha')) throw new NoVerdict('body/alpha is missing');
  return found;
}

function measuredDetails(body: Body, isStated: boolean): Map<string, number> {
  const found = new Map<string, number>();
  for (const [name, item] of body.named('details')) {
    const value = readNumber(item, isStated);
    if (value === undefined) throw new NoVerdict(`body/details/${name} must be a measured number`);
    found.set(name, value);
  }
  return found;
}

/** "language=de;length=long", as bodies write the slice of a verdict beside `where`; empty on all data. */
export function sliceText(where: ReadonlyMap<string, string>): string {
  return [...where.keys()]
    .sort()
    .map((name) => `${name}=${where.get(name)}`)
    .join(';');
}
