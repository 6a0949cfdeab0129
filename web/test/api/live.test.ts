// The stream of one tab against a daemon and a browser that are played here.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { awaySince, comebackAt, comebacks, connection, onEvent, treeSize, type LiveEvent } from '../../src/api/events';
import { startLive } from '../../src/api/live';
import { loadSession, session, signedState } from '../../src/api/session';
import { sessionOf } from '../promotion';

class Stream {
  readonly encoder = new TextEncoder();
  control!: ReadableStreamDefaultController<Uint8Array>;
  readonly body = new ReadableStream<Uint8Array>({ start: (control) => { this.control = control; } });
  send(event: string, data: unknown, id?: number) {
    this.control.enqueue(this.encoder.encode(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`));
  }
}

const page = new EventTarget() as EventTarget & { hidden: boolean };
page.hidden = false;
const tab = new EventTarget();
Object.assign(globalThis, {
  document: page, addEventListener: tab.addEventListener.bind(tab), removeEventListener: tab.removeEventListener.bind(tab), BroadcastChannel: undefined,
});
// Web Locks with nobody else in the browser.
Object.defineProperty(globalThis, 'navigator', { configurable: true, value: { locks: { request: (_: string, __: unknown, run: () => unknown) => Promise.resolve(run()) } } });

/** The next request of the page, which waits until it is answered. */
const asked: { path: string; answer: (response: Response | Error) => void; signal: AbortSignal }[] = [];
let wake: (() => void) | null = null;
globalThis.fetch = ((path: string, init: RequestInit) => new Promise((done, failed) => {
  asked.push({ path, signal: init.signal as AbortSignal, answer: (response) => (response instanceof Error ? failed(response) : done(response)) });
  init.signal?.addEventListener('abort', () => failed(new DOMException('aborted', 'AbortError')));
  wake?.();
})) as typeof fetch;
async function nextRequest() {
  while (!asked.length) await new Promise<void>((done) => { wake = done; });
  return asked.shift()!;
}
const events: LiveEvent[] = [];
let heard: (() => void) | null = null;
onEvent((event) => { events.push(event); heard?.(); });
async function until(condition: () => boolean) {
  while (!condition()) await new Promise<void>((done) => { heard = done; setTimeout(done, 5); });
}
const hello = (size: number, started = 1) => ({ tree_size: size, server: { version: '1', started_us: started } });
const entry = (seq: number) => ({ v: 1, seq, time_us: seq, kind: 'state_changed', subject: { promotion: 'pr-1' }, body: {} });

test('a tab reads, resumes behind the last id, notices another log, and ends with the session', async () => {
  session.value = sessionOf('ana', 'viewer');
  signedState.value = 'in';
  startLive();
  const first = await nextRequest();
  assert.equal(first.path, '/v1/events', 'from the present');
  const stream = new Stream();
  first.answer(new Response(stream.body));
  stream.send('hello', hello(10));
  await until(() => connection.value === 'live');
  assert.equal(treeSize.value, 10);
  assert.equal(events.at(-1)?.type, 'reset', 'what was read before the stream began is read again');
  stream.send('state_changed', entry(12), 12);
  await until(() => events.at(-1)?.type === 'entry');
  assert.equal(treeSize.value, 13);

  // Lost: away, then back with the entries that were missed.
  stream.control.error(new Error('cut'));
  await until(() => connection.value === 'away');
  const before = comebacks.value;
  const second = await nextRequest();
  assert.equal(second.path, '/v1/events?after=12');
  const again = new Stream();
  second.answer(new Response(again.body));
  again.send('hello', hello(14));
  again.send('state_changed', entry(13), 13);
  await until(() => events.at(-1)?.type === 'entry' && treeSize.value === 14);
  assert.equal(connection.value, 'live');
  assert.equal(comebacks.value, before + 1);

  // A log that is shorter than what was seen.
  again.send('reset', { tree_size: 5 });
  await until(() => events.at(-1)?.type === 'reset');
  assert.equal(treeSize.value, 5);

  // The computer slept: the clock has gone on and no heartbeat came, so nothing is called live until the daemon speaks.
  const clock = Date.now;
  const heardAt = clock();
  Date.now = () => clock() + 25_000;
  await until(() => connection.value === 'connecting');
  assert.ok(awaySince.value !== null && awaySince.value <= heardAt, 'since it was last heard');
  again.control.enqueue(again.encoder.encode(':\n\n'));
  await until(() => connection.value === 'live');
  assert.equal(comebacks.value, before + 2, 'everything is read again');
  assert.ok(comebackAt.value > heardAt);
  Date.now = clock;

  again.control.error(new Error('cut'));
  const third = await nextRequest();
  assert.equal(third.path, '/v1/events?after=4');

  // Another person has signed in: nothing of the stream goes on in their name.
  const other = new Stream();
  third.answer(new Response(other.body));
  other.send('hello', hello(5));
  await until(() => connection.value === 'live');
  const loading = loadSession();
  (await nextRequest()).answer(new Response(JSON.stringify(sessionOf('bo', 'viewer')), { headers: { 'Content-Type': 'application/json' } }));
  await loading;
  assert.equal(third.signal.aborted, true);
  const fourth = await nextRequest();
  assert.equal(fourth.path, '/v1/events', 'from the present, and not behind what the other has seen');

  // Refused: signed out at once, and nothing is asked any more.
  fourth.answer(new Response('{"code":"unauthenticated","detail":"revoked"}', { status: 401, headers: { 'Content-Type': 'application/problem+json' } }));
  await until(() => signedState.value === 'out');
  assert.equal(session.value, null);
  assert.equal(asked.length, 0);
});
