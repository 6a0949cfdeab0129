// The one stream of events of the whole browser. The tab that leads (leader.ts) reads it and passes everything on to
// the others; hidden tabs do not stand for election, so that nothing is read when nobody looks.

import { respond, asProblem } from './client';
import { awaySince, comebackAt, comebacks, connection, daemon, emit, liveFault, restarted, treeSize } from './events';
import { leadership, type Leadership } from './leader';
import { announceBy, onSessionChange, session, sessionChangedElsewhere, signedState } from './session';
import { SseParser, type SseEvent } from './sse';
import type { Entry, PromotionItem, Server } from './types';

/** What tabs tell each other. */
type Message =
  | { kind: 'event'; event: SseEvent }
  | { kind: 'state'; seq: number; connection: 'connecting' | 'live' | 'away'; since: number | null; fault: string }
  | { kind: 'who' }
  | { kind: 'session'; what: 'in' | 'out' };

const HIDDEN_GRACE_MS = 2000;
/** The daemon sends a heartbeat every 15 s. */
const SILENCE_MS = 40_000;
/** After a longer absence everything is read anew rather than every event made up for. */
const RESUME_MS = 10 * 60_000;
/** A heartbeat has not come: what is shown may be out of date. */
const OLD_MS = 20_000;
/** How often the leader looks at the clock: timers stand still while a computer sleeps, and the clock does not. */
const LOOK_MS = 2000;
const RETRY_MS = [500, 1000, 2000, 4000, 8000];

let lastSeq: number | null = null;
let lastHeard = 0;
let channel: BroadcastChannel | null = null;
let leader: Leadership | null = null;
let leading = false;
let hiddenTimer: ReturnType<typeof setTimeout> | undefined;

/** Whose the stream is: another person's begins anew, since people see different things. */
let streamOf: string | undefined;

/** Hears from other tabs and tells them of sign-ins. Called once, before this tab signs anybody in. */
export function joinTabs(): void {
  if (typeof BroadcastChannel !== 'undefined') {
    channel = new BroadcastChannel('driftgate');
    channel.onmessage = (message: MessageEvent<Message>) => hear(message.data);
  }
  announceBy((what) => tell({ kind: 'session', what }));
}

/** Starts to take part in reading the stream; called once, after joinTabs. */
export function startLive(): void {
  leader = leadership();
  onSessionChange(follow);
  document.addEventListener('visibilitychange', follow);
  addEventListener('pagehide', () => leader?.withdraw());
  addEventListener('pageshow', follow);
  follow();
}

/** Stands for election, or withdraws, according to who is signed in and whether anybody looks. */
function follow(): void {
  clearTimeout(hiddenTimer);
  if (signedState.value !== 'in') {
    leader?.withdraw();
    lastSeq = null;
    streamOf = undefined;
    return;
  }
  if (streamOf !== session.value?.token) {
    leader?.withdraw();
    lastSeq = null;
    streamOf = session.value?.token;
  }
  if (document.hidden) {
    hiddenTimer = setTimeout(() => leader?.withdraw(), HIDDEN_GRACE_MS);
    return;
  }
  if (!leading) tell({ kind: 'who' });
  leader?.stand((end) => void lead(end));
}

function tell(message: Message): void {
  channel?.postMessage(message);
}

function tellState(): void {
  tell({ kind: 'state', seq: lastSeq ?? -1, connection: connection.value, since: awaySince.value, fault: liveFault.value });
}

function hear(message: Message): void {
  if (message.kind === 'session') return void sessionChangedElsewhere(message.what);
  if (signedState.value !== 'in') return;
  if (!leading && (message.kind === 'event' || (message.kind === 'state' && message.connection === 'live'))) lastHeard = Date.now();
  if (message.kind === 'who') {
    if (leading) tellState();
  } else if (!leading && message.kind === 'event') {
    take(message.event);
  } else if (!leading && message.kind === 'state') {
    const missed = message.seq > (lastSeq ?? message.seq);
    if (message.seq >= 0) lastSeq = Math.max(lastSeq ?? -1, message.seq);
    setConnection(message.connection, message.since, message.fault);
    if (missed) emit({ type: 'reset', why: 'events were missed', at: performance.now() });
  }
}

function setConnection(state: 'connecting' | 'live' | 'away', since: number | null, fault: string): void {
  const back = (connection.value === 'away' || (connection.value === 'connecting' && awaySince.value !== null)) && state === 'live';
  connection.value = state;
  awaySince.value = since;
  liveFault.value = fault;
  if (!back) return;
  comebackAt.value = Date.now();
  comebacks.value += 1;
}

function isAway(fault: string, since: number): void {
  setConnection('away', awaySince.value ?? since, fault);
  tellState();
}

