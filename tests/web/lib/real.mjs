// A running daemon: its control server (tests/web/daemon_world.py) and its API as its people use it.
import { assert, PATIENCE_MS } from './browser.mjs';

const control = process.env.DRIFTGATE_WEB_CONTROL;

async function ask(path, body = {}) {
  const response = await fetch(`${control}/${path}`, { method: 'POST', body: JSON.stringify(body) });
  const value = await response.json();
  assert.equal(response.status, 200, `${path}: ${value.error}`);
  return value;
}

export const daemon = {
  info: () => ask('info'),
  promote: async (kernel, name, offline = true) => (await ask('promote', { kernel, name, offline })).id,
  stop: () => ask('stop'),
  start: () => ask('start'),
  person: (name, scopes) => ask('person', { name, scopes }),
};

/** Asks the API as one of the people; fails unless the status is the expected one. */
export async function api(info, who, method, path, body, expect = 200, headers = {}) {
  const response = await fetch(info.url + path, { method, body: body && JSON.stringify(body),
    headers: { Authorization: `Bearer ${info.people[who].bearer}`, ...(body ? { 'Content-Type': 'application/json' } : {}), ...headers } });
  const text = await response.text();
  assert.equal(response.status, expect, `${method} ${path} as ${who}: ${text.slice(0, 400)}`);
  return /json/.test(response.headers.get('content-type') ?? '') ? JSON.parse(text) : text;
}

const ENDED = ['succeeded', 'rejected', 'errored', 'aborted', 'expired', 'superseded'];

/** Waits for a promotion to be in one of the states, as its event stream tells; fails when it ended elsewhere. */
export async function reach(info, id, states, patience = PATIENCE_MS * 4) {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(new Error(`${id} did not reach ${states}`)), patience);
  try {
    for (;;) {
      const response = await fetch(`${info.url}/v1/promotions/${id}/events`, { signal: stop.signal,
        headers: { Authorization: `Bearer ${info.people.vera.bearer}` } });
      for await (const part of response.body) {
        if (!part) continue;
        const seen = await api(info, 'vera', 'GET', `/v1/promotions/${id}`);
        if (states.includes(seen.state)) return seen;
        assert.ok(!ENDED.includes(seen.state), `${id} ended as ${seen.state}, expected ${states}: ${seen.reason}`);
      }
    }
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
}
