// A chart with a name, a summary, a cursor for the arrow keys and a table; drawn only while it is on screen.
import { computed, effect, signal, useSignal, type ReadonlySignal } from '@preact/signals';
import { useEffect, useId, useMemo, useRef } from 'preact/hooks';
import { moveCursor, nearest, pointText, tableOf, type ChartModel, type Line, type Mark } from './model';
import type { Plot } from './plot';

export interface ChartProps {
  /** New figures are drawn when the signal changes; nothing is rendered again but the texts that differ. */
  model: ReadonlySignal<ChartModel>;
  height?: number;
}

const DARK = '(prefers-color-scheme: dark)';

export function Chart({ model, height = 220 }: ChartProps) {
  const id = useId();
  const canvas = useRef<HTMLDivElement>(null);
  const row = useSignal(-1);
  const broken = useSignal('');
  const texts = useMemo(
    () => ({
      name: computed(() => model.value.name),
      summary: computed(() => model.value.summary),
      empty: computed(() => model.value.xs.length === 0),
      lines: computed(() => keyOf(model.value.lines.filter((line) => line.shape !== 'hidden' && !line.silent))),
      levels: computed(() => keyOf(model.value.levels)),
      marks: computed(() => [...new Set(model.value.marks.map((mark) => mark.kind))].sort().join(' ')),
      said: computed(() => (row.value < 0 ? '' : pointText(model.value, row.value))),
      last: computed(() => Math.max(0, model.value.xs.length - 1)),
    }),
    [model],
  );
  useDrawing(canvas, model, height, row, broken);
  if (texts.empty.value) {
    return (
      <figure class="chart" aria-labelledby={`${id}-name`}>
        <figcaption id={`${id}-name`} class="chart-name"><bdi>{texts.name}</bdi></figcaption>
        <p class="chart-summary">{texts.summary}</p>
      </figure>
    );
  }
  const move = (event: KeyboardEvent) => {
    const points = model.value.xs.length;
    const to = moveCursor(event.key, row.value < 0 ? points - 1 : row.value, points);
    if (event.key === 'Escape') row.value = -1;
    else if (to !== null) {
      row.value = to;
      event.preventDefault();
    }
  };
  return (
    <figure class="chart" aria-labelledby={`${id}-name`} aria-describedby={`${id}-summary`}>
      <figcaption id={`${id}-name`} class="chart-name"><bdi>{texts.name}</bdi></figcaption>
      <p id={`${id}-summary`} class="chart-summary">{texts.summary}</p>
      <Legend lines={texts.lines} levels={texts.levels} marks={texts.marks} />
      <div
        ref={canvas} class={`chart-plot chart-h${height > 180 ? 'tall' : 'low'}`} tabIndex={0} role="slider"
        aria-labelledby={`${id}-name`} aria-describedby={`${id}-summary`} aria-orientation="horizontal"
        aria-valuemin={0} aria-valuemax={texts.last} aria-valuenow={computed(() => (row.value < 0 ? texts.last.value : row.value))}
        aria-valuetext={computed(() => texts.said.value || pointText(model.value, texts.last.value))}
        onKeyDown={move} onBlur={() => (row.value = -1)}
      />
      <p class="chart-said" aria-hidden="true"><bdi>{computed(() => texts.said.value || '\u00a0')}</bdi></p>
      {computed(() => broken.value && <p class="chart-summary">The chart could not be drawn: {broken.value}. The table below has the same figures.</p>)}
      <FigureTable model={model} />
    </figure>
  );
}

/** Keeps the same list while its contents stay the same, so that what shows it is not rendered again. */
function keyOf<T>(list: T[]): string {
  return JSON.stringify(list);
}

/** The signs that plot.ts draws at marks. */
const SIGNS: [Mark['kind'], string, string][] = [
  ['order', '▼', ''], ['approval', '●', 'chart-sign-good'], ['rollback', '✕', 'chart-sign-bad'], ['share', '◆', ''], ['state', '■', ''],
];

