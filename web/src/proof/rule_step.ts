// The last check of an entry that decides something: whether the verdict follows from what is recorded.

import { sameBytes } from './bytes';
import { type Members, NotCanonical } from './canonical';
import { type ClauseVerdict, NoVerdict, readClause, sliceText, VERDICTS } from './clause';
import { type ContractTerms, documentDigest, faultUnder, readTerms } from './contract';
import { type LogEntry, readEntry } from './entry';
import { readPath } from './heads';
import type { SignedHead } from './note';
import { CannotDerive, knowsRules, rederive, stageVerdict } from './rules';
import { step, type Step } from './steps';
import { isSize, leafHash, rootFromRange } from './tree';

/** What the check of a rule takes beside the entry. */
export interface RuleMaterial {
  /** The contract's document, from GET /v1/contracts/{digest}. */
  contract?: unknown;
  /** For a stage's verdict: the exact bytes of the entries that it is computed from, in their order. */
  verdicts?: Uint8Array[];
  /** For a stage's verdict: the proofs (GET /v1/log/proof) of the first of them and of the stage's own entry. */
  proofs?: { first: unknown; last: unknown };
}

export function isVerdict(entry: LogEntry): boolean {
  return entry.kind === 'verdict_reached';
}

/** The entries that a stage's verdict says it is computed from; undefined for every other entry. */
export function verdictsOf(entry: LogEntry): { first: number; count: number } | undefined {
  const { scope, first, count } = entry.body;
  if (!isVerdict(entry) || scope !== 'stage' || typeof first !== 'number' || typeof count !== 'number') return undefined;
  return first >= 0 && count >= 0 ? { first, count } : undefined;
}

export function checkRule(entry: LogEntry, material: RuleMaterial | undefined, head: SignedHead | undefined, steps: Step[]): void {
  if (!isVerdict(entry)) {
    steps.push(step('rule', 'none', 'This entry records what happened and decides nothing.'));
    return;
  }
  try {
    steps.push(entry.body['scope'] === 'stage' ? stageStep(entry, material, head) : clauseStep(entry, material));
  } catch (error) {
    const isKnown = error instanceof NoVerdict || error instanceof CannotDerive || error instanceof NotCanonical;
    if (!isKnown) throw error;
    steps.push(step('rule', 'broken', `The verdict cannot be derived: ${error.message}.`));
  }
}

const NO_CONTRACT = 'The contract that it names could not be had, so that clauses, roles and severities are not checked.';

/** The terms that bind an entry's clauses: of the contract that it names. 'none': it names none. */
function termsOf(entry: LogEntry, contract: unknown): ContractTerms | 'none' | { missing: true } | { fault: string } {
  if (entry.subject.contract === undefined) return 'none';
  if (contract === undefined || contract === null) return { missing: true };
  if (documentDigest(contract) !== entry.subject.contract) return { fault: 'The contract that was answered is not the one that the entry names.' };
  return readTerms(contract) ?? { fault: 'The contract does not have the form of one.' };
}

/** What the contract says against one of the clauses; '' when nothing, undefined when it was not given. */
function contractFault(entry: LogEntry, clauses: readonly ClauseVerdict[], contract: unknown): string | undefined {
  const terms = termsOf(entry, contract);
  if (terms === 'none') return '';
  if ('missing' in terms) return undefined;
  if ('fault' in terms) return terms.fault;
  for (const clause of clauses) {
    const fault = faultUnder(terms, clause, entry.subject.stage ?? '');
    if (fault) return fault;
  }
  return '';
}

function readChecked(entry: LogEntry): ClauseVerdict {
  const clause = readClause(entry.body);
  if (entry.body['slice'] !== sliceText(clause.where)) throw new NoVerdict('body/slice is not what body/where says');
  return clause;
}

function clauseStep(entry: LogEntry, material: RuleMaterial | undefined): Step {
  const clause = readChecked(entry);
  const derived = rederive(clause);
  const rule = `rule ${clause.rule}, version ${clause.rules}`;
  if (derived.verdict !== clause.verdict) {
    const text = `It says ${clause.verdict}, and by the ${rule} its numbers give ${derived.verdict}.`;
    return step('rule', 'broken', text, derived.comparisons);
  }
  const fault = contractFault(entry, [clause], material?.contract);
  if (fault) return step('rule', 'broken', fault, derived.comparisons);
  const severity = fault === '' && entry.subject.contract !== undefined ? ` Its role (${clause.role}) and severity (${clause.severity}) are the contract’s.` : '';
  const text = [`By the ${rule} its numbers give ${derived.verdict}, as it says.`, ...derived.notes].join(' ') + severity;
  if (fault === undefined) return step('rule', 'open', `${text} ${NO_CONTRACT}`, derived.comparisons);
  return step('rule', 'good', text, derived.comparisons);
}

