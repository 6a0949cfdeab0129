// The operations of /v1 over a World, with the answers that docs/api.md describes.
import { createHash } from 'node:crypto';
import { explainState, itemOf, OPEN, STAGES } from './world.mjs';
import { differenceOf, distributionOf, explanationOf, seriesOf } from './series.mjs';

export class Problem extends Error {
  constructor(status, code, detail) { super(detail); this.status = status; this.code = code; }
}
const missing = (what) => new Problem(404, 'not_found', `there is no ${what}`);
const found = (value, what) => { if (value === undefined || value === null) throw missing(what); return value; };

const IMPLIED = { admin: ['promoter', 'operator', 'auditor'] };
export const allows = (scopes, scope) => scope === 'viewer' || scopes.some((own) => own === scope || (IMPLIED[own] ?? []).includes(scope));

function pageOf(items, query, more = {}) {
  const limit = Math.min(Number(query.get('limit') || 50), 500);
  const begin = Number(Buffer.from(query.get('after') ?? '', 'base64').toString() || 0);
  const next = begin + limit < items.length ? Buffer.from(String(begin + limit)).toString('base64') : null;
  return { items: items.slice(begin, begin + limit), ...more, next };
}

function entriesOf(world, query) {
  const entries = world.log.entries.map((source) => JSON.parse(source));
  const same = { model: (e) => e.subject.model, promotion: (e) => e.subject.promotion, stage: (e) => e.subject.stage, kind: (e) => e.kind,
    actor: (e) => e.actor, checkpoint: (e) => e.subject.checkpoint, contract: (e) => e.subject.contract, clause: (e) => e.body.clause,
    verdict: (e) => e.body.verdict };
  const kept = entries.filter((entry) => Object.entries(same).every(([name, value]) => !query.get(name) || value(entry) === query.get(name))
    && (!query.get('from_us') || entry.time_us >= Number(query.get('from_us'))) && (!query.get('to_us') || entry.time_us < Number(query.get('to_us'))));
  return query.get('order') === 'newest' ? kept.reverse() : kept;
}

/** A page of entries; its cursor is the number of the last one, as the daemon's is. */
function entryPage(kept, query, more) {
  const limit = Math.min(Number(query.get('limit') || 50), 500);
  const newest = query.get('order') === 'newest';
  const left = query.get('after') ? kept.filter(({ seq }) => (newest ? seq < Number(query.get('after')) : seq > Number(query.get('after')))) : kept;
  return { items: left.slice(0, limit), ...more, next: left.length > limit ? String(left[limit - 1].seq) : null };
}

/** Moves the promotion, as a person or the daemon did, and tells all streams. */
export function move(mock, view, state, actor, body = {}) {
  const from = view.state;
  view.state = state;
  view.updated_us = mock.tick();
  if (!OPEN.includes(state)) view.ended_us = view.updated_us;
  if (state !== 'awaiting_approval') view.approval = null;
  view.reason = body.reason ?? '';
  view.revision += 1;
  explainState(view);
  mock.emit({ kind: 'state_changed', actor, time_us: view.updated_us,
    subject: { model: view.model, promotion: view.id, stage: view.stage ?? '', attempt: view.attempt },
    body: { from, to: state, stage: view.stage ?? '', attempt: view.attempt, traffic: view.traffic, reason: view.reason } });
  mock.progress(view);
}

const ACTIONS = {
  abort: ['operator', (view) => OPEN.includes(view.state), 'aborted'],
  rollback: ['operator', (view) => view.state === 'succeeded' || OPEN.includes(view.state), 'rejected'],
  pause: ['operator', (view) => view.state === 'running', 'paused'],
  resume: ['operator', (view) => ['paused', 'inconclusive'].includes(view.state), 'running'],
};

function act(mock, { world, body, who, path: [id, action] }) {
  const view = found(world.promotion(id), `promotion ${id}`);
  const [, possible, state] = ACTIONS[action];
  if (!body.reason) throw new Problem(400, 'invalid_argument', 'reason: say why');
  if (body.evidence_digest && body.evidence_digest !== view.evidence_shown) {
    throw new Problem(409, 'conflict', `the promotion has changed since it was shown: it was awaiting_approval, now it is ${view.state} in ${view.stage}; look again`);
  }
  if (!possible(view)) throw new Problem(409, 'conflict', `promotion ${id} is ${view.state}`);
  if (action === 'abort' || action === 'rollback') { view.traffic = 'reverted'; if (view.canary) view.canary.share_bp = 0; }
  move(mock, view, state, who.name, { reason: body.reason });
  return view;
}

