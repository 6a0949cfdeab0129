// The forest plot: an HTML table with an SVG cell, and the row under which a slice is opened.
import { render } from 'preact';
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { setQuery } from '../../app/router';
import { count, figure } from '../../charts/numbers';
import { plural } from '../../ui/format';
import { Sentence } from '../../ui/name';
import { Empty } from '../../ui/page';
import { SliceDetail } from './detail';
import { scaleOf, type Forest, type ForestRow } from './forest_model';
import { fillRows, WIDTH } from './forest_rows';

const COLUMNS = 6;

interface ForestProps {
  id: string;
  stage: string;
  forest: Forest;
  /** The slice whose row is open; '' for none. */
  open: string;
}

export function ForestTable({ id, stage, forest, open }: ForestProps) {
  const body = useRef<HTMLTableSectionElement>(null);
  const table = useMemo(() => <Frame body={body} forest={forest} />, [forest]);
  useLayoutEffect(() => (body.current ? fillRows(body.current, forest, open) : undefined), [forest]);
  useOpened(body, id, stage, forest, open);
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

/** The table without its rows, which fillRows makes. */
function Frame({ body, forest }: { body: { current: HTMLTableSectionElement | null }; forest: Forest }) {
  const scale = scaleOf(forest, WIDTH);
  return (
    <div class="table-room">
      <table class="table keep forest" role="table">
        <caption class="offscreen">Slices by {forest.title}, worst first. The button of a row opens its distribution.</caption>
        <colgroup><col /><col class="forest-col-verdict" /><col class="forest-col-rows" /><col class="forest-col-rows" /><col class="forest-col-interval" /><col class="forest-col-plot" /></colgroup>
        <thead role="rowgroup">
          <tr role="row">
            <th scope="col" role="columnheader">Slice</th>
            <th scope="col" role="columnheader">Verdict</th>
            <th scope="col" role="columnheader" class="numeric">Rows</th>
            <th scope="col" role="columnheader" class="numeric">Estimate</th>
            <th scope="col" role="columnheader" class="numeric">Interval</th>
            <th scope="col" role="columnheader" class="forest-plot-head">
              <span class="offscreen">Plot from </span>{figure(scale.low)}<span class="forest-high"><span class="offscreen"> to </span>{figure(scale.high)}</span>
            </th>
          </tr>
        </thead>
        <tbody ref={body} role="rowgroup" onClick={toggle} />
      </table>
    </div>
  );
}

/** Opens the slice of the button that was clicked, or closes it. */
function toggle(event: MouseEvent): void {
  const button = (event.target as Element).closest('.forest-open');
  const slice = button?.closest('tr')?.dataset['row'];
  if (!button || slice === undefined) return;
  setQuery({ slice: button.getAttribute('aria-expanded') === 'true' ? null : slice }, { replace: true });
}

/** Keeps one row below that of the open slice, with its distribution; scrolls to it when the view begins with it. */
function useOpened(body: { current: HTMLTableSectionElement | null }, id: string, stage: string, forest: Forest, open: string): void {
  const begun = useRef(false);
  useLayoutEffect(() => {
    const first = !begun.current;
    begun.current = true;
    const row = open === '' ? undefined : forest.rows.find((one) => one.slice === open);
    const above = row && [...(body.current?.rows ?? [])].find((one) => one.dataset['row'] === row.slice);
    if (!row || !above) return undefined;
    const button = above.querySelector('.forest-open');
    button?.setAttribute('aria-expanded', 'true');
    const below = document.createElement('tr');
    below.className = 'forest-detail';
    below.setAttribute('role', 'row');
    above.after(below);
    render(<Opened id={id} stage={stage} row={row} />, below);
    if (first) above.scrollIntoView({ block: 'start' });
    return () => {
      render(null, below);
      below.remove();
      button?.setAttribute('aria-expanded', 'false');
    };
  }, [id, stage, forest, open]);
}

function Opened({ id, stage, row }: { id: string; stage: string; row: ForestRow }) {
  return (
    <td colSpan={COLUMNS} role="cell">
      {row.message && <p><Sentence>{row.message}</Sentence></p>}
      {row.method && (
        <p class="muted small">
          Decided by <Sentence>{row.method}</Sentence>{row.alpha === null ? '' : `, α ${figure(row.alpha)}`}, {count(row.rows)} rows of {plural(row.sequences, 'sequence')}.
        </p>
      )}
      <SliceDetail id={id} stage={stage} slice={row.slice} />
    </td>
  );
}