function Legend({ lines, levels, marks }: { lines: ReadonlySignal<string>; levels: ReadonlySignal<string>; marks: ReadonlySignal<string> }) {
  const shown = JSON.parse(lines.value) as Line[];
  const across = JSON.parse(levels.value) as { label: string; role: string }[];
  const kinds = marks.value.split(' ');
  if (shown.length + across.length < 2 && marks.value === '') return null;
  return (
    <ul class="chart-legend">
      {shown.map((line) => (
        <li key={line.label}>
          <span class={`chart-swatch chart-${line.role}${line.dashed ? ' chart-dashed' : ''}${line.faint ? ' chart-faint' : ''}`} aria-hidden="true" />
          {line.label}
        </li>
      ))}
      {across.map((level) => (
        <li key={level.label}>
          <span class={`chart-swatch chart-dashed chart-${level.role}`} aria-hidden="true" />
          {level.label}
        </li>
      ))}
      {SIGNS.filter(([kind]) => kinds.includes(kind)).map(([kind, sign, look]) => (
        <li key={kind}><span class={`chart-sign ${look}`} aria-hidden="true">{sign}</span> {kind === 'share' ? 'change of the share' : kind === 'state' ? 'change of state' : kind}</li>
      ))}
    </ul>
  );
}

function FigureTable({ model }: { model: ReadonlySignal<ChartModel> }) {
  const open = useSignal(false);
  return (
    <details class="chart-table" onToggle={(event) => (open.value = event.currentTarget.open)}>
      <summary>Figures as a table</summary>
      {open.value && <TableBody model={model} />}
    </details>
  );
}

function TableBody({ model }: { model: ReadonlySignal<ChartModel> }) {
  const { columns, rows } = tableOf(model.value);
  return (
    <div class="chart-scroll" tabIndex={0} role="region" aria-label={`${model.value.name}, figures`}>
      <table>
        <thead><tr>{columns.map((name) => <th key={name} scope="col">{name}</th>)}</tr></thead>
        <tbody>
          {rows.map((cells, at) => (
            <tr key={at}>{cells.map((cell, column) => (column === 0 ? <th key={column} scope="row">{cell}</th> : <td key={column}><bdi>{cell}</bdi></td>))}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

type Writable<T> = { value: T };

/** Draws while the element is on screen and the tab is shown, and frees the canvas when it is not. */
function useDrawing(
  element: { readonly current: HTMLDivElement | null },
  model: ReadonlySignal<ChartModel>,
  height: number,
  row: Writable<number>,
  broken: Writable<string>,
): void {
  const empty = model.value.xs.length === 0;
  useEffect(() => {
    const host = element.current;
    if (!host) return undefined;
    const seen = signal(false);
    const watch = new IntersectionObserver((entries) => (seen.value = entries.some((entry) => entry.isIntersecting)), { rootMargin: '160px' });
    watch.observe(host);
    let ofPointer = false;
    const pointed = (at: number) => {
      if (!ofPointer) return;
      row.value = at;
    };
    const enter = () => (ofPointer = true);
    const leave = () => {
      ofPointer = false;
      row.value = -1;
    };
    host.addEventListener('pointerenter', enter);
    host.addEventListener('pointerleave', leave);
    const stop = effect(() => {
      if (!seen.value) return undefined;
      return mount(host, model, height, row, pointed, broken, () => ofPointer);
    });
    return () => {
      watch.disconnect();
      stop();
      host.removeEventListener('pointerenter', enter);
      host.removeEventListener('pointerleave', leave);
    };
  }, [model, height, empty]);
}

/** Loads the drawing code and draws until the function that it returns is called. */
function mount(
  host: HTMLDivElement,
  model: ReadonlySignal<ChartModel>,
  height: number,
  row: Writable<number>,
  pointed: (row: number) => void,
  broken: Writable<string>,
  ofPointer: () => boolean,
): () => void {
  let plot: Plot | null = null;
  let over = false;
  const ends: (() => void)[] = [];
  import('./plot').then(
    ({ draw }) => {
      if (over) return;
      const made = draw(host, model.peek(), { width: Math.max(160, host.clientWidth), height }, pointed);
      plot = made;
      let first = true;
      ends.push(effect(() => {
        const next = model.value;
        if (!first) made.show(next);
        first = false;
      }));
      ends.push(effect(() => {
        const at = row.value;
        if (!ofPointer()) made.point(at);
      }));
      const sizes = new ResizeObserver(() => made.resize(Math.max(160, host.clientWidth), height));
      sizes.observe(host);
      const dark = matchMedia(DARK);
      const repaint = () => made.repaint();
      dark.addEventListener('change', repaint);
      ends.push(() => sizes.disconnect(), () => dark.removeEventListener('change', repaint));
    },
    (error: unknown) => (broken.value = error instanceof Error ? error.message : String(error)),
  );
  return () => {
    over = true;
    for (const end of ends) end();
    plot?.destroy();
  };
}

/** The row of a model at an x value, for links from lists of marks. */
export function rowAt(model: ChartModel, x: number): number {
  return nearest(model.xs, x);
}
