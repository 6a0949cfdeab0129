// How verdicts follow from recorded numbers (docs/evidence.md, the table of rules and their versions). Each version is
// kept for as long as there may be evidence of it; none is ever changed.

import type { ClauseVerdict, MeasuredName, Role, Severity, Verdict } from './clause';

/** One comparison that a rule made. */
export interface Comparison {
  left: string;
  leftValue: number;
  sign: '≤' | '≥' | '<' | '>';
  right: string;
  rightValue: number;
  holds: boolean;
}

export interface Derived {
  verdict: Verdict;
  comparisons: Comparison[];
  /** Sentences about what decided beside the comparisons. */
  notes: string[];
}

/** The recorded rule cannot be followed: a number is missing, or nobody knows the rule or its version. */
export class CannotDerive extends Error {}

interface Outcome {
  passes: boolean;
  isViolated: boolean;
  /** What it is when neither holds; undefined: inconclusive, or pass where only the absence of harm is asked for. */
  otherwise?: Verdict;
}

/** The numbers that one rule reads, and the comparisons that it makes of them. */
class Reading {
  readonly comparisons: Comparison[] = [];

  constructor(readonly clause: ClauseVerdict) {}

  member(name: MeasuredName): number {
    const value = this.clause.numbers.get(name);
    if (value === undefined) throw new CannotDerive(`its rule ${this.clause.rule} needs ${name}, which is not recorded`);
    return value;
  }

  detail(name: string): number {
    const value = this.clause.details.get(name);
    if (value === undefined) {
      throw new CannotDerive(`its rule ${this.clause.rule} needs details.${name}, which is not recorded`);
    }
    return value;
  }

  has(name: string): boolean {
    return this.clause.details.has(name);
  }

  compare(left: [string, number], sign: Comparison['sign'], right: [string, number]): boolean {
    const [a, b] = [left[1], right[1]];
    const holds = sign === '≤' ? a <= b : sign === '≥' ? a >= b : sign === '<' ? a < b : a > b;
    this.comparisons.push({ left: left[0], leftValue: a, sign, right: right[0], rightValue: b, holds });
    return holds;
  }

  m(name: MeasuredName): [string, number] {
    return [name, this.member(name)];
  }

  d(name: string): [string, number] {
    return [name, this.detail(name)];
  }

  /** Whether a figure keeps the threshold, which is a least one for limits of the kind min. */
  within(figure: [string, number]): boolean {
    return this.compare(figure, this.clause.limitKind === 'min' ? '≥' : '≤', this.m('threshold'));
  }

  /** What an arm is held against: the threshold, alone or of the incumbent's limit. */
  line(incumbent: string): [string, number] {
    const threshold = this.member('threshold');
    const { limitKind } = this.clause;
    if (limitKind === 'max_ratio') return [`threshold · ${incumbent}`, threshold * this.detail(incumbent)];
    if (limitKind === 'max_delta') return [`threshold + ${incumbent}`, threshold + this.detail(incumbent)];
    return ['threshold', threshold];
  }
}

type Rule = (v: Reading) => Outcome;

function test(v: Reading): Outcome {
  const passes = v.compare(v.d('p_proof'), '≤', v.m('alpha'));
  const harmed = v.compare(v.m('p_value'), '≤', v.m('alpha'));
  return { passes, isViolated: harmed && !passes };
}

function margin(v: Reading): Outcome {
  const proven = v.compare(v.d('p_proof'), '≤', v.m('alpha'));
  const harmed = v.compare(v.m('p_value'), '≤', v.m('alpha'));
  const edge: [string, number] = ['−threshold', -v.member('threshold')];
  const kept = v.compare(v.m('lower'), '>', edge);
  const broken = v.compare(v.m('upper'), '<', edge);
  return { passes: proven && kept, isViolated: harmed && broken };
}

function limits(v: Reading): Outcome {
  const passes = v.compare(v.m('upper'), '≤', v.m('threshold'));
  return { passes, isViolated: v.compare(v.m('lower'), '>', v.m('threshold')) };
}

function bound(v: Reading): Outcome {
  return { passes: v.compare(v.m('upper'), '≤', v.m('threshold')), isViolated: false, otherwise: 'inconclusive' };
}

