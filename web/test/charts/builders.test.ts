import assert from 'node:assert/strict';
import { test } from 'node:test';
import { badSide, confidenceModel, eValueModel, limitAt } from '../../src/charts/confidence';
import { bucketText, cdfAt, ecdfModel, readDistribution } from '../../src/charts/distribution';
import { markKind, plannedPoints, rampModel } from '../../src/charts/ramp';
import { readSeries, type SeriesPoint } from '../../src/charts/series';
import { latencyMetrics, latencyModel, requestsModel } from '../../src/charts/traffic';

const point = (time_us: number, step: number, share_bp: number, more: object = {}) => ({
  time_us, step, share_bp, phase: 'ramping', keys: 1, exposed_requests: 1, exposed_keys: 1,
  requests: { candidate: 4, incumbent: 36 }, failures: { candidate: 1, incumbent: 0 }, action: 'hold',
  latency: { ttft_ms: { candidate: [8, 21, 40], incumbent: null }, total_ms: { candidate: null, incumbent: null } }, ...more,
});

const answer = {
  promotion: 'pr-1', stage: 'canary', attempt: 1,
  points: [point(1_000_000, 0, 1000), point(2_000_000, 1, 5000), point(3_000_000, 1, 5000)],
  clauses: [{
    clause: 'runtime.errors', slice: '', severity: 'hard', rule: 'e_value', limit_kind: 'max', threshold: 0.05, alpha: 0.005,
    e_harm_needed: 800, e_proof_needed: 40,
    points: [
      { time_us: 1, n: 0, clusters: 0, estimate: null, lower: null, upper: null, e_value: 1, e_proof: 1, verdict: 'inconclusive' },
      { time_us: 2, n: 10, clusters: 10, estimate: 0.01, lower: 0, upper: 'inf', e_value: 0.5, e_proof: 3, verdict: 'inconclusive' },
      { time_us: 3, n: 100, clusters: 100, estimate: 0.01, lower: 0.001, upper: 0.04, e_value: 0, e_proof: 'inf', verdict: 'pass' },
    ],
  }],
  marks: [{ time_us: 1_500_000, seq: 7, kind: 'approval_given', text: 'Approved.', actor: 'ana' }, { time_us: 9_000_000, seq: 8, kind: 'state_changed', text: 'Ended.', actor: null }],
  planned: [{ step: 0, share_bp: 1000, approval: false, min_duration_ms: 1000, bake: false }, { step: 1, share_bp: 5000, approval: true, min_duration_ms: 2000, bake: false },
    { step: 2, share_bp: 9900, approval: true, min_duration_ms: 3000, bake: false }, { step: 3, share_bp: 9900, approval: false, min_duration_ms: null, bake: true }],
};
const series = readSeries(answer);

test('series of any shape are read without an exception', () => {
  for (const value of [null, 7, 'x', [], {}, { points: [null, 1], clauses: [{ points: 'x' }], marks: {}, planned: [null] }]) readSeries(value);
  assert.deepEqual(readSeries({ stage: null, points: [] }).points, []);
});

test('the ramp of a running promotion goes on to now and to the planned steps', () => {
  const model = rampModel(series, { open: true, planned: true, stepSince: null, now: 10, share: 5000 });
  assert.deepEqual(model.xs, [1, 2, 3, 10, 12, 15, model.xs.at(-1)]);
  assert.deepEqual(model.ys[0]?.slice(0, 5), [1000, 5000, 5000, 5000, null]);
  assert.deepEqual(model.ys[1]?.slice(2, 6), [null, 5000, 9900, 9900]);
  assert.match(model.summary, /has 50% of the traffic\. The next step is 99%, after an approval\./);
  assert.deepEqual(model.marks.map((mark) => [mark.kind, mark.text]), [['approval', 'Approved. (ana)'], ['state', 'Ended.']]);
});

test('the ramp of one that ended says how far it came and plans nothing', () => {
  const model = rampModel(series, { open: false, planned: false, stepSince: null, now: 10, share: 0 });
  assert.deepEqual([model.xs, model.ys[0]], [[1, 2, 3, 10], [1000, 5000, 5000, 0]]);
  assert.match(model.summary, /reached 50% of the traffic and ended at 0%/);
  assert.equal(rampModel(readSeries({}), { open: true, planned: true, stepSince: null, now: 10, share: null }).xs.length, 0);
});

