// What a chart shows, as plain data. Builders make it from answers of the API (confidence.ts, ramp.ts …),
// Chart.tsx makes it accessible, plot.ts draws it.

/** A colour by what it stands for; charts.css gives each one for light and dark. */
export type Role =
  | 'candidate'
  | 'incumbent'
  | 'estimate'
  | 'limit'
  | 'proof'
  | 'harm'
  | 'floor-train'
  | 'floor-inf'
  | 'planned'
  | 'other'
  | 'mark';

export interface Axis {
  kind: 'time' | 'linear' | 'log';
  label: string;
  /** Both ends of what is shown; without it the data decide. */
  range?: [number, number];
  /** How a value is written at a tick and in the readout. */
  format: (value: number) => string;
}

export interface Line {
  label: string;
  role: Role;
  shape: 'line' | 'step' | 'hidden';
  dashed?: boolean;
  faint?: boolean;
  /** Hidden lines are still read out, unless this is set. */
  silent?: boolean;
}

/** The area between two lines, by their places in `lines`. */
export interface Band {
  upper: number;
  lower: number;
  role: Role;
}

/** A level across the whole chart. */
export interface Level {
  value: number;
  label: string;
  role: Role;
  /** Shade everything on this side of it. */
  shade?: 'above' | 'below';
}

/** A moment on the x axis. Its text is shown beside the chart, never drawn on it. */
export interface Mark {
  x: number;
  kind: 'order' | 'approval' | 'rollback' | 'state' | 'share';
  text: string;
}

export interface ChartModel {
  /** What the chart is called. */
  name: string;
  /** What it says, in one or two sentences. */
  summary: string;
  x: Axis;
  y: Axis;
  lines: Line[];
  bands: Band[];
  levels: Level[];
  marks: Mark[];
  /** The x values, which increase. */
  xs: number[];
  /** One list for each line, as long as `xs`. */
  ys: (number | null)[][];
}

export interface ChartTable {
  columns: string[];
  rows: string[][];
}

/** The same figures as a table, for those who read rather than look. */
export function tableOf(model: ChartModel): ChartTable {
  const shown = model.lines.map((line, at) => ({ line, at })).filter(({ line }) => !line.silent);
  const marks = new Map<number, string[]>();
  for (const mark of model.marks) {
    const row = nearest(model.xs, mark.x);
    if (row < 0) continue;
    marks.set(row, [...(marks.get(row) ?? []), mark.text]);
  }
  const withMarks = marks.size > 0;
  return {
    columns: [model.x.label, ...shown.map(({ line }) => line.label), ...(withMarks ? ['What happened'] : [])],
    rows: model.xs.map((x, row) => [
      model.x.format(x),
      ...shown.map(({ at }) => valueText(model, at, row)),
      ...(withMarks ? [(marks.get(row) ?? []).join(' ')] : []),
    ]),
  };
}

function valueText(model: ChartModel, line: number, row: number): string {
  const value = model.ys[line]?.[row];
  return value === null || value === undefined ? '–' : model.y.format(value);
}

/** What is said of the point at `row`: "09:41:10: share 10%, limit 12%. The step was approved." */
export function pointText(model: ChartModel, row: number): string {
  const x = model.xs[row];
  if (x === undefined) return '';
  const figures = model.lines
    .map((line, at) => ({ line, at }))
    .filter(({ line, at }) => !line.silent && typeof model.ys[at]?.[row] === 'number')
    .map(({ line, at }) => `${line.label} ${valueText(model, at, row)}`);
  const marks = model.marks.filter((mark) => nearest(model.xs, mark.x) === row).map((mark) => mark.text);
  const values = figures.length === 0 ? 'no figure' : figures.join(', ');
  return [`${model.x.label} ${model.x.format(x)}: ${values}.`, ...marks].join(' ');
}

/** The place of the value nearest to `x` in a list that increases; −1 in an empty one. */
export function nearest(xs: readonly number[], x: number): number {
  if (xs.length === 0) return -1;
  let low = 0;
  let high = xs.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((xs[middle] as number) < x) low = middle + 1;
    else high = middle;
  }
  if (low > 0 && x - (xs[low - 1] as number) < (xs[low] as number) - x) return low - 1;
  return low;
}

/** Where the cursor goes on a key; null for keys that do not move it. */
export function moveCursor(key: string, at: number, points: number): number | null {
  if (points === 0) return null;
  const last = points - 1;
  const page = Math.max(1, Math.round(points / 10));
  switch (key) {
    case 'ArrowRight':
    case 'ArrowUp':
      return Math.min(last, at + 1);
    case 'ArrowLeft':
    case 'ArrowDown':
      return Math.max(0, at - 1);
    case 'PageUp':
      return Math.min(last, at + page);
    case 'PageDown':
      return Math.max(0, at - page);
    case 'Home':
      return 0;
    case 'End':
      return last;
    default:
      return null;
  }
}

/** The smallest and largest finite value over lists and further values; null without any. */
export function extent(lists: readonly (readonly (number | null)[])[], more: readonly number[] = []): [number, number] | null {
  let low = Infinity;
  let high = -Infinity;
  const take = (value: number | null) => {
    if (value === null || !Number.isFinite(value)) return;
    if (value < low) low = value;
    if (value > high) high = value;
  };
  for (const list of lists) for (const value of list) take(value);
  for (const value of more) take(value);
  return low > high ? null : [low, high];
}

/** Both ends with `part` of the distance added on each side; a distance of 0 gets one. */
export function padded([low, high]: [number, number], part = 0.08): [number, number] {
  const room = (high - low || Math.abs(high) || 1) * part;
  return [low - room, high + room];
}

/** Both ends on a log axis: whole powers of ten around them, at least one decade. */
export function decades(low: number, high: number): [number, number] {
  const from = Math.floor(Math.log10(low));
  const to = Math.ceil(Math.log10(high));
  return [10 ** from, 10 ** Math.max(to, from + 1)];
}

/** Points on the x axis must increase: of points with the same x the last one stays. */
export function increasing<T>(points: readonly T[], x: (point: T) => number): T[] {
  const sorted = [...points].sort((a, b) => x(a) - x(b));
  return sorted.filter((point, at) => at === sorted.length - 1 || x(sorted[at + 1] as T) > x(point));
}
