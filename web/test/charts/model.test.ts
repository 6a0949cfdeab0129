import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decades, extent, increasing, moveCursor, nearest, pointText, tableOf, type ChartModel } from '../../src/charts/model';
import { figure, num } from '../../src/charts/numbers';
import { logTicks } from '../../src/charts/ticks';

const model: ChartModel = {
  name: 'Share', summary: 'It grew.',
  x: { kind: 'linear', label: 'n', format: String },
  y: { kind: 'linear', label: 'share', format: (value) => `${value}%` },
  lines: [{ label: 'Candidate', role: 'candidate', shape: 'step' }, { label: 'Planned', role: 'planned', shape: 'step' }],
  bands: [], levels: [], marks: [{ x: 19, kind: 'approval', text: 'Step 2 was approved.' }],
  xs: [1, 10, 20], ys: [[10, 50, null], [null, null, 99]],
};

test('numbers that are not finite are read from every spelling and written as signs', () => {
  assert.deepEqual(['inf', 'Infinity', '-inf', '-Infinity', 'nan', 'NaN', '7', null].map(num), [Infinity, Infinity, -Infinity, -Infinity, null, null, null, null]);
  assert.equal(num(NaN), null);
  assert.deepEqual([Infinity, -Infinity, null, 0, 1e-5, -0.25].map((value) => figure(value)), ['∞', '−∞', '–', '0', '1e−5', '−0.25']);
});

test('the table of a chart has every line and what happened beside the nearest point', () => {
  const { columns, rows } = tableOf(model);
  assert.deepEqual(columns, ['n', 'Candidate', 'Planned', 'What happened']);
  assert.deepEqual(rows, [['1', '10%', '–', ''], ['10', '50%', '–', ''], ['20', '–', '99%', 'Step 2 was approved.']]);
});

test('a point is said with its figures and marks', () => {
  assert.equal(pointText(model, 0), 'n 1: Candidate 10%.');
  assert.equal(pointText(model, 2), 'n 20: Planned 99%. Step 2 was approved.');
  assert.equal(pointText(model, 7), '');
});

test('arrow keys move the cursor within the points', () => {
  assert.equal(moveCursor('ArrowRight', 1, 3), 2);
  assert.equal(moveCursor('ArrowRight', 2, 3), 2);
  assert.equal(moveCursor('ArrowLeft', 0, 3), 0);
  assert.equal(moveCursor('End', 0, 100), 99);
  assert.equal(moveCursor('PageDown', 50, 100), 40);
  assert.equal(moveCursor('Tab', 1, 3), null);
  assert.equal(moveCursor('ArrowRight', 0, 0), null);
});

test('the nearest point is found by distance', () => {
  assert.deepEqual([0, 5, 6, 14, 15.1, 99].map((x) => nearest([1, 10, 20], x)), [0, 0, 1, 1, 2, 2]);
  assert.equal(nearest([], 1), -1);
});

test('extents ignore what cannot be drawn', () => {
  assert.deepEqual(extent([[null, 3, Infinity], [1]], [2]), [1, 3]);
  assert.equal(extent([[null, NaN]]), null);
  assert.deepEqual(decades(0.2, 800), [0.1, 1000]);
  assert.deepEqual(decades(10, 10), [10, 100]);
});

test('of points with one x the last stays, in order', () => {
  const points = [{ x: 3, y: 1 }, { x: 1, y: 2 }, { x: 3, y: 4 }];
  assert.deepEqual(increasing(points, (point) => point.x), [{ x: 1, y: 2 }, { x: 3, y: 4 }]);
});

test('a log axis always has ticks, also within one decade', () => {
  assert.deepEqual(logTicks(1, 1000, 2), [1, 100]);
  assert.deepEqual(logTicks(1, 1000, 20), [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]);
  assert.deepEqual(logTicks(3, 4, 4), [3, 4]);
  assert.deepEqual(logTicks(0, 4, 4), []);
});
