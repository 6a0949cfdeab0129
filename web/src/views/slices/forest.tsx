// The forest plot: an HTML table with an SVG cell. Rows are made once for a figure; opening one draws nothing else again.
import { signal, useComputed, type ReadonlySignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { setQuery } from '../../app/router';
import { count, figure } from '../../charts/numbers';
import { VerdictChip } from '../../ui/chip';
import { plural } from '../../ui/format';
import { Name, Sentence } from '../../ui/name';
import { Empty } from '../../ui/page';
import { intervalText } from '../promotion/report';
import { SliceDetail } from './detail';
import { scaleOf, squareOf, type Forest, type ForestRow, type Scale } from './forest_model';

const WIDTH = 240;
const HEIGHT = 22;
const COLUMNS = 6;

interface ForestProps {
  id: string;
  stage: string;
  forest: Forest;
  /** The slice whose row is open; '' for none. */
  open: string;
}

export function ForestTable({ id, stage, forest, open }: ForestProps) {
  const opened = useMemo(() => signal(open), []);
  useLayoutEffect(() => {
    opened.value = open;
  }, [open]);
  const table = useMemo(() => <Rows id={id} stage={stage} forest={forest} opened={opened} />, [id, stage, forest, opened]);
  if (forest.rows.length === 0) {
    return (
      <Empty title="There are no slices of this figure">
        <p>The contract tests it on the whole corpus only, or the corpus states no attributes.</p>
      </Empty>
    );
  }
  return (
    <>
      <Summary forest={forest} />
      {table}
    </>
  );
}

function Summary({ forest }: { forest: Forest }) {
  const violated = forest.rows.filter((row) => row.verdict === 'violated').length;
  const hidden = forest.rows.filter((row) => row.hidden).length;
  const parts = [`${plural(forest.rows.length, 'slice')}, worst ${forest.side === 'above' ? 'upper' : 'lower'} limit first`];
  if (forest.limit !== null) parts.push(`limit ${figure(forest.limit)}`);
  if (forest.overall !== null) parts.push(`overall ${figure(forest.overall)}`);
  if (violated > 0) parts.push(`${violated} violated`);
  if (hidden > 0) parts.push(`${hidden} hidden by the average`);
  return (
    <>
      <p>{parts.join('; ')}.</p>
      <p class="forest-key muted small" aria-hidden="true">
        <span><span class="forest-sign limit" /> limit</span>
        <span><span class="forest-sign overall" /> overall</span>
        <span><span class="forest-sign zero" /> zero</span>
        <span>■ estimate, its area by rows; the bar is the interval</span>
      </p>
    </>
  );
}

function Rows({ id, stage, forest, opened }: { id: string; stage: string; forest: Forest; opened: ReadonlySignal<string> }) {
  const scale = scaleOf(forest, WIDTH);
  const most = Math.max(...forest.rows.map((row) => row.rows));
  const guides = useMemo(() => guidesOf(forest, scale), [forest]);
  const body = useRef<HTMLTableSectionElement>(null);
  useEffect(() => {
    const wanted = opened.peek();
    if (!wanted) return;
    const row = [...(body.current?.rows ?? [])].find((one) => one.dataset['row'] === wanted);
    row?.scrollIntoView({ block: 'start' });
  }, []);
  return (
    <div class="table-room">
      <table class="table keep forest">
        <caption class="offscreen">Slices by {forest.title}, worst first. The button of a row opens its distribution.</caption>
        <thead>
          <tr>
            <th scope="col">Slice</th>
            <th scope="col">Verdict</th>
            <th scope="col" class="numeric">Rows</th>
            <th scope="col" class="numeric">Estimate</th>
            <th scope="col" class="numeric">Interval</th>
            <th scope="col" class="forest-plot-head"><span class="offscreen">Plot from </span>{figure(scale.low)}<span class="forest-high"><span class="offscreen"> to </span>{figure(scale.high)}</span></th>
          </tr>
        </thead>
        <tbody ref={body}>
          {forest.rows.map((row) => <Row key={row.slice} id={id} stage={stage} row={row} scale={scale} most={most} guides={guides} opened={opened} />)}
        </tbody>
      </table>
    </div>
  );
}

interface Guides {
  zero: string;
  overall: string;
  limit: string;
}

function guidesOf(forest: Forest, scale: Scale): Guides {
  const line = (value: number | null) => (value === null ? '' : `M${scale.at(value)} 0V${HEIGHT}`);
  return { zero: line(0), overall: line(forest.overall), limit: line(forest.limit) };
}

interface RowProps {
  id: string;
  stage: string;
  row: ForestRow;
  scale: Scale;
  most: number;
  guides: Guides;
  opened: ReadonlySignal<string>;
}

function Row({ id, stage, row, scale, most, guides, opened }: RowProps) {
  const open = useComputed(() => opened.value === row.slice);
  const toggle = () => setQuery({ slice: open.peek() ? null : row.slice }, { replace: true });
  return (
    <>
      <tr data-row={row.slice}>
        <th scope="row">
          <button type="button" class="forest-open" aria-expanded={open} onClick={toggle}><Name>{row.slice}</Name></button>
          {row.role && row.role !== 'monitored' && <span class="muted small"> {row.role}</span>}
        </th>
        <td>{row.verdict ? <VerdictChip verdict={row.verdict} /> : '–'}</td>
        <td class="numeric">{count(row.rows)}</td>
        <td class="numeric">{figure(row.estimate)}</td>
        <td class="numeric">{intervalText(row.lower, row.upper)}</td>
        <td class="forest-cell"><Plot row={row} scale={scale} most={most} guides={guides} /></td>
      </tr>
      {open.value && <Opened id={id} stage={stage} row={row} />}
    </>
  );
}

/** Figures beside it say the same, so it is hidden from screen readers. */
function Plot({ row, scale, most, guides }: { row: ForestRow; scale: Scale; most: number; guides: Guides }) {
  const middle = HEIGHT / 2;
  const side = squareOf(row.rows, most);
  const from = scale.at(row.lower ?? row.estimate ?? 0);
  const to = scale.at(row.upper ?? row.estimate ?? 0);
  const bar = row.lower === null && row.upper === null ? '' : `M${from} ${middle}H${to}${row.lower === null ? '' : `M${from} ${middle - 4}V${middle + 4}`}${row.upper === null ? '' : `M${to} ${middle - 4}V${middle + 4}`}`;
  return (
    <svg class={`forest-plot ${row.verdict ?? 'none'}`} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true" focusable="false">
      <path class="zero" d={guides.zero} />
      {guides.overall && <path class="overall" d={guides.overall} />}
      {guides.limit && <path class="limit" d={guides.limit} />}
      {bar && <path class="bar" d={bar} />}
      {row.estimate !== null && <rect x={scale.at(row.estimate) - side / 2} y={middle - side / 2} width={side} height={side} />}
    </svg>
  );
}

function Opened({ id, stage, row }: { id: string; stage: string; row: ForestRow }) {
  return (
    <tr class="forest-detail">
      <td colSpan={COLUMNS}>
        {row.message && <p><Sentence>{row.message}</Sentence></p>}
        {row.method && <p class="muted small">Decided by <Sentence>{row.method}</Sentence>{row.alpha === null ? '' : `, α ${figure(row.alpha)}`}, {count(row.sequences)} sequences.</p>}
        <SliceDetail id={id} stage={stage} slice={row.slice} />
      </td>
    </tr>
  );
}
