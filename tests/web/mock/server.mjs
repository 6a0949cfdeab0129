// A stand-in for the daemon without dependencies: serves the built page as the daemon does, and /v1 over a World.
//   node tests/web/mock/server.mjs --dist web/dist [--port 8123] [--extreme]   until it is ended
import { randomBytes } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { allows, OPERATIONS, Problem } from './api.mjs';
import { itemOf, World } from './world.mjs';
import { makeHostile, makeMany, makeManySlices } from './extreme.mjs';

export const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
  + "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
const PAGE_HEADERS = { 'Content-Security-Policy': CSP, 'X-Content-Type-Options': 'nosniff', 'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin', 'Cross-Origin-Resource-Policy': 'same-origin', 'Permissions-Policy': 'camera=(), geolocation=(), microphone=()' };
const PAGES = /^\/($|p\/|c\/|models\/|evidence$|evidence\/|schedules$|holds$|tokens$|settings$|health$)/;

const routes = OPERATIONS.map(([method, pattern, scope, handler]) => ({ method, scope, handler,
  test: new RegExp(`^${pattern.replace(/\{\w+\}/g, '([^/]+)')}$`) }));

async function bodyOf(request) {
  let size = 0;
  const parts = [];
  for await (const part of request) {
    size += part.length;
    if (size > 1 << 20) throw new Problem(413, 'limit_exceeded', 'the body is too long');
    parts.push(part);
  }
  const source = Buffer.concat(parts).toString();
  if (!source || !/json/.test(request.headers['content-type'] ?? '')) return { source };
  try { return JSON.parse(source); } catch { throw new Problem(422, 'invalid_document', 'the body is no JSON'); }
}

export class Mock {
  constructor({ dist, fixtures, port = 0 }) {
    this.dist = dist;
    this.manifest = new Map(JSON.parse(readFileSync(path.join(dist, 'manifest.json'), 'utf8')).files.map((file) => [file.path, file]));
    this.world = new World(fixtures);
    this.sessions = new Map(); // cookie → {token, csrf}
    this.streams = new Set();
    this.requests = []; // what the page asked, newest last: {method, path, status, headers, body}
    this.overrides = []; // [test(method, path), answer(request) → {status, json} or undefined]
    this.answers = new Map(); // by principal and idempotency key
    this.port = port;
    this.server = http.createServer((request, response) => this.serve(request, response));
  }

  async start() {
    await new Promise((done, failed) => this.server.once('error', failed).listen(this.port, '127.0.0.1', done));
    this.port = this.server.address().port;
    this.url = `http://127.0.0.1:${this.port}`;
    return this;
  }

  /** Ends it; open connections are cut, as when a daemon is killed. */
  async stop() {
    const closed = new Promise((done) => this.server.close(done)); // first: no browser connects anew in between
    this.server.closeAllConnections();
    this.streams.clear();
    await closed;
  }

  async restart() {
    this.server = http.createServer((request, response) => this.serve(request, response));
    this.world.started_us = this.tick();
    return this.start();
  }

  tick() { this.world.now_us += 1_000_000; return this.world.now_us; }

  /** Waits until `count` requests match. */
  async asked(method, where, count = 1) {
    const matches = () => this.requests.filter((one) => one.method === method && (where instanceof RegExp ? where.test(one.path) : one.path === where) && one.status);
    while (matches().length < count) await new Promise((done) => { this.server.once('answered', done); });
    return matches();
  }

  /** Waits for exactly `count` event streams. */
  streaming(count) {
    return this.streamsAre((streams) => streams.length === count);
  }

  /** Waits until the event streams are as `wanted` says. */
  async streamsAre(wanted) {
    while (!wanted([...this.streams])) await new Promise((done) => { this.server.once('stream', done); });
  }

  /** Appends an entry to the log and sends it to all streams, with its body only to auditors. */
  emit(entry) {
    const whole = this.world.log.append(entry);
    for (const stream of this.streams) stream.send({ id: whole.seq, event: whole.kind, data: this.visible(whole, stream.who) });
    return whole;
  }

  visible(entry, who) {
    if (allows(who.scopes, 'auditor')) return entry;
    const { actor, ...shown } = entry;
    const { from, to, stage, attempt, traffic, candidate_bp } = entry.body;
    const body = entry.kind === 'state_changed' ? { from, to, stage, attempt, traffic } : entry.kind.startsWith('route_') ? { candidate_bp } : {};
    return { ...shown, body };
  }

  progress(view) { for (const stream of this.streams) stream.send({ event: 'progress', data: itemOf(view) }); }

