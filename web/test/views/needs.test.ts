import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StatusItem } from '../../src/api/types';
import { changesPromotions, needsOf, sortedNeeds, withModelPromotion, withPromotion } from '../../src/views/overview/needs';
import { promotion, sessionOf } from '../promotion';

test('what needs me follows my scopes and who asked', () => {
  const item = promotion();
  const actions = (...scopes: Parameters<typeof sessionOf> extends [string, ...infer S] ? S : never) => needsOf(item, sessionOf('bo', ...scopes)).map((one) => one.action);
  assert.deepEqual(actions('viewer'), []);
  assert.deepEqual(actions('approver'), ['approve']);
  assert.deepEqual(actions('operator'), ['abort']);
  assert.deepEqual(actions('admin'), ['abort'], 'an admin does not approve');
  assert.deepEqual(needsOf(item, sessionOf('ana', 'approver')), [], 'nobody approves what they asked for');
  assert.deepEqual(needsOf(item, null), []);
  const recipe = { ...item, request: { recipe: { revision: 3, set_by: 'Bo', parts: ['/contract'] } } };
  assert.deepEqual(needsOf(recipe, sessionOf('bo', 'approver')), [], 'nobody approves what took from a recipe that they set');
  assert.deepEqual(sortedNeeds(item, sessionOf('bo', 'operator')).map((one) => one.need.action), ['abort', 'approve'], 'mine first');
});

test('an event changes one row and no other', () => {
  const list = [promotion({ id: 'pr-1' }), promotion({ id: 'pr-2' })];
  const item = promotion({ id: 'pr-2', share_bp: 9900 });
  const changed = withPromotion(list, item);
  assert.equal(changed[0], list[0]);
  assert.equal(changed[1], item);
  assert.equal(withPromotion(list, promotion({ id: 'pr-9' })), list);
});

test('a model shows its open promotion', () => {
  const model = { model: 'tinylm', promotion: null, schedules: [] } as unknown as StatusItem;
  const other = { ...model, model: 'other' };
  const changed = withModelPromotion([other, model], promotion());
  assert.equal(changed[0], other);
  assert.equal(changed[1]?.promotion?.id, 'pr-1');
  const queued = promotion({ id: 'pr-2', state: 'queued' });
  assert.equal(withModelPromotion(changed, queued), changed, 'a queued one does not take the place of the open one');
  const waits = withModelPromotion([model], queued);
  assert.equal(waits[0]?.promotion?.id, 'pr-2');
  assert.equal(withModelPromotion(waits, promotion())[0]?.promotion?.id, 'pr-1', 'the open one takes the place of a queued one');
  const list = [model];
  assert.equal(withModelPromotion(list, promotion({ state: 'succeeded' })), list, 'one that has ended is none');
  assert.equal(withModelPromotion(changed, promotion({ state: 'succeeded' }))[1]?.promotion?.state, 'succeeded', 'until the list is read again');
});

test('which events make the lists be read again', () => {
  const entry = (kind: string) => ({ type: 'entry' as const, entry: { v: 1, seq: 1, time_us: 1, kind, subject: {}, body: {} } });
  assert.equal(changesPromotions(entry('state_changed')), true);
  assert.equal(changesPromotions(entry('token_granted')), false);
  assert.equal(changesPromotions({ type: 'progress', item: promotion() }), false);
});