function stageStep(entry: LogEntry, material: RuleMaterial | undefined, head: SignedHead | undefined): Step {
  const { verdict, ended, action = '', rules } = entry.body;
  const isDecision = VERDICTS.some((word) => word === verdict) && typeof ended === 'boolean' && typeof action === 'string';
  const range = verdictsOf(entry);
  if (!isDecision || !range) throw new NoVerdict('it has no verdict, ended, first or count');
  const version = rules === undefined ? 1 : rules;
  if (typeof version !== 'number' || !knowsRules(version)) throw new CannotDerive(`nobody here knows version ${String(version)} of the rules`);
  if (range.first + range.count !== entry.seq) {
    return step('rule', 'broken', `Its ${range.count} verdicts from entry ${range.first} on do not stand directly before it.`);
  }
  if (!material?.verdicts) return step('rule', 'open', 'The verdicts that it is computed from could not be read.');
  const clauses = readBatch(entry, range.first, material.verdicts, rules);
  if (clauses.length !== range.count) {
    return step('rule', 'broken', `It names ${range.count} verdicts, and the log has ${clauses.length} there.`);
  }
  if (hasGrown(entry, material)) return step('rule', 'open', 'The log grew between the two proofs: check again.');
  const unproven = rangeFault(entry, range.first, material, head);
  if (unproven) return step('rule', 'broken', unproven);
  const follows = stageVerdict(clauses, { action: String(action), hasEnded: ended === true });
  const of = `its ${range.count} clauses${action === '' ? '' : ` and its action ${String(action)}`}`;
  if (follows !== verdict) return step('rule', 'broken', `It says ${String(verdict)}, and ${of} give ${follows}.`);
  const goesOn = action === 'advance' || action === 'wait_approval';
  if (goesOn && stageVerdict(clauses, { action: '', hasEnded: true }) !== 'pass') {
    return step('rule', 'broken', `Its action ${action} needs every hard clause to pass.`);
  }
  const fault = contractFault(entry, clauses, material.contract);
  if (fault) return step('rule', 'broken', fault);
  const whole = `${of.charAt(0).toUpperCase()}${of.slice(1)} give ${follows}; each of them is in the log and follows from its own numbers.`;
  if (fault === undefined) return step('rule', 'open', `${whole} ${NO_CONTRACT}`);
  return step('rule', 'good', entry.subject.contract === undefined ? whole : `${whole} Their roles and severities are the contract’s.`);
}

/** The verdicts before a stage's, each of which must follow from its own numbers. */
function readBatch(stage: LogEntry, first: number, verdicts: readonly Uint8Array[], rules: Members[string] | undefined): ClauseVerdict[] {
  return verdicts.map((bytes, i) => {
    const entry = readEntry(bytes);
    const { subject } = entry;
    const isOfIt = entry.seq === first + i && isVerdict(entry) && subject.promotion === stage.subject.promotion
      && subject.stage === stage.subject.stage && subject.attempt === stage.subject.attempt && subject.contract === stage.subject.contract;
    if (!isOfIt) throw new NoVerdict(`entry ${first + i} is no verdict of this attempt at the stage`);
    if (entry.body['rules'] !== rules) throw new NoVerdict(`entry ${entry.seq} was decided by another version of the rules`);
    const clause = readChecked(entry);
    const derived = rederive(clause);
    if (derived.verdict !== clause.verdict) {
      throw new NoVerdict(`entry ${entry.seq} says ${clause.verdict}, and its numbers give ${derived.verdict}`);
    }
    return clause;
  });
}

/** Whether both proofs have their form and are of two sizes of the log: nothing follows from them together. */
function hasGrown(entry: LogEntry, material: RuleMaterial): boolean {
  const [first, last] = [sizeOf(material.proofs?.first), sizeOf(material.proofs?.last)];
  return isSize(first) && isSize(last) && first !== last && first > entry.seq && last > entry.seq && (material.verdicts?.length ?? 0) > 0;
}

/** The size of the log that a proof is of. */
function sizeOf(proof: unknown): unknown {
  return (proof as { tree_size?: unknown } | null | undefined)?.tree_size;
}

/** Why the batch is not proven to be in the log; '' when it is. */
function rangeFault(entry: LogEntry, first: number, material: RuleMaterial, head: SignedHead | undefined): string {
  const verdicts = material.verdicts ?? [];
  if (verdicts.length === 0) return '';
  const left = readPath((material.proofs?.first as { path?: unknown } | undefined)?.path);
  const right = readPath((material.proofs?.last as { path?: unknown } | undefined)?.path);
  const own = (material.proofs?.last as { leaf_hash?: unknown } | undefined)?.leaf_hash;
  if (!head || !left || !right || typeof own !== 'string') return 'There is no proof that its verdicts are in the log.';
  const leaf = readPath([own])?.[0];
  if (!leaf) return 'There is no proof that its verdicts are in the log.';
  const leaves = [...verdicts.map(leafHash), leaf];
  const root = rootFromRange(leaves, first, head.size, left, right);
  const isProven = root !== undefined && sameBytes(root, head.root) && first + verdicts.length === entry.seq;
  return isProven ? '' : 'Its verdicts and the paths beside them do not make the root of the head: one of them was changed.';
}