function armLimits(v: Reading): Outcome {
  // Without limits of both arms there is nothing to hold against each other.
  if (!v.has('candidate_lower')) return { passes: false, isViolated: false };
  const isViolated = v.compare(v.d('candidate_lower'), '>', v.line('incumbent_upper'));
  const isKnown = v.has('candidate_upper') && (v.clause.limitKind === 'max' || v.has('incumbent_lower'));
  return { passes: isKnown && v.compare(v.d('candidate_upper'), '≤', v.line('incumbent_lower')), isViolated };
}

function enough(v: Reading): boolean {
  return v.compare(['clusters', v.clause.clusters], '≥', v.d('least_units'));
}

function census(v: Reading): Outcome {
  const within = v.within(v.m('estimate'));
  const isEnough = enough(v);
  return { passes: within && isEnough, isViolated: !within, otherwise: 'inconclusive' };
}

function boundedCensus(v: Reading): Outcome {
  v.member('threshold');
  const isEnough = enough(v);
  const isBeyond = v.has('harm_estimate') && !v.within(v.d('harm_estimate'));
  const isProven = v.has('proof_estimate') && v.within(v.d('proof_estimate'));
  return { passes: isProven && isEnough, isViolated: isBeyond, otherwise: 'inconclusive' };
}

function byEValue(v: Reading, harm: [string, number]): Outcome {
  const alone = v.compare(harm, '≥', v.d('e_harm_needed'));
  const joint = v.has('e_joint') && v.compare(v.d('e_joint'), '≥', v.d('e_joint_needed'));
  const passes = v.has('e_proof') && v.compare(v.d('e_proof'), '≥', v.d('e_proof_needed'));
  return { passes, isViolated: alone || joint };
}

/** From version 2 on, the e-value of a test of failure rates follows from both of its parts. */
function byPartedEValue(v: Reading): Outcome {
  if (!v.has('e_blocks')) return byEValue(v, v.m('e_value'));
  const sum = v.detail('label_part') * v.detail('e_label') + v.detail('blocks_part') * v.detail('e_blocks');
  return byEValue(v, ['label_part · e_label + blocks_part · e_blocks', sum]);
}

function recovering(v: Reading): Outcome {
  const isClean = v.compare(v.d('clean_windows'), '≥', v.d('clean_windows_needed'));
  const hasDwelt = v.compare(v.d('dwell_ms'), '≥', v.d('dwell_needed_ms'));
  return { passes: false, isViolated: !(isClean && hasDwelt), otherwise: 'inconclusive' };
}

function nonfinite(v: Reading): Outcome {
  return { passes: false, isViolated: v.compare(v.d('nonfinite'), '>', ['0', 0]), otherwise: 'inconclusive' };
}

function figure(sign: '≥' | '≤', otherwise: Verdict): Rule {
  return (v) => ({
    passes: v.compare(v.m('estimate'), sign, v.m('threshold')),
    isViolated: false,
    otherwise,
  });
}

function always(otherwise: Verdict): Rule {
  return () => ({ passes: false, isViolated: false, otherwise });
}

const RULES_1 = new Map<string, Rule>([
  ['cannot', always('error')],
  ['undecided', always('inconclusive')],
  ['test', test],
  ['bounded_test', test],
  ['margin', margin],
  ['limits', limits],
  ['bound', bound],
  ['arm_limits', armLimits],
  ['census', census],
  ['bounded_census', boundedCensus],
  ['e_value', (v) => byEValue(v, v.m('e_value'))],
  ['recovering', recovering],
  ['nonfinite', nonfinite],
  ['count_at_least', figure('≥', 'inconclusive')],
  ['share_at_least', figure('≥', 'violated')],
  ['age_at_most', figure('≤', 'error')],
]);
const RULES_2 = new Map([...RULES_1, ['e_value', byPartedEValue as Rule]]);

/** What a contract's `slices.discover` says of the severity of discovered slices. */
export interface Discovery {
  blocks: boolean;
  maxRatio?: number;
}

interface RuleSet {
  rules: ReadonlyMap<string, Rule>;
  /** Undefined for a verdict that no contract of these terms can have. */
  severity: (verdict: ClauseVerdict, ofClause: Severity, discovery?: Discovery) => Severity | undefined;
}

const OF_THE_SEARCH = ['cannot', 'undecided', 'e_value', 'nonfinite'];