function approve(mock, { world, body, who, path: [id] }) {
  const view = found(world.promotion(id), `promotion ${id}`);
  if (view.state !== 'awaiting_approval') throw new Problem(409, 'conflict', `promotion ${id} does not wait for an approval; it is ${view.state}`);
  if (body.evidence_digest !== view.approval.evidence_digest) throw new Problem(409, 'conflict', 'the evidence has changed since it was shown');
  if (view.requester === who.name) throw new Problem(403, 'forbidden', 'the requester may not approve');
  mock.emit({ kind: 'approval_given', actor: who.name, time_us: mock.tick(), subject: { model: view.model, promotion: view.id, stage: 'canary', attempt: 1 },
    body: { evidence_digest: body.evidence_digest, reason: body.reason } });
  view.canary.share_bp = 9900;
  view.canary.step += 1;
  view.canary.waits_for = ['More keys.'];
  move(mock, view, 'running', 'driftgate');
  return view;
}

function whatIf({ world, path: [id] }) {
  const view = found(world.promotion(id), `promotion ${id}`);
  const stages = STAGES.flatMap((stage) => {
    const report = world.reports.get(`${id}/${stage}`);
    if (!report) return [];
    const changes = report.verdicts.filter((one) => one.verdict === 'violated').map((one) => ({ clause: one.clause,
      slice: Object.entries(one.where).map(([name, value]) => `${name}=${value}`).join(','), before: one.verdict, after: 'pass', message: one.message }));
    return [{ stage, attempt: 1, before: report.verdict, rules: { before: 2, after: 2 }, after: 'pass', changes,
      same: report.verdicts.length - changes.length, notes: [] }];
  });
  return { promotion: id, contract: { before: view.contract, after: `sha256:${'a'.repeat(64)}` }, verdict: 'pass', not_begun: [], stages };
}

function servedAt({ world, query }) {
  const model = found(world.models.find((one) => one.name === query.get('model')), 'such model');
  const place = { seq: 11, time_us: 1795347395028253 };
  return { model: model.name, time_us: Number(query.get('time_us')), tree_size: world.log.size, applied: place, desired: place, slices: [], mirror_bp: 0,
    served: [{ allowed: true, role: 'incumbent', version: model.incumbent.version, kernel: model.incumbent.kernel, share_bp: 10000, since: place, origin: null }] };
}

function population({ world, query }) {
  const items = entriesOf(world, query).filter((entry) => ['model_bootstrapped', 'promotion_requested'].includes(entry.kind)).map((entry) => ({
    seq: entry.seq, time_us: entry.time_us, how: entry.kind === 'model_bootstrapped' ? 'bootstrap' : 'promotion', model: entry.subject.model,
    version: entry.body.version ?? entry.body.candidate, role: 'candidate', promotion: entry.subject.promotion, contract: entry.subject.contract }));
  const proof = world.log.consistencyProof(1, world.log.size);
  return pageOf(items, query, { tree_size: world.log.size, completeness: { from_size: 1, to_size: world.log.size, from_root: world.log.root(0, 1).toString('hex'),
    to_root: proof.root, from_checkpoint: world.log.checkpoint(1), to_checkpoint: proof.checkpoint, from_continuation: [], to_continuation: [], path: proof.path } });
}

function sample({ world, query }) {
  const order = (entry) => createHash('sha256').update(`${query.get('seed')}:${entry.seq}`).digest('hex');
  const drawn = entriesOf(world, query).map((entry) => ({ order: order(entry), entry })).sort((a, b) => (a.order < b.order ? -1 : 1));
  return { seed: query.get('seed'), size: world.log.size, population: drawn.length, items: drawn.slice(0, Number(query.get('count') || 25)) };
}

const EXCEPTIONS = ['waiver_given', 'model_bootstrapped', 'hold_lifted', 'block_lifted', 'evidence_redacted'];
const contractOf = (world, name) => found(world.contracts.get(name) ?? [...world.contracts.values()].reverse().find((one) => one.name === name), `contract ${name}`);
const modelOf = (world, name) => found(world.models.find((one) => one.name === name), `model ${name}`);
const scheduleOf = (world, name) => found(world.schedules.find((one) => one.name === name), `schedule ${name}`);

