// What the mock serves: views of the stored promotions as the daemon would show them (tests/web/fixtures.py).
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { canonical, Log } from './log.mjs';

export const STAGES = ['offline-numeric', 'statistical-slice', 'shadow-runtime', 'canary'];
export const OPEN = ['queued', 'running', 'paused', 'awaiting_approval', 'inconclusive', 'rolling_back', 'finalizing'];
const NEED_PEOPLE = ['awaiting_approval', 'inconclusive', 'paused'];
const digestOf = (value) => `sha256:${createHash('sha256').update(canonical(value)).digest('hex')}`;

const COUNTS = { pass: 0, violated: 0, inconclusive: 0, error: 0 };

function stageView(fixtures, run) {
  const own = fixtures.verdicts.filter((row) => row.promotion === run.promotion && row.stage === run.stage && row.attempt === run.attempt);
  const counts = { ...COUNTS };
  for (const row of own) counts[row.verdict] += 1;
  const open = own.filter((row) => row.verdict !== 'pass').slice(0, 20).map((row) => ({
    clause: row.clause, slice: row.slice, verdict: row.verdict, evidence: row.evidence_seq,
    severity: row.detail.severity, message: row.detail.message,
  }));
  const running = run.state === 'running';
  return {
    stage: run.stage, attempt: run.attempt, state: run.state, verdict: running || run.state === 'stopped' ? null : run.state,
    started_us: run.started_us, ended_us: run.ended_us, summary: { verdicts: counts, open }, counts,
    report_digest: run.report || null,
    progress: running ? { done: run.progress.keys_in_step, total: 0, unit: 'keys', text: `${run.progress.phase} at ${run.progress.share_bp / 100}%` } : null,
  };
}

function canaryView(run, contract) {
  const p = run.progress;
  return {
    step: run.step, steps: contract.document.stages.canary.steps.length, phase: p.phase, share_bp: p.share_bp, frozen: p.frozen,
    advance_proven: p.advance_proven, keys: p.keys_in_step, exposed_requests: p.exposed_requests, exposed_keys: p.exposed_keys,
    failures: p.failed_requests_candidate, incumbent_failures: p.failed_requests_incumbent, e_value: p.max_e_value,
    waits_for: run.state === 'running' ? ['An approval of step 2 of 3.'] : [], step_started_us: run.step_started_us,
  };
}

/** What people can do, why it stands there and what comes next; changes with the state. */
export function explainState(view) {
  const needs = [];
  const need = (action, scope, text) => needs.push({ action, scope, text });
  if (view.state === 'awaiting_approval') need('approve', 'approver', 'Somebody other than the requester has to approve the next step.');
  if (view.state === 'inconclusive') {
    need('waive', 'approver', 'Two approvers can waive the open clauses.');
    need('resume', 'operator', 'An operator can repeat the stage.');
  }
  if (view.state === 'paused') need('resume', 'operator', 'An operator can let it go on.');
  view.needs = needs;
  view.why = view.reason || (view.stage ? `${view.stage} is running.` : 'It waits for its turn.');
  view.next = view.state === 'awaiting_approval' ? 'After the approval, 99% of users get the candidate.' : '';
  view.share_bp = OPEN.includes(view.state) ? view.canary?.share_bp ?? 0 : view.state === 'succeeded' ? 10000 : 0;
  view.evidence_shown = digestOf({ state: view.state, stage: view.stage ?? '', attempt: view.attempt, step: view.canary?.step ?? 0,
    traffic: view.traffic, approval: view.approval?.evidence_digest ?? '', share: view.share_bp });
  view.paused = view.state === 'paused';
  return view;
}

function promotionView(fixtures, versions, contracts, row) {
  const runs = fixtures.stage_runs.filter((run) => run.promotion === row.id);
  const newest = runs.at(-1);
  const contract = contracts.get(row.contract);
  const waits = row.state === 'awaiting_approval';
  return explainState({
    id: row.id, model: row.model, engine: row.engine, contract: row.contract, contract_name: contract.name, requester: row.requester,
    state: row.state, stage: row.stage || null, attempt: row.attempt, traffic: row.traffic, reason: row.reason,
    created_us: row.created_us, updated_us: row.updated_us, ended_us: row.ended_us, deadline_us: row.deadline_us, revision: row.revision,
    seed: row.seed, candidate: versions.get(row.candidate), baseline: versions.get(row.baseline) ?? null, request: row.request,
    stages: runs.map((run) => stageView(fixtures, run)),
    canary: newest?.stage === 'canary' ? canaryView(newest, contract) : null,
    approval: waits ? { needed: 1, given: [], step: newest.step, evidence_digest: newest.progress.approval_digest, deadline_us: row.deadline_us } : null,
    waiver: null, frozen: false, outcome: row.outcome || null,
  });
}