async function lead(end: AbortSignal): Promise<void> {
  leading = true;
  // What stands on the page is as old as the last word of the daemon until it speaks again.
  if (lastHeard > 0 && Date.now() - lastHeard > OLD_MS) setConnection('connecting', lastHeard, '');
  let failures = 0;
  end.addEventListener('abort', () => { leading = false; }, { once: true });
  while (!end.aborted) {
    const began = Date.now();
    try {
      await readStream(end, () => { failures = 0; });
      if (end.aborted) return;
      // Ended by the daemon: it stops, or the session ended. Asking again at once tells which.
      if (Date.now() - began > 1000) continue;
      failures += 1;
    } catch (error) {
      if (end.aborted) return;
      const problem = asProblem(error);
      if (problem.status === 401) return;
      failures += 1;
      isAway(problem.away ? '' : problem.detail, lastHeard || Date.now());
    }
    await pause(RETRY_MS[Math.min(failures, RETRY_MS.length) - 1] ?? 500, end);
  }
}

/** Waits, but no longer than until the browser says that it is online again or the leadership ends. */
function pause(ms: number, end: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms * (0.75 + Math.random() / 2));
    function done() {
      clearTimeout(timer);
      removeEventListener('online', done);
      end.removeEventListener('abort', done);
      resolve();
    }
    addEventListener('online', done);
    end.addEventListener('abort', done);
  });
}

async function readStream(end: AbortSignal, connected: () => void): Promise<void> {
  const control = new AbortController();
  const stop = () => {
    clearInterval(watchdog);
    control.abort();
  };
  end.addEventListener('abort', stop, { once: true });
  let late = false;
  let greeted = false;
  let since = Date.now();
  const heard = () => {
    lastHeard = since = Date.now();
    if (!greeted || connection.value === 'live') return;
    setConnection('live', null, '');
    tellState();
  };
  const watchdog = setInterval(() => {
    const silent = Date.now() - since;
    if (silent > SILENCE_MS) {
      late = true;
      stop();
    } else if (silent > OLD_MS && connection.value === 'live') {
      setConnection('connecting', lastHeard, '');
      tellState();
    }
  }, LOOK_MS);
  const resume = lastSeq !== null && Date.now() - lastHeard < RESUME_MS;
  if (!resume) lastSeq = null;
  const asked = performance.now();
  try {
    const response = await respond(resume ? `/v1/events?after=${lastSeq}` : '/v1/events',
      { signal: control.signal, unlimited: true, headers: { Accept: 'text/event-stream' } });
    connected();
    heard();
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    const parser = new SseParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      const events = parser.take(decoder.decode(value, { stream: true }));
      // A heartbeat: the other tabs learn by it that the daemon is there.
      if (greeted && events.length === 0) tellState();
      for (const event of events) {
        take(event);
        tell({ kind: 'event', event });
        if (event.name !== 'hello') continue;
        greeted = true;
        setConnection('live', null, '');
        tellState();
        // What was read before the stream began may lack what happened in between.
        if (!resume) emit({ type: 'reset', why: 'the stream has begun', at: asked });
      }
    }
  } catch (error) {
    if (late) throw new Error('The daemon has sent nothing for 40 s.');
    throw error;
  } finally {
    clearInterval(watchdog);
    end.removeEventListener('abort', stop);
    control.abort();
  }
}

function take(event: SseEvent): void {
  let data: unknown;
  try {
    data = JSON.parse(event.data);
  } catch {
    return; // not JSON: nothing that this page knows
  }
  if (event.name === 'hello') return greet(data as { tree_size: number; server: Server });
  if (event.name === 'reset') {
    lastSeq = (data as { tree_size: number }).tree_size - 1;
    treeSize.value = lastSeq + 1;
    emit({ type: 'reset', why: 'the log is another one', at: performance.now() });
    return;
  }
  if (event.name === 'progress') return emit({ type: 'progress', item: data as PromotionItem });
  const seq = Number(event.id);
  if (event.id === '' || !Number.isSafeInteger(seq)) return;
  lastSeq = Math.max(lastSeq ?? -1, seq);
  if (treeSize.value === null || treeSize.value <= seq) treeSize.value = seq + 1;
  emit({ type: 'entry', entry: data as Entry });
}

function greet(hello: { tree_size: number; server: Server }): void {
  if (lastSeq === null) lastSeq = hello.tree_size - 1;
  if (treeSize.value === null || treeSize.value < hello.tree_size) treeSize.value = hello.tree_size;
  const before = daemon.value;
  daemon.value = hello.server;
  if (before && before.started_us !== hello.server.started_us) restarted.value = { at: Date.now(), version: hello.server.version, before: before.version };
}