function liftHold(mock, { world, path: [name], body, who }) {
  const model = modelOf(world, name);
  if (!model.hold) throw new Problem(409, 'conflict', 'there is no hold');
  model.hold = null;
  mock.emit({ kind: 'hold_lifted', actor: who.name, time_us: mock.tick(), subject: { model: name }, body: { reason: body.reason } });
  return model;
}

function liftBlock(mock, { world, path: [id], body, who }) {
  const block = found(world.blocks.find((one) => one.id === id), `block ${id}`);
  block.lifted = { by: who.name, reason: body.reason, since_us: mock.tick() };
  mock.emit({ kind: 'block_lifted', actor: who.name, time_us: block.lifted.since_us, subject: {}, body: { reason: body.reason } });
  return block;
}

function setPaused(paused) {
  return (mock, { world, path: [name] }) => {
    const schedule = scheduleOf(world, name);
    schedule.paused = paused;
    schedule.revision += 1;
    return schedule;
  };
}

function status(mock, { world, query }) {
  const q = (query.get('q') ?? '').toLowerCase();
  return pageOf(world.status().filter((one) => one.model.toLowerCase().includes(q)), query, { counts: world.counts(), tree_size: world.log.size });
}

const text = (body, type = 'text/plain; charset=utf-8') => ({ raw: body, type });
const ready = () => ({ ready: true, checks: ['database', 'router', 'log'].map((name) => ({ name, ok: true, detail: 'ok' })) });
const bundle = (world, entries) => text(`${entries.map((entry) => JSON.stringify({ t: 'entry', seq: entry.seq, entry: world.log.entries[entry.seq] })).join('\n')}\n`, 'application/jsonl');