/** The promotion as lists show it. */
export function itemOf(view) {
  const { id, model, engine, contract, contract_name, requester, state, stage, attempt, traffic, reason, why, next, needs, share_bp,
    created_us, updated_us, ended_us, candidate, baseline, evidence_shown, canary, approval, waiver } = view;
  const stages = view.stages.map((run) => ({ stage: run.stage, attempt: run.attempt, state: run.state, verdict: run.verdict,
    counts: run.counts, summary: { verdicts: run.counts }, progress: run.progress, started_us: run.started_us, ended_us: run.ended_us }));
  return { id, model, engine, contract, contract_name, requester, state, stage, attempt, traffic, reason, why, next, needs, share_bp,
    created_us, updated_us, ended_us, candidate, baseline, evidence_shown, canary, approval, waiver, stages };
}

function modelView(fixtures, versions, row, promotions) {
  const route = (rows) => rows.find((one) => one.model === row.name);
  const desired = route(fixtures.desired_routes).route;
  const applied = route(fixtures.applied_routes);
  const open = promotions.find((one) => one.model === row.name && OPEN.includes(one.state));
  return {
    name: row.name, incumbent: versions.get(row.incumbent), promotion: open?.id ?? null, hold: null, guard: null, epoch: row.epoch,
    revision: row.revision, created_us: row.created_us, updated_us: row.updated_us,
    route: { desired, observed: { route: applied.route, candidate_bp: applied.route.candidate_bp, time_us: applied.time_us }, agree: true },
  };
}

const SETTINGS = [
  ['http.listen', '127.0.0.1:8080', 'address on which the API and the page are served'],
  ['http.session_s', 43200, 'how long a browser stays signed in'],
  ['data_dir', '/var/lib/driftgate', 'folder of the database and the keys'],
  ['router.window_ms', 500, 'length of a window of telemetry'],
  ['log.level', 'info', 'debug, info, warn or error'],
  ['roots', ['/srv/models'], 'folders below which captures and checkpoints may lie'],
];

export class World {
  constructor(path) {
    const fixtures = JSON.parse(readFileSync(path, 'utf8'));
    this.fixtures = fixtures;
    this.version = '0.1.0';
    this.started_us = 1795347394233871;
    this.log = new Log(fixtures.entries, fixtures.key);
    this.now_us = JSON.parse(fixtures.entries.at(-1)).time_us + 60_000_000;
    this.versions = new Map(fixtures.versions.map((row) => [row.id,
      { version: row.id, engine: row.engine, kernel: row.kernel, url: row.base_url, checkpoint: row.checkpoint }]));
    this.contracts = new Map(fixtures.contracts.map((row) => [row.digest,
      { digest: row.digest, name: row.name, registrant: row.registrant, registered_us: row.registered_us, document: row.canonical }]));
    this.kernels = fixtures.kernels.map((row) => ({ name: row.name, digest: row.digest, registrant: row.registrant,
      registered_us: row.registered_us, document: row.canonical }));
    this.engines = fixtures.engines.map((row) => ({ name: row.name, url: row.base_url, kernel: row.kernel, checkpoint: row.checkpoint,
      checkpoint_uri: row.checkpoint_uri, abilities: row.abilities, max_requests_per_second: null, key_file: null, key_header: null,
      ca_file: null, ca_digest: null, probed_us: row.probed_us, registered_us: row.registered_us }));
    this.promotions = fixtures.promotions.map((row) => promotionView(fixtures, this.versions, this.contracts, row));
    this.models = fixtures.models.map((row) => modelView(fixtures, this.versions, row, this.promotions));
    this.reports = new Map(fixtures.stage_runs.filter((run) => run.report)
      .map((run) => [`${run.promotion}/${run.stage}`, fixtures.reports[run.report]]));
    this.blocks = [];
    this.schedules = [this.schedule('nightly', '0 2 * * *')];
    this.settings = SETTINGS.map(([name, value, text]) => ({ name, value, default: value, text, changed: false }));
    this.settings[4].value = 'debug';
    this.settings[4].changed = true;
    this.tokens = [];
    this.bearers = new Map();
    for (const scope of ['viewer', 'promoter', 'approver', 'operator', 'auditor', 'admin']) this.token(scope, [scope]);
    this.token('chief', ['approver', 'operator', 'auditor', 'promoter']);
  }

