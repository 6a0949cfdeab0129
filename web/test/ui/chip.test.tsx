import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderToString } from 'preact-render-to-string';
import { StageChips, stageLook } from '../../src/ui/chip';
import { ShareBar } from '../../src/ui/share';
import { promotion } from '../promotion';

test('each stage has a word of its own', () => {
  const waiting = promotion();
  const words = (['offline-numeric', 'statistical-slice', 'shadow-runtime', 'canary'] as const).map((stage) => stageLook(waiting, stage).word);
  assert.deepEqual(words, ['pass', 'pass', 'pass', 'waiting']);
  assert.equal(stageLook({ ...waiting, stages: [] }, 'canary').word, 'not reached');
  assert.equal(stageLook(promotion({ state: 'paused' }), 'canary').word, 'paused');
  assert.equal(stageLook(promotion({ state: 'running' }), 'canary').word, 'running');
  assert.equal(stageLook(promotion({ state: 'aborted' }), 'canary').word, 'stopped');
});

test('the newest attempt of a stage counts, and its counts are told', () => {
  const stages = [
    { stage: 'offline-numeric' as const, attempt: 1, state: 'inconclusive', verdict: 'inconclusive' },
    { stage: 'offline-numeric' as const, attempt: 2, state: 'violated', verdict: 'violated', counts: { pass: 3, violated: 1, inconclusive: 0, error: 0 } },
  ];
  const look = stageLook(promotion({ stages }), 'offline-numeric');
  assert.equal(look.word, 'violated');
  assert.equal(look.detail, '1 clause violated, 3 clauses pass, attempt 2');
});

test('chips have icon and word, the bar has its number as name', () => {
  const html = renderToString(<StageChips promotion={promotion()} />);
  assert.equal(html.match(/<svg/g)?.length, 4);
  assert.match(html, />waiting</);
  assert.match(renderToString(<ShareBar bp={5000} />), /aria-label="share of the candidate: 50%"/);
  assert.match(renderToString(<ShareBar bp={null} />), /unknown/);
});
