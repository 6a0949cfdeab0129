import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { utf8 } from '../../src/proof/bytes';
import { type Members, parseCanonical } from '../../src/proof/canonical';
import { NoVerdict, readClause } from '../../src/proof/clause';
import { canonicalText, documentDigest, faultUnder, readTerms } from '../../src/proof/contract';
import { readEntry } from '../../src/proof/entry';
import { CannotDerive, rederive, severityOf, stageVerdict } from '../../src/proof/rules';
import { fixtures, VECTORS } from './log';

interface Case { name: string; body: unknown; follows?: string; contract?: string; stage?: string; accepted?: boolean }

function cases(name: string): Case[] {
  return readFileSync(join(VECTORS, name), 'utf8').trim().split('\n').map((line) => JSON.parse(line) as Case);
}

/** The body as a verifier reads it: from its bytes. */
function bodyOf(one: Case): Members {
  return parseCanonical(utf8(canonicalText(one.body))) as Members;
}

function follows(one: Case): string {
  try {
    return rederive(readClause(bodyOf(one))).verdict;
  } catch (error) {
    assert.ok(error instanceof NoVerdict || error instanceof CannotDerive, String(error));
    return 'refused';
  }
}

for (const version of [1, 2]) {
  for (const one of cases(`rules_${version}.jsonl`)) {
    test(`rules ${version}: ${one.name}`, () => assert.equal(follows(one), one.follows));
  }
  for (const one of cases(`contract_terms_${version}.jsonl`)) {
    test(`contract terms ${version}: ${one.name}`, () => {
      let accepted = false;
      try {
        const document: unknown = JSON.parse(one.contract ?? '');
        const terms = readTerms(document);
        // A document is known by its digest: a spelling that says a name twice is another document.
        const isItself = canonicalText(document) === one.contract;
        accepted = isItself && terms !== undefined && faultUnder(terms, readClause(bodyOf(one)), one.stage ?? '') === undefined;
      } catch (error) {
        assert.ok(error instanceof SyntaxError || error instanceof CannotDerive, String(error));
      }
      assert.equal(accepted, one.accepted);
    });
  }
}

test('the comparisons say what was compared with what', () => {
  const one = cases('rules_2.jsonl').find(({ name }) => name === 'test: proven')!;
  const { comparisons } = rederive(readClause(bodyOf(one)));
  assert.deepEqual(comparisons[0], { left: 'p_proof', leftValue: 0.05, sign: '≤', right: 'alpha', rightValue: 0.05, holds: true });
});

test('contracts are known by the digest of their canonical form', () => {
  for (const { digest, canonical } of fixtures().contracts) assert.equal(documentDigest(canonical), digest);
});

test('every verdict of a real log follows from its numbers, and each under its contract', () => {
  let clauses = 0;
  const contracts = new Map(fixtures().contracts.map(({ digest, canonical }) => [digest, canonical]));
  for (const source of fixtures().entries) {
    const entry = readEntry(utf8(source));
    if (entry.kind !== 'verdict_reached' || entry.body['scope'] === 'stage') continue;
    clauses++;
    const clause = readClause(entry.body);
    assert.equal(rederive(clause).verdict, clause.verdict);
    const terms = readTerms(contracts.get(entry.subject.contract ?? ''));
    assert.equal(faultUnder(terms!, clause, entry.subject.stage ?? ''), undefined);
  }
  assert.ok(clauses > 100);
});

test('the verdict of a stage counts what was done in the canary', () => {
  const violated = readClause(bodyOf(cases('rules_2.jsonl').find(({ name }) => name === 'test: harm')!));
  const pass = { ...violated, verdict: 'pass' as const };
  const harmed = { ...violated, verdict: 'violated' as const };
  assert.equal(stageVerdict([], { action: '', hasEnded: true }), 'pass');
  assert.equal(stageVerdict([pass, harmed], { action: '', hasEnded: true }), 'violated');
  assert.equal(stageVerdict([pass, { ...harmed, severity: 'soft' }], { action: '', hasEnded: true }), 'pass');
  assert.equal(stageVerdict([{ ...pass, verdict: 'inconclusive', role: 'monitored' }], { action: '', hasEnded: true }), 'pass');
  assert.equal(stageVerdict([pass], { action: 'advance', hasEnded: false }), 'inconclusive');
  assert.equal(stageVerdict([pass], { action: 'finish', hasEnded: true }), 'pass');
  assert.equal(stageVerdict([pass], { action: 'revert', hasEnded: true }), 'error');
  assert.equal(stageVerdict([pass], { action: 'inconclusive', hasEnded: true }), 'inconclusive');
  assert.equal(stageVerdict([{ ...harmed, severity: 'soft' }], { action: 'rollback', hasEnded: true }), 'violated');
});

test('a version of the rules that nobody knows is refused', () => {
  const one = cases('rules_2.jsonl')[0]!;
  const clause = { ...readClause(bodyOf(one)), rules: 3 };
  assert.throws(() => rederive(clause), CannotDerive);
  assert.throws(() => severityOf(clause, 'hard'), CannotDerive);
});