/** What the search for slices found is reported, and blocks only where the contract says so. */
function severity1(verdict: ClauseVerdict, ofClause: Severity, discovery?: Discovery): Severity | undefined {
  if (verdict.role === 'described') return undefined;
  if (verdict.role !== 'discovered') return ofClause;
  if (!discovery || !OF_THE_SEARCH.includes(verdict.rule)) return undefined;
  return discovery.blocks ? ofClause : 'soft';
}

/** As 1; and a slice that drifts more than the rest of the corpus blocks only beyond the contract's max_ratio. */
function severity2(verdict: ClauseVerdict, ofClause: Severity, discovery?: Discovery): Severity | undefined {
  const isAgainstRest =
    verdict.role === 'discovered' && verdict.rule === 'test' && verdict.limitKind === 'ratio_to_rest';
  if (!isAgainstRest) return severity1(verdict, ofClause, discovery);
  const threshold = verdict.numbers.get('threshold');
  if (!discovery || threshold === undefined) return undefined;
  if (threshold === discovery.maxRatio) return ofClause;
  return threshold === 1 ? 'soft' : undefined;
}

const RULE_SETS = new Map<number, RuleSet>([
  [1, { rules: RULES_1, severity: severity1 }],
  [2, { rules: RULES_2, severity: severity2 }],
]);

export function knowsRules(version: number): boolean {
  return RULE_SETS.has(version);
}

function ruleSet(version: number): RuleSet {
  const set = RULE_SETS.get(version);
  if (!set) throw new CannotDerive(`it was decided by version ${version} of the rules, which this page does not know`);
  return set;
}

/** The verdict that follows from the recorded numbers; the recorded verdict is not looked at. Throws CannotDerive. */
export function rederive(clause: ClauseVerdict): Derived {
  const rule = ruleSet(clause.rules).rules.get(clause.rule);
  if (!rule) throw new CannotDerive(`nobody knows the rule ${clause.rule}`);
  const reading = new Reading(clause);
  const outcome = rule(reading);
  const notes: string[] = [];
  const kept: Verdict = clause.noHarmOnly ? 'pass' : 'inconclusive';
  let verdict: Verdict = outcome.isViolated ? 'violated' : outcome.passes ? 'pass' : (outcome.otherwise ?? kept);
  if (verdict === 'violated' && clause.details.get('holm_rejected') === 0) {
    const isTooCoarse = clause.details.has('replicates_wanted');
    verdict = isTooCoarse ? 'error' : kept;
    notes.push(
      isTooCoarse
        ? 'The violation cannot be told from chance: the resampling was too coarse for the number of tests.'
        : 'The violation did not survive Holm’s correction for many tests, and does not count.',
    );
  }
  if (clause.noHarmOnly && verdict === 'pass' && !outcome.passes) {
    notes.push('The contract asks of this clause only that no harm is proven.');
  }
  return { verdict, comparisons: reading.comparisons, notes };
}

/** The severity that the verdict must have under its contract; undefined where it cannot occur. Throws CannotDerive. */
export function severityOf(clause: ClauseVerdict, ofClause: Severity, discovery?: Discovery): Severity | undefined {
  return ruleSet(clause.rules).severity(clause, ofClause, discovery);
}

const WATCHED: readonly Role[] = ['monitored', 'discovered'];

/** Whether a verdict counts for its stage: slices that are only watched block on harm, not for lack of data. */
export function blocks(clause: ClauseVerdict): boolean {
  if (clause.severity === 'soft' || clause.role === 'described') return false;
  return !(WATCHED.includes(clause.role) && clause.verdict === 'inconclusive');
}

/** The worst verdict of those that count. */
export function combine(clauses: readonly ClauseVerdict[]): Verdict {
  const worst: Verdict[] = ['violated', 'error', 'inconclusive'];
  return worst.find((wanted) => clauses.some((one) => one.verdict === wanted && blocks(one))) ?? 'pass';
}

/** What a stage's entry says beside its clauses. */
export interface StageDecision {
  action: string;
  hasEnded: boolean;
}

/** The verdict of a stage by its clauses, and in the canary by what was done too. */
export function stageVerdict(clauses: readonly ClauseVerdict[], { action, hasEnded }: StageDecision): Verdict {
  const together = combine(clauses);
  if (action === '') return together;
  if (action === 'failed' || action === 'revert') return 'error';
  if (!hasEnded) return together === 'pass' ? 'inconclusive' : together;
  if (action === 'finish') return together;
  if (action === 'inconclusive') return 'inconclusive';
  return clauses.some((one) => one.verdict === 'violated') ? 'violated' : together;
}
