// Series, distributions and explanations in the shape that the API has. Their numbers are smooth inventions; where it
// matters that numbers are right, the tests ask a real daemon.
const Z = 2.5;

function clausePoints(points, clause) {
  let n = 0;
  return points.map((point, index) => {
    n += point.requests.candidate;
    const estimate = clause.base * (1 + 0.4 * Math.sin(index / 5) / Math.sqrt(index + 1));
    const width = (Z * clause.spread) / Math.sqrt(Math.max(n, 1));
    const e_proof = Math.exp(Math.min(12, (clause.threshold - estimate) * n * 0.02));
    return { time_us: point.time_us, n, clusters: n, estimate, lower: Math.max(0, estimate - width), upper: estimate + width,
      e_value: Math.exp(Math.min(8, (estimate - clause.threshold) * n * 0.02)), e_proof,
      verdict: e_proof > 40 ? 'pass' : 'inconclusive' };
  });
}

export function seriesOf(view) {
  if (!view.canary) return { promotion: view.id, stage: null, attempt: view.attempt, points: [], clauses: [], marks: [], planned: [] };
  const run = view.stages.find((one) => one.stage === 'canary');
  const end = run.ended_us ?? view.updated_us;
  const count = 120;
  const at = (share) => Math.round(run.started_us + (end - run.started_us) * share);
  const shares = view.canary.steps === 1 ? [9900] : [1000, 5000, 9900];
  const stepAt = (index) => Math.min(Math.floor((index / count) * (view.canary.step + 1)), view.canary.step);
  const points = Array.from({ length: count }, (_, index) => {
    const step = stepAt(index);
    const share_bp = shares[step] ?? 9900;
    const candidate = Math.round((share_bp / 10000) * 40);
    return { time_us: at((index + 1) / count), step, phase: 'ramping', share_bp, keys: candidate * (index + 1), exposed_requests: candidate * (index + 1),
      exposed_keys: candidate * (index + 1), requests: { candidate, incumbent: 40 - candidate },
      failures: { candidate: view.state === 'rejected' && index > count - 8 ? 5 : 0, incumbent: 0 },
      action: index === count - 1 ? 'wait_approval' : 'continue',
      latency: { ttft_ms: { candidate: [8 + (index % 7), 21, 40], incumbent: [9, 22 + (index % 5), 44] },
        total_ms: { candidate: [60, 80 + (index % 9), 130], incumbent: [70, 95, 150] } } };
  });
  const clauses = [{ clause: 'runtime.errors', threshold: 0.05, base: 0.01, spread: 0.2, limit_kind: 'max' },
    { clause: 'runtime.ttft', threshold: 3, base: 1.05, spread: 4, limit_kind: 'max_ratio' }].map((clause) => ({
    clause: clause.clause, slice: '', severity: clause.clause === 'runtime.errors' ? 'hard' : 'soft', rule: 'e_value', limit_kind: clause.limit_kind,
    threshold: clause.threshold, alpha: 0.005, e_harm_needed: 800, e_proof_needed: 40, points: clausePoints(points, clause) }));
  const marks = points.filter((point, index) => index === 0 || point.step !== points[index - 1].step).map((point, index) => ({
    time_us: point.time_us, seq: 60 + index, kind: 'route_applied', text: `share ${point.share_bp / 100}%`, actor: null }));
  const planned = shares.map((share_bp, step) => ({ step, share_bp, approval: step > 0, min_duration_ms: 1000, bake: step === shares.length - 1 }));
  return { promotion: view.id, stage: 'canary', attempt: 1, points, clauses, marks, planned };
}

const ecdf = (scale) => {
  const edges = Array.from({ length: 48 }, (_, i) => Number((scale * 10 ** (i / 12 - 3)).toPrecision(4)));
  return { edges, cdf: edges.map((edge) => 1 - Math.exp(-edge / scale)), mean: scale, quantiles: { 0.5: scale * 0.69, 0.9: scale * 2.3, 0.99: scale * 4.6 } };
};
const buckets = (from, factor) => Array.from({ length: 6 }, (_, i) => ({ from: from * factor ** i, to: from * factor ** (i + 1), rows: 400 - 40 * i, mean: 0.01 + i * 0.004 }));

export function distributionOf(report, query) {
  const slice = query.get('slice') ?? '';
  const worst = report.worst_rows.map((row) => ({ row: row.row, value: row.values?.tv ?? 0, sequence: row.sequence, position: row.position,
    token: row.token, token_text: row.token_text ?? null, slice }));
  return { metric: query.get('metric') ?? 'tv', slice, rows: report.rows ?? 0, candidate: ecdf(0.02), floors: { train: ecdf(0.002), inf: null },
    by: { position: buckets(1, 2), entropy: buckets(0.1, 2), probability: buckets(0.001, 4) }, worst };
}

const scalar = (value) => (typeof value === 'string' && !/^[A-Za-z][\w ./@-]*$/.test(value) ? JSON.stringify(value) : String(value));
function yamlOf(value, indent = '') {
  if (Array.isArray(value)) return value.map((item) => `${indent}- ${JSON.stringify(item)}\n`).join('');
  return Object.entries(value).map(([name, item]) => (item !== null && typeof item === 'object'
    ? `${indent}${name}:\n${yamlOf(item, `${indent}  `)}` : `${indent}${name}: ${scalar(item)}\n`)).join('');
}

const FAMILIES = ['numerical', 'statistical', 'runtime', 'observability'];
export function explanationOf(contract) {
  const yaml = yamlOf(contract.document);
  const lines = yaml.split('\n');
  const clauses = FAMILIES.flatMap((family) => (contract.document[family] ?? []).map((clause) => ({
    clause: `${family}.${clause.id}`, family, line: lines.findIndex((line) => line.includes(`"id":${JSON.stringify(clause.id)}`)) + 1 || null,
    text: `${clause.metric ?? clause.signal ?? clause.bound} has to stay within ${clause.max ?? clause.max_ratio ?? clause.min_count ?? 'its limit'}.`,
    needs: 'at least 116 sequences' })));
  return { digest: contract.digest, name: contract.name, yaml, lint: { warnings: [{ line: 3, column: 1, pointer: '/assumptions', message: 'max_tokens is small' }] },
    clauses, stages: [{ stage: 'canary', text: 'Three steps, an approval before the second.' }],
    text: clauses.map((one) => `${one.clause}: ${one.text}`).join('\n') };
}

export function differenceOf(from, to) {
  const known = (contract) => new Map(FAMILIES.flatMap((family) => (contract.document[family] ?? []).map((clause) => [`${family}.${clause.id}`, clause])));
  const [before, after] = [known(from), known(to)];
  const changes = [];
  for (const [where, clause] of after) {
    const old = before.get(where);
    if (!old) changes.push({ change: 'new', where, text: 'a clause more', before: null, after: clause });
    else if (old.max !== clause.max) changes.push({ change: clause.max < old.max ? 'stricter' : 'looser', where, text: `max ${old.max} → ${clause.max}`, before: old.max, after: clause.max });
  }
  for (const [where, clause] of before) if (!after.has(where)) changes.push({ change: 'gone', where, text: 'no longer demanded', before: clause, after: null });
  const side = (contract) => ({ digest: contract.digest, name: contract.name });
  return { from: side(from), to: side(to), changes, text: changes.map((one) => `${one.change} ${one.where}: ${one.text}`).join('\n') };
}