  /** Adds a token whose bearer is dg_ and its name. */
  token(name, scopes) {
    const id = `tk-${String(this.tokens.length + 1).padStart(26, '0')}`;
    const bearer = `dg_${name}`;
    const row = { id, name, scopes, granted_by: 'driftgate', created_us: this.started_us, expires_us: null, revoked_us: null };
    this.tokens.push(row);
    this.bearers.set(bearer, row);
    return { ...row, bearer };
  }

  schedule(name, cron) {
    const request = this.fixtures.promotions[0].request;
    return { name, cron, timezone: 'Europe/Berlin', model: 'tinylm', promotion: request, misfire: 'skip', grace_s: 600, if_running: 'skip',
      paused: false, owner: 'promoter', created_us: this.started_us, updated_us: this.started_us, revision: 1,
      next_us: Math.max(this.now_us, Date.now() * 1000) + 3 * 3600e6, fires: [
        { fire_us: this.now_us - 21 * 3600e6, outcome: 'fired', why: '', promotion: this.promotions[0].id, evidence: 15 },
        { fire_us: this.now_us - 45 * 3600e6, outcome: 'skipped', why: 'A promotion of the model was in progress.', promotion: null, evidence: 12 }] };
  }

  promotion(id) { return this.promotions.find((one) => one.id === id); }
  waiting() { return this.promotions.find((one) => one.state === 'awaiting_approval'); }

  status() {
    const byModel = new Map();
    for (const one of this.promotions) {
      const list = byModel.get(one.model) ?? [];
      list.push(one);
      byModel.set(one.model, list);
    }
    return this.models.map((model) => {
      const own = byModel.get(model.name) ?? [];
      const open = own.find((one) => OPEN.includes(one.state) && one.state !== 'queued') ?? own.find((one) => one.state === 'queued');
      const last = own.filter((one) => one.ended_us).sort((a, b) => b.ended_us - a.ended_us)[0];
      return {
        model: model.name, incumbent: model.incumbent, hold: model.hold,
        guard: model.guard && { armed: model.guard.armed, alarms: model.guard.alarms }, route_agrees: model.route.agree,
        promotion: open ? itemOf(open) : null,
        last: last ? { id: last.id, state: last.state, ended_us: last.ended_us, why: last.why } : null,
        schedules: this.schedules.filter((one) => one.model === model.name).map((one) => ({ name: one.name, next_us: one.next_us,
          paused: one.paused, last: one.fires[0] ? { fire_us: one.fires[0].fire_us, outcome: one.fires[0].outcome, why: one.fires[0].why,
            promotion: one.fires[0].promotion } : null })),
      };
    });
  }

  counts() {
    return { models: this.models.length, open: this.promotions.filter((one) => OPEN.includes(one.state)).length,
      need_people: this.promotions.filter((one) => NEED_PEOPLE.includes(one.state)).length,
      holds: this.models.filter((one) => one.hold).length, alarms: this.models.filter((one) => one.guard?.alarms).length };
  }

  /** The promotions that GET /v1/promotions finds. */
  list(query) {
    let found = this.promotions;
    const keep = (name, test) => { if (query.has(name) && query.get(name) !== '') found = found.filter((one) => test(one, query.get(name))); };
    for (const name of ['model', 'state', 'requester']) keep(name, (one, value) => one[name] === value);
    keep('contract', (one, value) => one.contract === value || one.contract_name === value);
    keep('open', (one, value) => value !== 'true' || OPEN.includes(one.state));
    keep('needs', (one, value) => value !== 'true' || NEED_PEOPLE.includes(one.state));
    keep('q', (one, value) => [one.id, one.model, one.engine, one.contract_name].some((text) => text.toLowerCase().includes(value.toLowerCase())));
    const by = query.get('order') === 'updated' ? 'updated_us' : 'created_us';
    const sign = query.get('order') === 'oldest' ? 1 : -1;
    return [...found].sort((a, b) => sign * (a[by] - b[by]));
  }
}