/** [method, path with {name}s, scope, handler(mock, call)]; what a handler returns is the body. */
export const OPERATIONS = [
  ['GET', '/v1/whoami', 'viewer', (mock, { who }) => ({ name: who.name, scopes: who.scopes, token: who.id })],
  ['GET', '/v1/status', 'viewer', status],
  ['GET', '/v1/promotions', 'viewer', (mock, { world, query }) => pageOf(world.list(query).map(itemOf), query)],
  ['GET', '/v1/promotions/{id}', 'viewer', (mock, { world, path: [id] }) => found(world.promotion(id), `promotion ${id}`)],
  ['GET', '/v1/promotions/{id}/series', 'viewer', (mock, { world, path: [id] }) => seriesOf(found(world.promotion(id), `promotion ${id}`))],
  ['GET', '/v1/promotions/{id}/stages/{stage}/report', 'viewer', (mock, { world, path }) => found(world.reports.get(path.join('/')), 'report of that stage yet')],
  ['GET', '/v1/promotions/{id}/stages/{stage}/distribution', 'viewer',
    (mock, { world, path, query }) => distributionOf(found(world.reports.get(path.join('/')), 'table of that stage'), query)],
  ['POST', '/v1/promotions/{id}/what-if', 'viewer', (mock, call) => whatIf(call)],
  ['POST', '/v1/promotions/{id}/approve', 'approver', approve],
  ['POST', '/v1/promotions/{id}/waive', 'approver', (mock, { world, path: [id] }) => found(world.promotion(id), `promotion ${id}`)],
  ['POST', '/v1/promotions/{id}/redact', 'operator', (mock, { world, path: [id] }) => found(world.promotion(id), `promotion ${id}`)],
  ...Object.entries(ACTIONS).map(([name, [scope]]) => ['POST', `/v1/promotions/{id}/${name}`, scope,
    (mock, call) => act(mock, { ...call, path: [call.path[0], name] })]),
  ['GET', '/v1/contracts', 'viewer', (mock, { world, query }) => pageOf([...world.contracts.values()], query)],
  ['GET', '/v1/contracts/{contract}', 'viewer', (mock, { world, path: [name] }) => contractOf(world, name)],
  ['GET', '/v1/contracts/{contract}/explain', 'viewer', (mock, { world, path: [name] }) => explanationOf(contractOf(world, name))],
  ['GET', '/v1/contracts/{contract}/diff', 'viewer',
    (mock, { world, path: [name], query }) => differenceOf(contractOf(world, name), contractOf(world, query.get('with')))],
  ['GET', '/v1/kernels', 'viewer', (mock, { world, query }) => pageOf(world.kernels, query)],
  ['GET', '/v1/engines', 'viewer', (mock, { world, query }) => pageOf(world.engines, query)],
  ['GET', '/v1/models', 'viewer', (mock, { world, query }) => pageOf(world.models, query)],
  ['GET', '/v1/models/{name}', 'viewer', (mock, { world, path: [name] }) => modelOf(world, name)],
  ['GET', '/v1/models/{name}/route', 'viewer', (mock, { world, path: [name] }) => modelOf(world, name).route],
  ['POST', '/v1/models/{name}/lift-hold', 'operator', liftHold],
  ['GET', '/v1/blocks', 'viewer', (mock, { world, query }) => pageOf(world.blocks, query)],
  ['POST', '/v1/blocks/{id}/lift', 'operator', liftBlock],
  ['GET', '/v1/schedules', 'viewer', (mock, { world, query }) => pageOf(world.schedules, query)],
  ['GET', '/v1/schedules/{name}', 'viewer', (mock, { world, path: [name] }) => scheduleOf(world, name)],
  ['GET', '/v1/schedules/{name}/next', 'viewer', (mock, { world, path: [name], query }) => ({ items: Array.from({ length: Number(query.get('count') || 5) }, (_, i) => ({
    fire_us: scheduleOf(world, name).next_us + i * 24 * 3600e6, local: new Date((scheduleOf(world, name).next_us + i * 24 * 3600e6) / 1000).toISOString() })) })],
  ['POST', '/v1/schedules/{name}/pause', 'operator', setPaused(true)],
  ['POST', '/v1/schedules/{name}/resume', 'operator', setPaused(false)],
  ['GET', '/v1/webhooks', 'operator', () => ({ items: [], next: null })],
  ['GET', '/v1/evidence', 'auditor', (mock, { world, query }) => entryPage(entriesOf(world, query), query, { tree_size: world.log.size })],
  ['GET', '/v1/evidence/export', 'auditor', (mock, { world, query }) => bundle(world, entriesOf(world, query))],
  ['GET', '/v1/promotions/{id}/bundle', 'auditor', (mock, { world, path: [id] }) => bundle(world, entriesOf(world, new URLSearchParams({ promotion: id })))],
  ['GET', '/v1/evidence/{seq}', 'auditor', (mock, { world, path: [seq] }) => text(found(world.log.entries[Number(seq)], `entry ${seq}`), 'application/json')],
  ['GET', '/v1/log/checkpoint', 'viewer', (mock, { world }) => text(world.log.checkpoint())],
  ['GET', '/v1/log/key', 'viewer', (mock, { world }) => text(`${world.log.verifierKey}\n`)],
  ['GET', '/v1/log/proof/{seq}', 'auditor', (mock, { world, path: [seq] }) => {
    found(world.log.entries[Number(seq)], `entry ${seq}`);
    return world.log.proof(Number(seq));
  }],
  ['GET', '/v1/log/consistency', 'auditor', (mock, { world, query }) => {
    const [from, to] = [Number(query.get('from')), Number(query.get('to') || world.log.size)];
    if (!(from <= to && to <= world.log.size)) throw new Problem(400, 'invalid_argument', 'from ≤ to ≤ size of the log');
    return world.log.consistencyProof(from, to);
  }],
  ['GET', '/v1/audit/at', 'auditor', (mock, call) => servedAt(call)],
  ['GET', '/v1/audit/population', 'auditor', (mock, call) => population(call)],
  ['GET', '/v1/audit/sample', 'auditor', (mock, call) => sample(call)],
  ['GET', '/v1/audit/exceptions', 'auditor', (mock, { world, query }) => entryPage(
    entriesOf(world, query).filter((entry) => EXCEPTIONS.includes(entry.kind)), query, { tree_size: world.log.size })],
  ['GET', '/v1/tokens', 'admin', (mock, { world }) => ({ items: [...world.tokens].reverse(), next: null })],
  ['POST', '/v1/tokens', 'admin', (mock, { world, body }) => ({ status: 201, value: world.token(body.name, body.scopes) })],
  ['DELETE', '/v1/tokens/{id}', 'admin', (mock, { world, path: [id] }) => {
    found(world.tokens.find((one) => one.id === id), `token ${id}`);
    mock.revoke(id);
    return { status: 204 };
  }],
  ['GET', '/v1/settings', 'operator', (mock, { world }) => ({ items: world.settings })],
  ['GET', '/healthz', 'open', () => ({ status: 'ok' })],
  ['GET', '/readyz', 'open', ready],
  ['GET', '/metrics', 'open', (mock, { world }) => text(`# TYPE driftgate_entries gauge\ndriftgate_entries ${world.log.size}\n`)],
];
