import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { loadSession, session } from '../../src/api/session';
import { differences, newKey, startAction, started, whyNot } from '../../src/app/actions/action';
import { issueToken, liftBlock, liftHold, revokeToken, scheduleAction, webhookAction } from '../../src/app/actions/others';
import { overlay } from '../../src/app/overlays';
import { abort, actionsOf, approve, pause, resume, rollback, waive } from '../../src/app/actions/promotion';
import { promotion, sessionOf } from '../promotion';

beforeEach(() => {
  session.value = sessionOf('bo', 'approver', 'operator');
  started.value = null;
});

test('an approval names its own evidence, abort and the like what is shown', () => {
  assert.deepEqual(approve(promotion()).body?.('read'), { reason: 'read', evidence_digest: 'sha256:approval' });
  assert.deepEqual(abort(promotion()).body?.('bad'), { reason: 'bad', evidence_digest: 'sha256:shown' });
  const shown = approve(promotion()).shown.find((one) => one.digest);
  assert.equal(shown?.value, 'sha256:approval', 'what is sent is shown');
});

test('abort and rollback are always there, refused with a reason when they cannot be', () => {
  for (const state of ['queued', 'running', 'paused', 'awaiting_approval', 'inconclusive', 'succeeded', 'rejected', 'aborted'] as const) {
    const actions = actionsOf(promotion({ state }));
    for (const name of ['abort', 'rollback']) {
      const action = actions.find((one) => one.name === name);
      assert.ok(action, `${name} of a promotion that is ${state}`);
      assert.ok(action.refused === null || action.refused.length > 10);
    }
  }
  assert.match(abort(promotion({ state: 'rejected' })).refused ?? '', /ended: rejected/);
  assert.equal(rollback(promotion({ state: 'succeeded' })).refused, null, 'what serves can be rolled back');
  assert.notEqual(rollback(promotion({ state: 'succeeded', traffic: 'reverted' })).refused, null);
});

test('nobody approves what they asked for, nor twice', () => {
  session.value = sessionOf('Ana', 'approver');
  assert.match(approve(promotion()).refused ?? '', /another person/);
  session.value = sessionOf('bo', 'approver');
  assert.equal(approve(promotion()).refused, null);
  const given = { ...promotion().approval!, given: [{ who: 'bo', given_us: 1, reason: '' }] };
  assert.match(approve(promotion({ approval: given })).refused ?? '', /have approved/);
});

test('a missing scope is named before anything else', () => {
  session.value = sessionOf('vi', 'viewer');
  assert.equal(whyNot(abort(promotion({ state: 'rejected' }))), 'Needs the scope operator; your token has: viewer.');
  startAction(abort(promotion()));
  assert.equal(started.value, null, 'a refused action opens nothing');
  session.value = sessionOf('admin', 'admin');
  assert.equal(whyNot(abort(promotion())), null, 'admin implies operator');
  assert.match(whyNot(approve(promotion())) ?? '', /approver/, 'and never approver');
});

test('pause and resume follow the state', () => {
  assert.equal(pause(promotion({ state: 'running' })).refused, null);
  assert.match(pause(promotion({ state: 'queued' })).refused ?? '', /queued/);
  assert.equal(resume(promotion({ state: 'paused' })).refused, null);
  assert.equal(resume(promotion({ state: 'inconclusive' })).verb, 'Repeat the stage');
});

test('a waiver names clause and report', () => {
  const waiver = { needed: 2, evidence_digest: 'sha256:report', deadline_us: null, clauses: [{ clause: 'numerical.kl', given: [] }] };
  const action = waive(promotion({ state: 'inconclusive', waiver }), 'numerical.kl');
  assert.equal(action.refused, null);
  assert.deepEqual(action.body?.('small'), { reason: 'small', clause: 'numerical.kl', evidence_digest: 'sha256:report' });
  assert.notEqual(waive(promotion({ state: 'inconclusive', waiver }), 'numerical.tv').refused, null);
});

test('differences are told member by member', () => {
  const before = abort(promotion()).shown;
  const after = abort(promotion({ state: 'paused', share_bp: 1000, evidence_shown: 'sha256:other' })).shown;
  assert.deepEqual(differences(before, after).map((one) => [one.name, one.was, one.now]), [
    ['State', 'awaiting approval', 'paused'], ['Share of the candidate', '50%', '10%'], ['Evidence that you decide on', 'sha256:shown', 'sha256:other'],
  ]);
  assert.deepEqual(differences(before, before), []);
});