  /** Cuts all event streams; the page may come back. */
  cutStreams() { for (const stream of [...this.streams]) stream.end(); }

  revoke(id) {
    this.world.tokens.find((one) => one.id === id).revoked_us = this.tick();
    for (const stream of [...this.streams]) if (stream.who.id === id) stream.end();
  }

  /** Answers matching requests so until the returned function is called. `path` may be a RegExp or the start of the path. */
  override(method, where, answer) {
    const rule = [(m, p) => m === method && (where instanceof RegExp ? where.test(p) : p.startsWith(where)), answer];
    this.overrides.unshift(rule);
    return () => { this.overrides = this.overrides.filter((one) => one !== rule); };
  }

  fail(method, where, status, code, detail) {
    return this.override(method, where, () => ({ status, json: { type: 'about:blank', title: 'Error', status, code, detail, errors: [] } }));
  }

  principal(request) {
    const bearer = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '')?.[1];
    const valid = (token) => (token && !token.revoked_us ? token : undefined);
    if (bearer) return { token: valid(this.world.bearers.get(bearer)) };
    const cookie = /(?:^|; )driftgate_session=([^;]+)/.exec(request.headers.cookie ?? '')?.[1];
    const session = this.sessions.get(cookie);
    if (!session || !valid(session.token)) return {};
    const site = request.headers['sec-fetch-site'];
    if (site && !['same-origin', 'none'].includes(site)) throw new Problem(403, 'forbidden', 'the request comes from another site');
    if (!['GET', 'HEAD'].includes(request.method) && request.headers['x-csrf-token'] !== session.csrf) {
      throw new Problem(403, 'forbidden', 'X-CSRF-Token is missing or wrong');
    }
    return { token: session.token, session, cookie };
  }

  sessionView({ token, session }) {
    return { name: token.name, scopes: token.scopes, token: token.id, csrf: session?.csrf ?? null, expires_us: this.world.now_us + 43_200e6,
      server: { version: this.world.version, started_us: this.world.started_us } };
  }

  session(request, response) {
    const principal = this.principal(request);
    if (!principal.token) throw new Problem(401, 'unauthenticated', 'the token is unknown, expired or revoked');
    if (request.method === 'POST') {
      const cookie = randomBytes(16).toString('hex');
      const session = { token: principal.token, csrf: randomBytes(16).toString('hex') };
      this.sessions.set(cookie, session);
      response.setHeader('Set-Cookie', `driftgate_session=${cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200`);
      return { status: 201, value: this.sessionView({ token: principal.token, session }) };
    }
    if (request.method === 'DELETE') {
      this.sessions.delete(principal.cookie);
      response.setHeader('Set-Cookie', 'driftgate_session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0');
      return { status: 204 };
    }
    return { status: 200, value: this.sessionView(principal) };
  }

  stream(request, response, url, who) {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
    const send = ({ id, event, data }) => response.write(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    const stream = { who, send, end: () => { this.streams.delete(stream); response.end(); } };
    const { log } = this.world;
    send({ event: 'hello', data: { tree_size: log.size, server: { version: this.world.version, started_us: this.world.started_us } } });
    const after = request.headers['last-event-id'] ?? url.searchParams.get('after');
    if (after !== null && Number(after) >= log.size) send({ event: 'reset', data: { tree_size: log.size } });
    else if (after !== null) {
      for (let seq = Number(after) + 1; seq < log.size; seq += 1) {
        const entry = JSON.parse(log.entries[seq]);
        send({ id: seq, event: entry.kind, data: this.visible(entry, who) });
      }
    }
    this.streams.add(stream);
    this.server.emit('stream');
    const beat = setInterval(() => response.write(':\n\n'), 15_000);
    response.on('close', () => { clearInterval(beat); this.streams.delete(stream); this.server.emit('stream'); });
  }

  page(request, response, url) {
    const asset = this.manifest.get(url.pathname);
    if (!asset && !PAGES.test(url.pathname)) throw new Problem(404, 'not_found', `there is no ${url.pathname}`);
    const file = path.join(this.dist, asset && asset.path !== '/index.html' ? asset.file : 'index.html');
    const accepted = request.headers['accept-encoding'] ?? '';
    const [encoding, ending] = accepted.includes('br') && existsSync(`${file}.br`) ? ['br', '.br'] : accepted.includes('gzip') && existsSync(`${file}.gz`) ? ['gzip', '.gz'] : [];
    const headers = { ...PAGE_HEADERS, Vary: 'Accept-Encoding', 'Content-Type': asset?.type ?? 'text/html; charset=utf-8',
      'Cache-Control': asset && url.pathname.startsWith('/assets/') ? 'public, max-age=31536000, immutable' : 'no-cache' };
    if (encoding) headers['Content-Encoding'] = encoding;
    response.writeHead(200, headers);
    response.end(request.method === 'HEAD' ? undefined : readFileSync(file + (ending ?? '')));
  }

  async call(request, response, url) {
    const override = this.overrides.find(([test]) => test(request.method, url.pathname));
    const replaced = override && await override[1](request, url);
    if (replaced) return { status: replaced.status ?? 200, value: replaced.json, raw: replaced.raw, type: replaced.type };
    if (url.pathname === '/v1/session') return this.session(request, response);
    const route = routes.find((one) => one.method === request.method && one.test.test(url.pathname));
    const isStream = /^\/v1\/(events|promotions\/[^/]+\/events)$/.test(url.pathname);
    if (!route && !isStream) throw new Problem(404, 'not_found', `there is no ${request.method} ${url.pathname}`);
    const who = this.principal(request).token;
    if (!who && route?.scope !== 'open') throw new Problem(401, 'unauthenticated', 'the token is unknown, expired or revoked');
    if (isStream) return this.stream(request, response, url, who);
    if (route.scope !== 'open' && !allows(who.scopes, route.scope)) throw new Problem(403, 'forbidden', `${who.name} lacks the scope ${route.scope}`);
    const body = request.method === 'GET' ? {} : await bodyOf(request);
    request.readBody = body;
    const key = request.headers['idempotency-key'] && `${who.name}/${request.headers['idempotency-key']}`;
    if (key && this.answers.has(key)) return this.answers.get(key);
    const parts = route.test.exec(url.pathname).slice(1).map(decodeURIComponent);
    const value = route.handler(this, { world: this.world, who, body, path: parts, query: url.searchParams });
    const answer = value && (value.raw !== undefined || (typeof value.status === 'number' && !('ready' in value))) ? value : { value };
    if (key) this.answers.set(key, answer);
    return answer;
  }

  async serve(request, response) {
    const url = new URL(request.url, 'http://mock');
    const note = { method: request.method, path: url.pathname, search: url.search, headers: request.headers };
    this.requests.push(note);
    try {
      if (!/^\/(v1\/|healthz$|readyz$|metrics$|openapi\.json$|schemas\/)/.test(url.pathname)) return this.page(request, response, url);
      const answer = await this.call(request, response, url);
      note.body = request.readBody;
      if (!answer) return undefined; // a stream
      note.status = answer.status ?? 200;
      const raw = answer.raw ?? (answer.value === undefined ? '' : JSON.stringify(answer.value));
      const type = answer.type ?? (note.status >= 400 ? 'application/problem+json' : 'application/json');
      response.writeHead(note.status, { 'Content-Type': type, 'Cache-Control': 'no-store' });
      response.end(raw);
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem(500, 'internal', String(error?.stack ?? error));
      note.status = problem.status;
      note.body = request.readBody;
      if (problem.status === 500) process.stderr.write(`${problem.message}\n`);
      response.writeHead(problem.status, { 'Content-Type': 'application/problem+json' });
      response.end(JSON.stringify({ type: 'about:blank', title: problem.code, status: problem.status, code: problem.code, detail: problem.message, errors: [] }));
    }
    return this.server.emit('answered');
  }
}

/** The fixtures' file: DRIFTGATE_WEB_FIXTURES, or made anew. */
export function fixturesPath() {
  if (process.env.DRIFTGATE_WEB_FIXTURES) return process.env.DRIFTGATE_WEB_FIXTURES;
  const out = path.join(mkdtempSync(path.join(tmpdir(), 'driftgate-web-')), 'fixtures.json');
  execFileSync('python3', [fileURLToPath(new URL('../fixtures.py', import.meta.url)), out]);
  return out;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const option = (name, otherwise) => { const at = process.argv.indexOf(`--${name}`); return at < 0 ? otherwise : process.argv[at + 1]; };
  const mock = new Mock({ dist: option('dist', 'web/dist'), fixtures: fixturesPath(), port: Number(option('port', 0)) });
  if (process.argv.includes('--extreme')) makeMany(makeManySlices(makeHostile(mock.world), `${mock.world.promotions[1].id}/statistical-slice`));
  await mock.start();
  process.stdout.write(`${mock.url}/#token=dg_chief (also dg_viewer, dg_operator, dg_admin …)\n`);
}
