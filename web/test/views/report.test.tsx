import assert from 'node:assert/strict';
import { test } from 'node:test';
import { render } from 'preact-render-to-string';
import { readSeries } from '../../src/charts/series';
import {
  eText, failingFirst, figuresOf, intervalText, limitOf, limitText, liveVerdicts, methodText, readReport, readVerdict, sampleText, sideOf,
  whereOf, whereText, worstSlice,
} from '../../src/views/promotion/report';
import { VerdictTable } from '../../src/views/promotion/verdicts';
import { chooseBy, choicesOf, forestOf, heatMapOf, heatOf, metricsOf, scaleOf, squareOf } from '../../src/views/slices/forest_model';

const verdict = (more: object = {}) => ({
  clause: 'statistical.tv', severity: 'hard', where: {}, role: 'corpus', verdict: 'pass', rule: 'test', rules: 2, n: 100, clusters: 10,
  estimate: 0.01, lower: 0.005, upper: 0.015, threshold: 0.02, limit_kind: 'max', alpha: 0.03, method: 'clustered t', approximate: false,
  no_harm_only: false, seed: '7', details: {}, message: 'It holds.', ...more,
});
const figures = (mean: number) => ({ n: 5, mean, sequence_mean: mean, min: 0, max: 1, p50: mean, p99: mean, floor: { train: mean / 10 } });

const report = readReport({
  stage: 'statistical-slice', verdict: 'violated', alpha: 0.03, nothing_demanded: false, notes: ['A note.'], bounds: [],
  verdicts: [
    verdict(),
    verdict({ where: { language: 'en' }, role: 'monitored', estimate: 0.008, lower: 0.007, upper: 0.009 }),
    verdict({ where: { language: 'de' }, role: 'critical', verdict: 'violated', estimate: 0.05, lower: 0.04, upper: 0.06 }),
    verdict({ where: { language: 'fr' }, role: 'critical', verdict: 'inconclusive', estimate: 0.01, lower: 0.001, upper: 0.09 }),
    verdict({ where: { language: 'xx' }, role: 'discovered', verdict: 'violated', severity: 'soft', limit_kind: 'ratio_to_rest', threshold: 1, estimate: 3 }),
  ],
  ranking: [{ clause: 'statistical.tv', where: { language: 'de' }, role: 'critical', verdict: 'violated', estimate: 0.05, limit: 0.02, excess: 1.5, hidden_by_mean: true, corpus_estimate: 0.01 }],
  slices: [
    { where: {}, role: 'corpus', rows: 1000, sequences: 90, metrics: { tv: figures(0.01), entropy_train: figures(2) } },
    { where: { language: 'de' }, role: 'critical', rows: 100, sequences: 9, metrics: { tv: figures(0.05), entropy_train: figures(9) } },
    { where: { language: 'en' }, role: 'monitored', rows: 800, sequences: 70, metrics: { tv: figures(0.008) } },
  ],
});

test('reports of any shape are read without an exception', () => {
  for (const value of [null, [], {}, { verdicts: [null, 7], slices: [{}], bounds: [{ links: 'x' }], ranking: [null], notes: 7 }]) readReport(value);
});

test('verdicts stand failing first, and those that block before those that do not', () => {
  assert.deepEqual(failingFirst(report.verdicts).map((one) => whereText(one.where)), ['language=de', 'language=xx', 'language=fr', '', 'language=en']);
});

test('a verdict shows estimate, interval, limit, α, n and method, and its names cannot become markup', () => {
  const hostile = readVerdict(verdict({ clause: '<script>x</script>', message: '\u202eevil', method: '<b>m</b>', e_value: 3, details: { e_harm_needed: 800 } }));
  const html = render(<VerdictTable verdicts={[hostile]} most={5} title="t" />);
  for (const text of ['0.01', '0.005 … 0.015', '≤ 0.02', '0.03', '100 in 10 units', 'harm 3 of 800', '&lt;b>m&lt;/b>', '⟨U+202E⟩evil']) assert.ok(html.includes(text), text);
  assert.ok(!html.includes('<script'));
});

test('limits are written by their kind', () => {
  const of = (more: object) => limitText(readVerdict(verdict(more)));
  assert.equal(of({ limit_kind: 'max_ratio', threshold: 3 }), 'ratio ≤ 3');
  assert.equal(of({ limit_kind: 'min_count', threshold: 120 }), '≥ 120');
  assert.equal(of({ limit_kind: 'max_staleness', threshold: 60 }), '≤ 60 ms');
  assert.equal(of({ threshold: null }), '–');
  const quantile = readVerdict(verdict({ threshold: 0.037, details: { tolerated_fraction: 0.09999999999999998 } }));
  assert.equal(limitText(quantile), '≤ 10% of rows beyond 0.037');
  assert.equal(limitOf(quantile), 0.09999999999999998);
  assert.equal(limitOf(readVerdict(verdict({ limit_kind: 'non_inferiority_margin' }))), -0.02);
  assert.equal(sideOf(readVerdict(verdict({ limit_kind: 'min' }))), 'below');
  assert.equal(sideOf(readVerdict(verdict({ limit_kind: 'min', details: { tolerated_fraction: 0.1 } }))), 'above');
});