test('a key is new for each dialog', () => {
  assert.match(newKey(), /^page-[0-9a-f]{36}$/);
  assert.notEqual(newKey(), newKey());
});

test('holds and schedules', () => {
  assert.match(liftHold({ name: 'a/b', hold: null }).refused ?? '', /not on hold/);
  assert.equal(liftHold({ name: 'a/b', hold: { reason: 'r', by: 'x', since_us: 1, promotion: null } }).path, '/v1/models/a%2Fb/lift-hold');
  const schedule = { name: 'n', cron: '* * * * *', timezone: 'UTC', promotion: {}, misfire: 'skip', grace_s: 0, if_running: 'skip', paused: true, owner: 'ana', revision: 3, next_us: null, fires: [] };
  assert.deepEqual(scheduleAction('resume', schedule, '"7"').headers, { 'If-Match': '"7"' });
  assert.match(scheduleAction('pause', schedule, '"7"').refused ?? '', /paused/);
});

test('what was only ordered is not said to be done', () => {
  const said = (action: { done: string | ((answer: unknown) => string) }, answer: unknown) => (typeof action.done === 'string' ? action.done : action.done(answer));
  assert.match(said(abort(promotion()), promotion({ state: 'rolling_back' })), /^Ordered for pr-1: .* is being taken back/);
  assert.match(said(rollback(promotion()), undefined), /^Ordered/);
  assert.match(said(abort(promotion({ state: 'running', traffic: 'never_exposed' })), promotion({ state: 'running', traffic: 'never_exposed' })), /has had no traffic/);
  assert.equal(said(abort(promotion()), promotion({ state: 'aborted' })), 'pr-1 is now aborted.');
  const serving = rollback(promotion({ state: 'succeeded' }));
  assert.match(said(serving, promotion({ state: 'succeeded', traffic: 'reverted' })), /is rolled back/);
  assert.match(said(serving, promotion({ state: 'succeeded', traffic: 'live' })), /is ordered/);
});

test('an approval says what follows it: a step, the bake, or the end', () => {
  const at = (step: number) => approve(promotion({ canary: { step, steps: 3, phase: 'ramping', share_bp: 5000 }, approval: { ...promotion().approval!, needed: 1 } })).effect;
  assert.match(at(1), /next step/);
  assert.match(at(2), /The bake begins/);
  assert.match(at(3), /becomes the incumbent/);
});

test('only what the daemon takes with an idempotency key is called safe to repeat', () => {
  const schedule = { name: 'n', cron: '* * * * *', timezone: 'UTC', promotion: {}, misfire: 'skip', grace_s: 0, if_running: 'skip', paused: false, owner: 'ana', revision: 3, next_us: null, fires: [] };
  const hook = { name: 'w', url: 'https://w', events: [], disabled: null, pending: 0, delivered: 0, failed: 0, dropped: 0, last_error: '' };
  const token = { id: 'tk-1', name: 'x', scopes: [], granted_by: 'a', created_us: 1, expires_us: null, revoked_us: null };
  const block = { id: 'b', checkpoint: 'c', kernel: 'k', contract: 'c', promotion: 'p', reason: 'r', by: 'x', since_us: 1, lifted: null };
  const once = [issueToken({ name: 'x', scopes: [], expires_in_s: null }, '1 h'), webhookAction('test', hook), webhookAction('enable', hook), revokeToken(token, false), scheduleAction('pause', schedule, '"7"')];
  assert.deepEqual(once.map((one) => one.repeatable), [false, false, false, false, false]);
  for (const action of [liftBlock(block), liftHold({ name: 'm', hold: null }), ...actionsOf(promotion())]) assert.notEqual(action.repeatable, false, action.name);
});

test('an open dialog does not outlive the person who opened it', async () => {
  const realFetch = globalThis.fetch;
  startAction(approve(promotion()));
  assert.ok(started.value);
  overlay.value = 'search';
  globalThis.fetch = (async () => new Response(JSON.stringify({ ...sessionOf('cy', 'approver') }))) as typeof fetch;
  await loadSession();
  globalThis.fetch = realFetch;
  assert.equal(session.value?.name, 'cy');
  assert.deepEqual([started.value, overlay.value], [null, null]);
});