test('one that is taken back shows the share as applied and plans nothing', () => {
  const model = rampModel(series, { open: true, planned: false, stepSince: null, now: 10, share: 0 });
  assert.deepEqual([model.xs.at(-1), model.ys[0]?.at(-1)], [10, 0]);
  assert.match(model.summary, /^The candidate has 0% of the traffic and has had 50%\./);
  assert.doesNotMatch(model.summary, /next step/);
  assert.equal(model.ys.length, 1);
});

test('a planned step begins when the present one has lasted long enough, not ever later', () => {
  const model = rampModel(series, { open: true, planned: true, stepSince: 9, now: 10, share: 5000 });
  assert.deepEqual(model.xs.slice(3, 5), [10, 11]);
});

test('planned steps come after one another, each as early as it may', () => {
  const last = series.points[2] as SeriesPoint;
  assert.deepEqual(plannedPoints(last, series.planned, 7).map(({ time, share }) => [time, share]), [[3, 5000], [5, 9900], [8, 9900], [15, 9900]]);
  assert.deepEqual(plannedPoints({ ...last, step: 3 }, series.planned, 7), []);
});

test('kinds of marks follow from what the log calls them', () => {
  const kinds: [string, string][] = [['approval_given', ''], ['escalation_decided', 'rollback for runtime.errors: …'], ['escalation_decided', 'freeze'], ['route_applied', 'share 0% → 10%'],
    ['state_changed', 'running → rolling_back'], ['state_changed', 'running → paused'], ['hold_set', 'the model is held']];
  assert.deepEqual(kinds.map(([kind, text]) => markKind(kind, text)), ['approval', 'rollback', 'order', 'share', 'rollback', 'state', 'state']);
});

test('a confidence sequence begins with the first observation and keeps infinite limits at the edge', () => {
  const model = confidenceModel(series.clauses[0]!);
  assert.deepEqual(model.xs, [10, 100]);
  const top = model.y.range?.[1] as number;
  assert.deepEqual(model.ys[1], [top, 0.04]);
  assert.equal(model.levels[0]?.shade, 'above');
  assert.match(model.summary, /^After 100 observations the estimate is 0\.01 \(between 0\.001 and 0\.04\); the limit is 0\.05\. Verdict: pass\.$/);
});

test('e-values stay on a log axis, with both levels in view', () => {
  const model = eValueModel(series.clauses[0]!);
  assert.deepEqual(model.ys[0], [0.5, 1e-4]);
  assert.deepEqual(model.ys[1], [3, 1e12]);
  assert.deepEqual(model.levels.map((level) => level.value), [800, 40]);
  assert.ok((model.y.range?.[0] as number) <= 1e-4 && (model.y.range?.[1] as number) >= 800);
  assert.match(model.summary, /proof is ∞ of 40 needed, which is reached/);
});

test('the bad side of a limit follows from its kind', () => {
  assert.deepEqual(['max', 'max_ratio', 'min', 'min_count', 'non_inferiority_margin'].map(badSide), ['above', 'above', 'below', 'below', 'below']);
  assert.equal(limitAt('non_inferiority_margin', 0.02), -0.02);
});

test('requests are summed by arm, and failures are drawn only where there are some', () => {
  const model = requestsModel(series);
  assert.match(model.summary, /candidate answered 12 requests, of which 3 failed; the incumbent answered 108, of which 0 failed/);
  assert.equal(model.lines.length, 4);
  const clean = requestsModel(readSeries({ points: [point(1, 0, 100, { failures: { candidate: 0, incumbent: 0 } })] }));
  assert.equal(clean.lines.length, 2);
});

test('latency is drawn for the metrics that were measured', () => {
  assert.deepEqual(latencyMetrics(series), ['ttft_ms']);
  const model = latencyModel(series, 'ttft_ms');
  assert.deepEqual(model.ys[2], [40, 40, 40]);
  assert.deepEqual(model.ys[3], [null, null, null]);
  assert.match(model.summary, /Incumbent: too few answers/);
});

