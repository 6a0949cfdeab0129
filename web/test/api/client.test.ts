import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { asProblem, Problem, request, withQuery } from '../../src/api/client';
import { session, signedOutWhy, signedState } from '../../src/api/session';
import { sessionOf } from '../promotion';

const realFetch = globalThis.fetch;
afterEach(() => {
  globalThis.fetch = realFetch;
  session.value = null;
});

type Answer = { status: number; body: unknown; type?: string };

/** Answers in turn and keeps what was asked. */
function answering(...answers: (Answer | 'down')[]) {
  const asked: { path: string; init: RequestInit & { headers: Record<string, string> } }[] = [];
  globalThis.fetch = (async (path: string, init: RequestInit) => {
    asked.push({ path, init: init as never });
    const answer = answers.shift();
    if (!answer || answer === 'down') throw new TypeError('no network');
    const body = answer.status === 204 ? null : JSON.stringify(answer.body);
    return new Response(body, { status: answer.status, headers: { 'Content-Type': answer.type ?? 'application/json' } });
  }) as typeof fetch;
  return asked;
}

test('only what changes something carries the CSRF token', async () => {
  session.value = sessionOf('ana', 'viewer');
  const asked = answering({ status: 200, body: {} }, { status: 200, body: {} });
  await request('/v1/models');
  await request('/v1/x', { method: 'POST', body: { a: 1 } });
  assert.equal(asked[0]?.init.headers['X-CSRF-Token'], undefined);
  assert.equal(asked[1]?.init.headers['X-CSRF-Token'], 'csrf');
  assert.equal(asked[1]?.init.body, '{"a":1}');
});

test('a problem keeps its code and detail; a lost daemon is one too', async () => {
  answering({ status: 409, body: { code: 'conflict', detail: 'it is paused now', errors: [] }, type: 'application/problem+json' }, 'down');
  await assert.rejects(request('/v1/x'), (error: Problem) => error.status === 409 && error.code === 'conflict' && error.detail === 'it is paused now' && !error.away);
  await assert.rejects(request('/v1/x'), (error: Problem) => error.status === 0 && error.away);
  assert.equal(asProblem('odd').detail, 'odd');
});

test('401 ends the session', async () => {
  session.value = sessionOf('ana', 'viewer');
  signedState.value = 'in';
  answering({ status: 401, body: { code: 'unauthenticated', detail: 'the token is revoked' } });
  await assert.rejects(request('/v1/x'));
  assert.equal(signedState.value, 'out');
  assert.match(signedOutWhy.value, /the token is revoked/);
});

test('an old CSRF token is renewed once', async () => {
  session.value = sessionOf('ana', 'operator');
  const fresh = { ...sessionOf('ana', 'operator'), csrf: 'new' };
  const asked = answering({ status: 403, body: { code: 'forbidden', detail: 'wrong token' } }, { status: 200, body: fresh }, { status: 200, body: { ok: true } });
  assert.deepEqual(await request('/v1/x', { method: 'POST', body: {} }), { ok: true });
  assert.equal(asked[2]?.init.headers['X-CSRF-Token'], 'new');
  const again = answering({ status: 403, body: { code: 'forbidden', detail: 'no scope' } }, { status: 200, body: fresh });
  await assert.rejects(request('/v1/x', { method: 'POST', body: {} }), /no scope/);
  assert.equal(again.length, 2, 'the same token again: the refusal stands');
});

test('what one person decided is never sent in the name of another', async () => {
  session.value = sessionOf('ana', 'approver');
  const other = { ...sessionOf('bo', 'approver'), token: 'tok-bo', csrf: 'new' };
  const asked = answering({ status: 403, body: { code: 'forbidden', detail: 'wrong token' } }, { status: 200, body: other }, { status: 200, body: {} });
  await assert.rejects(request('/v1/x', { method: 'POST', body: {} }), (error: Problem) => error.code === 'other_session' && /Nothing was sent/.test(error.detail));
  assert.equal(asked.length, 2, 'the refused request and the question who is signed in');
});

test('a body that breaks off is an unreachable daemon', async () => {
  const broken = new ReadableStream({ pull: (control) => control.error(new TypeError('cut')) });
  globalThis.fetch = (async () => new Response(broken, { headers: { 'Content-Type': 'application/json' } })) as typeof fetch;
  await assert.rejects(request('/v1/x'), (error: Problem) => error.code === 'unreachable' && error.away);
});

test('a query leaves out what is not set', () => {
  assert.equal(withQuery('/v1/p', { a: '', b: null, c: undefined, d: false }), '/v1/p');
  assert.equal(withQuery('/v1/p', { a: 'x y', limit: 5, open: true }), '/v1/p?a=x+y&limit=5&open=true');
});