test('what cannot be known is said as such', () => {
  assert.equal(intervalText(null, null), '–');
  assert.equal(intervalText(1, null), '1 … ∞');
  assert.equal(sampleText({ n: 5, clusters: 5 }), '5');
  assert.equal(eText(readVerdict(verdict())), '');
  assert.equal(methodText(readVerdict(verdict({ approximate: true, severity: 'soft' }))), 'clustered t, approximate, soft: does not block');
});

test('slices are written and read in the same way', () => {
  assert.equal(whereText({ language: 'de', domain: 'a=b' }), 'domain=a=b;language=de');
  assert.deepEqual(whereOf('domain=a=b;language=de'), { domain: 'a=b', language: 'de' });
  assert.deepEqual(whereOf(''), {});
});

test('the newest point of a live clause is its verdict', () => {
  const series = readSeries({ clauses: [{ clause: 'runtime.errors', slice: 'language=de', threshold: 0.05, limit_kind: 'max', e_harm_needed: 800,
    points: [{ n: 1, verdict: 'pass' }, { n: 7, estimate: 0.1, e_value: 2, e_proof: 3, verdict: 'inconclusive' }] }, { clause: 'none' }] });
  const [live, ...rest] = liveVerdicts(series.clauses);
  assert.equal(rest.length, 0);
  assert.deepEqual([live?.verdict, live?.n, live?.where], ['inconclusive', 7, { language: 'de' }]);
  assert.equal(eText(live!), 'harm 2 of 800, proof 3');
});

test('the worst slice is the one furthest beyond its limit', () => {
  assert.equal(whereText(worstSlice([{ stage: 's', report }])!.rank.where), 'language=de');
  assert.equal(worstSlice([]), null);
});

test('a forest begins with the worst upper limit and knows the overall figure and the limit', () => {
  const forest = forestOf(report, chooseBy(report, null));
  assert.deepEqual(forest.rows.map((row) => row.slice), ['language=fr', 'language=de', 'language=en']);
  assert.deepEqual([forest.overall, forest.limit, forest.side], [0.01, 0.02, 'above']);
  assert.deepEqual(forest.rows.map((row) => [row.rows, row.hidden]), [[100, false], [100, true], [800, false]]);
});

test('where small is bad, the smallest lower limit comes first', () => {
  const below = readReport({ verdicts: [
    verdict({ limit_kind: 'min', where: { a: '1' }, lower: 0.5, upper: 0.9 }), verdict({ limit_kind: 'min', where: { a: '2' }, lower: 0.1, upper: 0.99 }),
  ] });
  const forest = forestOf(below, chooseBy(below, 'statistical.tv'));
  assert.deepEqual(forest.rows.map((row) => row.slice), ['a=2', 'a=1']);
});

test('a figure against the rest and a metric without a test are choices of their own', () => {
  assert.deepEqual(choicesOf(report).map((choice) => choice.key), ['statistical.tv|max', 'statistical.tv|ratio_to_rest', 'metric|tv', 'metric|entropy_train']);
  assert.deepEqual(forestOf(report, 'metric|tv').rows.map((row) => [row.slice, row.estimate, row.lower]), [['language=de', 0.05, null], ['language=en', 0.008, null]]);
  assert.equal(chooseBy(report, 'metric|tv'), 'metric|tv');
  assert.equal(chooseBy(report, 'nonsense'), 'statistical.tv|max');
  assert.deepEqual(forestOf(readReport({}), chooseBy(readReport({}), null)).rows, []);
});

test('the scale holds zero, the limit and every interval, and infinite limits end at its edge', () => {
  const forest = forestOf(report, 'statistical.tv|max');
  const scale = scaleOf(forest, 240);
  assert.deepEqual([scale.low, scale.high], [0, 0.09]);
  assert.ok(scale.at(0) < scale.at(0.02) && scale.at(0.02) < scale.at(0.09));
  assert.equal(scale.at(Infinity), scale.at(0.09));
  assert.equal(scale.at(-5), scale.at(0));
});

test('the area of a square stands for its rows', () => {
  assert.equal(squareOf(0, 10), 3);
  assert.ok(squareOf(10, 10) > squareOf(5, 10));
  assert.equal(squareOf(1, 0), 3);
});

test('a heat map marks what drifts beyond the whole corpus and nothing of which more is no worse', () => {
  const metrics = metricsOf(report);
  assert.deepEqual(metrics, ['tv', 'entropy_train']);
  const rows = heatMapOf(report, metrics);
  assert.deepEqual(rows.map((row) => row.slice), ['', 'language=de', 'language=en']);
  assert.deepEqual(rows[1]?.cells.map((cell) => cell.heat), [4, 0]);
  assert.equal(rows[2]?.cells[1]?.value, null);
  assert.deepEqual([heatOf('tv', 0.01, 0.01), heatOf('tv', 0.06, 0.01), heatOf('nonfinite', 1, 0), heatOf('tv', null, 1)], [0, 5, 5, 0]);
});

test('figures of a slice are read by name only', () => {
  assert.equal(figuresOf(report.slices[1]!, 'tv')?.floorTrain, 0.005);
  assert.equal(figuresOf(report.slices[1]!, 'constructor'), null);
});