const ecdf = { edges: [0.001, 0.01, 0.1], cdf: [0.2, 0.9, 1], mean: 0.01, quantiles: { '0.5': 0.005 } };

test('the distribution of the candidate and of the floors share their x axis', () => {
  const model = ecdfModel(readDistribution({ metric: 'tv', slice: 'a=b', rows: 9, candidate: ecdf, floors: { train: { ...ecdf, edges: [0.0001, 0.001, 0.02] }, inf: null } }));
  assert.deepEqual(model?.xs, [0.0001, 0.001, 0.01, 0.02, 0.1]);
  assert.deepEqual(model?.ys[0], [0, 0.2, 0.9, 0.9, 1]);
  assert.deepEqual(model?.ys[1], [0.2, 0.9, 0.9, 1, 1]);
  assert.equal(model?.x.kind, 'log');
  assert.equal(ecdfModel(readDistribution({})), null);
});

test('a value of zero leaves the log axis possible', () => {
  const model = ecdfModel(readDistribution({ metric: 'tv', candidate: { ...ecdf, edges: [0, 0.01, 0.1] } }));
  assert.equal(model?.x.kind, 'log');
  assert.deepEqual(model?.xs, [0.01, 0.1]);
  assert.equal(cdfAt({ edges: [], cdf: [], mean: null, quantiles: {}, unit: 'rows' }, 1), null);
});

test('buckets are named by their ends', () => {
  const bucket = (from: number | null, to: number | null) => ({ from, to, rows: 1, mean: 0 });
  assert.deepEqual([bucket(0, 1), bucket(4, 8), bucket(8, null)].map((one) => bucketText(one, true)), ['0', '4 to 7', 'from 8']);
  assert.deepEqual([bucket(0.1, 0.5), bucket(null, 0.1), bucket(6, Infinity)].map((one) => bucketText(one, false)), ['0.1 to 0.5', 'under 0.1', 'from 6']);
});

test('a distribution says what it counts, and whose drift by position it has', () => {
  const of = readDistribution({ metric: 'tv', slice: 'a=b', candidate: { ...ecdf, unit: 'sequences' }, by: { slice: '', position: [{ from: 0, to: 1, rows: 2, mean: 0.1 }] },
    worst: [{ row: 1, value: 0.9, sequence: 3, position: 4, token: 5, token_text: null, id: 'doc-3', slice: '' }] });
  assert.equal(ecdfModel(of)?.y.label, 'Share of sequences');
  assert.deepEqual([of.bySlice, Object.keys(of.by)], ['', ['position']]);
  assert.deepEqual([of.worst[0]?.id, of.worst[0]?.tokenText], ['doc-3', null]);
});

test('a rate without limits gets those of its counts, which hold the estimate and shrink', () => {
  const points = [10, 100, 1000].map((n) => ({ time_us: n, n, clusters: n, estimate: 0.1, e_value: 1, e_proof: 1, verdict: 'inconclusive' }));
  const rate = readSeries({ clauses: [{ ...answer.clauses[0], points }] }).clauses[0]!;
  const model = confidenceModel(rate);
  const widths = [0, 1, 2].map((at) => (model.ys[1]?.[at] as number) - (model.ys[2]?.[at] as number));
  assert.ok(widths[0]! > widths[1]! && widths[1]! > widths[2]!, String(widths));
  assert.ok((model.ys[2]?.[2] as number) < 0.1 && (model.ys[1]?.[2] as number) > 0.1);
  assert.match(model.summary, /computed by this page from the counts/);
  assert.deepEqual([model.name.startsWith('Confidence'), model.x.label], [false, 'keys'], 'never as if the decision had used it');
  assert.deepEqual(model.lines.slice(1).map((line) => line.label), ['Upper limit, by this page from the counts', 'Lower limit, by this page from the counts']);
  const requests = readSeries({ clauses: [{ ...answer.clauses[0], points: points.map((point) => ({ ...point, clusters: point.n / 2 })) }] }).clauses[0]!;
  assert.equal(confidenceModel(requests).bands.length, 0, 'what is counted is not what the test counts');
  const ratio = readSeries({ clauses: [{ ...answer.clauses[0], limit_kind: 'max_ratio', points }] }).clauses[0]!;
  assert.equal(confidenceModel(ratio).bands.length, 0);
});
