import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Promotion, PromotionItem, StageRun } from '../../src/api/types';
import { readSeries } from '../../src/charts/series';
import { byUrgency } from '../../src/views/promotion/urgency';
import { createStore, promotionPath, runsOf, slicesPath, timesOf, withProgress } from '../../src/views/promotion/store';

const run = (stage: StageRun['stage'], attempt: number, more: Partial<StageRun> = {}): StageRun => ({ stage, attempt, state: 'pass', ...more });
const known: Promotion = {
  id: 'pr-1', model: 'm', engine: 'e', contract: 'sha256:0', requester: 'r', state: 'awaiting_approval', stage: 'canary', traffic: 'live', reason: '',
  created_us: 1, updated_us: 100, candidate: null, baseline: null, share_bp: 1000,
  stages: [run('offline-numeric', 1, { state: 'inconclusive' }), run('offline-numeric', 2), run('canary', 1, { state: 'running', summary: { verdicts: { pass: 1, violated: 0, inconclusive: 0, error: 0 }, open: [] } })],
  approval: { needed: 1, given: [], step: 1, evidence_digest: 'sha256:1', deadline_us: null },
};
const { approval: _, ...bare } = known;
const item = (more: Partial<PromotionItem>): PromotionItem => ({ ...bare, stages: [run('offline-numeric', 2), run('canary', 1, { state: 'running' })], updated_us: 101, ...more });

test('progress changes what it tells of and keeps the rest', () => {
  const now = withProgress(known, item({ share_bp: 5000 }));
  assert.equal(now.share_bp, 5000);
  assert.deepEqual(now.stages.map((one) => [one.stage, one.attempt]), [['offline-numeric', 1], ['offline-numeric', 2], ['canary', 1]]);
  assert.equal(now.stages[2]?.summary?.verdicts.pass, 1);
  assert.equal(now.approval?.step, 1);
});

test('an approval is no longer shown once the promotion does not wait for it', () => {
  assert.equal(withProgress(known, item({ state: 'running' })).approval, null);
});

test('progress of another promotion, or older than what is known, changes nothing', () => {
  assert.equal(withProgress(known, item({ id: 'pr-2' })), known);
  assert.equal(withProgress(known, item({ updated_us: 99 })), known);
});

test('the newest attempt of a stage is told from those before it', () => {
  const { newest, earlier } = runsOf(known, 'offline-numeric');
  assert.equal(newest?.attempt, 2);
  assert.deepEqual(earlier.map((one) => one.attempt), [1]);
  assert.equal(runsOf(known, 'shadow-runtime').newest, null);
});

test('time that waits for people is kept apart from time that works', () => {
  const point = (time_us: number, action: string) => ({ time_us, action, phase: 'ramping', share_bp: 0 });
  const state = (time_us: number, text: string) => ({ time_us, seq: time_us, kind: 'state_changed', text, actor: null });
  const series = readSeries({
    points: [point(1e6, 'hold'), point(2e6, 'wait_approval'), point(7e6, 'advance'), point(8e6, 'hold')],
    marks: [state(0, 'queued → running'), state(2e6, 'running → awaiting_approval: the step waits'), state(7e6, 'awaiting_approval → running'), state(9e6, 'running → paused: slow')],
  });
  assert.deepEqual(timesOf(series, 20_000), { working: 3000, waiting: 16_000 });
  assert.deepEqual(timesOf(readSeries({}), 20_000), { working: 0, waiting: 0 });
});

test('live clauses stand failing first, then those nearest to their level of harm', () => {
  const clause = (name: string, verdict: string, e_value: number) => ({ clause: name, e_harm_needed: 800, points: [{ n: 1, verdict, e_value }] });
  const series = readSeries({ clauses: [clause('a', 'pass', 1), clause('b', 'inconclusive', 1), clause('c', 'inconclusive', 400), clause('d', 'violated', 900), { clause: 'e', points: [] }] });
  assert.deepEqual(byUrgency(series.clauses).map((one) => one.clause), ['d', 'c', 'b', 'e', 'a']);
});

test('names in addresses are escaped', () => {
  assert.equal(promotionPath('a/b?c'), '/v1/promotions/a%2Fb%3Fc');
  assert.equal(slicesPath('pr-1', { stage: 'statistical-slice', slice: 'language=d&e' }), '/p/pr-1/slices?stage=statistical-slice&slice=language%3Dd%26e');
  assert.equal(slicesPath('pr-1'), '/p/pr-1/slices');
});

test('what an action leaves reaches the store by one function', () => {
  const seen: (Promotion | undefined)[] = [];
  const store = createStore('pr-1', known, (now) => seen.push(now));
  store.changed(undefined);
  assert.deepEqual(seen, [undefined]);
  assert.equal(store.series.value.points.length, 0);
});
