// The rows of a forest plot, made by cloning one row: several times faster than as components, of which 500 slices
// would need thousands. Texts are set as text only.
import { render } from 'preact';
import { count, figure } from '../../charts/numbers';
import { VerdictChip } from '../../ui/chip';
import { visible } from '../../ui/name';
import { intervalText, type Verdict } from '../promotion/report';
import { scaleOf, squareOf, type Forest, type ForestRow, type Scale } from './forest_model';

export const WIDTH = 240;
const HEIGHT = 22;
const SVG = 'http://www.w3.org/2000/svg';

/** An element with attributes and children. */
function element(name: string, attributes: Record<string, string>, ...children: (Element | string)[]): Element {
  const made = name === 'svg' || name === 'path' ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** One row without figures. */
function prototypeOf(): HTMLTableRowElement {
  return element('tr', { role: 'row' },
    element('th', { scope: 'row', role: 'rowheader' },
      element('button', { type: 'button', class: 'forest-open', 'aria-expanded': 'false' }, element('bdi', { class: 'name' }, ' '))),
    element('td', { role: 'cell' }),
    element('td', { role: 'cell', class: 'numeric forest-rows' }, ' '),
    element('td', { role: 'cell', class: 'numeric' }, ' '),
    element('td', { role: 'cell', class: 'numeric forest-interval' }, ' '),
    element('td', { role: 'cell', class: 'forest-cell' },
      element('svg', { class: 'forest-plot', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, 'aria-hidden': 'true', focusable: 'false' }, element('path', {}))),
  ) as HTMLTableRowElement;
}

const chips = new Map<Verdict, Element>();

function chipOf(verdict: Verdict): Node {
  let known = chips.get(verdict);
  if (!known) {
    const room = document.createElement('span');
    render(<VerdictChip verdict={verdict} />, room);
    known = room.firstElementChild as Element;
    chips.set(verdict, known);
  }
  return known.cloneNode(true);
}

function setText(cell: Element, text: string): void {
  (cell.firstChild as Text).data = text;
}

/** The interval with an end at each limit that there is, and the square of the estimate: one path, stroked and filled. */
function pathOf(row: ForestRow, scale: Scale, most: number): string {
  return barOf(row, scale) + (row.estimate === null ? '' : squareAt(scale.at(row.estimate), squareOf(row.rows, most)));
}

function squareAt(x: number, side: number): string {
  return `M${x - side / 2} ${HEIGHT / 2 - side / 2}h${side}v${side}h${-side}z`;
}

function barOf(row: ForestRow, scale: Scale): string {
  if (row.lower === null && row.upper === null) return '';
  const middle = HEIGHT / 2;
  const end = (value: number | null) => (value === null ? '' : `M${scale.at(value)} ${middle - 4}V${middle + 4}`);
  const from = scale.at(row.lower ?? scale.low);
  const to = scale.at(row.upper ?? scale.high);
  return `M${from} ${middle}H${to}${end(row.lower)}${end(row.upper)}`;
}

function rowOf(prototype: HTMLTableRowElement, row: ForestRow, scale: Scale, most: number): HTMLTableRowElement {
  const made = prototype.cloneNode(true) as HTMLTableRowElement;
  const [head, verdict, rows, estimate, interval, plot] = made.children as unknown as [Element, Element, Element, Element, Element, Element];
  made.dataset['row'] = row.slice;
  setText((head.firstElementChild as Element).firstElementChild as Element, visible(row.slice));
  if (row.role && row.role !== 'monitored') head.append(element('span', { class: 'muted small' }, ` ${visible(row.role)}`));
  verdict.append(row.verdict ? chipOf(row.verdict) : '–');
  setText(rows, count(row.rows));
  setText(estimate, figure(row.estimate));
  setText(interval, intervalText(row.lower, row.upper));
  const svg = plot.firstElementChild as Element;
  if (row.verdict) svg.classList.add(row.verdict);
  (svg.firstElementChild as Element).setAttribute('d', pathOf(row, scale, most));
  return made;
}

/** Rows that are made at once, more than a screen has; further ones follow, a part with each frame, so that the first are
 * soon there and the page answers in between. */
const AT_ONCE = 50;
const WITH_A_FRAME = 150;

/** Puts all rows of the forest into `body`, instead of what is there; at once those up to `open`. Gives what stops it. */
export function fillRows(body: HTMLTableSectionElement, forest: Forest, open: string): () => void {
  const scale = scaleOf(forest, WIDTH);
  const most = forest.rows.reduce((largest, row) => Math.max(largest, row.rows), 0);
  setGuides(body, forest, scale);
  const prototype = prototypeOf();
  let done = 0;
  let frame = 0;
  const append = (until: number) => {
    const made = document.createDocumentFragment();
    for (; done < until && done < forest.rows.length; ++done) made.append(rowOf(prototype, forest.rows[done] as ForestRow, scale, most));
    body.append(made);
    // The frame that shows what is there comes first; the next part is made before the one after it.
    if (done < forest.rows.length) frame = requestAnimationFrame(() => { frame = requestAnimationFrame(() => append(done + WITH_A_FRAME)); });
  };
  body.replaceChildren();
  append(Math.max(AT_ONCE, forest.rows.findIndex((row) => row.slice === open) + 1));
  return () => cancelAnimationFrame(frame);
}

/** Where the lines of zero, the overall figure and the limit are: backgrounds of every plot, as shares of its width. */
function setGuides(body: HTMLTableSectionElement, forest: Forest, scale: Scale): void {
  const guides: [string, number | null][] = [['zero', 0], ['overall', forest.overall], ['limit', forest.limit]];
  for (const [name, value] of guides) {
    body.style.setProperty(`--at-${name}`, value === null ? '-100%' : `${(scale.at(value) / WIDTH) * 100}%`);
  }
}
