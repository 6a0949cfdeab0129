// Draws a ChartModel with uPlot. Loaded when the first chart comes into view, so that uPlot is no part of the first use.
//
// uPlot makes its elements by createElement and sets styles from script only, which the Content-Security-Policy allows;
// its style rules are in charts.css. All text beside the ticks is HTML around the canvas (Chart.tsx).
import uPlot from 'uplot';
import type { Axis, ChartModel, Level, Line, Mark, Role } from './model';
import { logTicks, TIME_STEPS, timeTick } from './ticks';

export interface Plot {
  /** Draws other figures. Cheap where only the figures are new. */
  show(model: ChartModel): void;
  resize(width: number, height: number): void;
  /** Puts the cursor on the point at `row`; −1 takes it away. */
  point(row: number): void;
  /** Draws again in the colours of now. */
  repaint(): void;
  destroy(): void;
}

type Colours = (role: Role | 'grid' | 'text') => string;

function coloursOf(element: HTMLElement): Colours {
  const style = getComputedStyle(element);
  return (role) => style.getPropertyValue(`--chart-${role}`).trim() || '#888';
}

/** The same colour, seen through. */
function faint(colour: string, part: number): string {
  const context = scratch();
  context.fillStyle = '#888888';
  context.fillStyle = colour;
  const hex = context.fillStyle;
  return hex.startsWith('#') ? hex + Math.round(part * 255).toString(16).padStart(2, '0') : hex;
}

let scratchContext: CanvasRenderingContext2D | null = null;
function scratch(): CanvasRenderingContext2D {
  scratchContext ??= document.createElement('canvas').getContext('2d') as CanvasRenderingContext2D;
  return scratchContext;
}

class Drawing implements Plot {
  private plot: uPlot | null = null;
  private colours: Colours;
  private form = '';

  constructor(
    private readonly element: HTMLElement,
    private model: ChartModel,
    private width: number,
    private height: number,
    private readonly pointed: (row: number) => void,
  ) {
    this.colours = coloursOf(element);
    this.build();
  }

  show(model: ChartModel): void {
    this.model = model;
    if (this.form !== formOf(model) || !this.plot) this.build();
    else this.plot.setData(dataOf(model));
  }

  resize(width: number, height: number): void {
    if (width === this.width && height === this.height) return;
    this.width = width;
    this.height = height;
    this.plot?.setSize({ width, height });
  }

  point(row: number): void {
    const plot = this.plot;
    if (!plot) return;
    const x = this.model.xs[row];
    if (x === undefined) {
      plot.setCursor({ left: -10, top: -10 }, false);
      return;
    }
    plot.setCursor({ left: plot.valToPos(x, 'x'), top: plot.over.clientHeight / 2 }, false);
  }

  repaint(): void {
    this.colours = coloursOf(this.element);
    this.plot?.redraw(false, true);
  }

  destroy(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  private build(): void {
    this.plot?.destroy();
    this.form = formOf(this.model);
    this.plot = new uPlot(this.options(), dataOf(this.model), this.element);
  }

  private options(): uPlot.Options {
    const { x, y } = this.model;
    return {
      width: this.width,
      height: this.height,
      legend: { show: false },
      select: { show: false, left: 0, top: 0, width: 0, height: 0 },
      cursor: { drag: { setScale: false, x: false, y: false }, y: false, points: { size: 7 } },
      scales: {
        x: { time: x.kind === 'time', distr: x.kind === 'log' ? 3 : 1, log: 10, range: () => this.rangeOfX() },
        y: { distr: y.kind === 'log' ? 3 : 1, log: 10, range: (_, low, high) => this.rangeOfY(low, high) },
      },
      series: [{}, ...this.model.lines.map((line) => this.series(line))],
      bands: this.model.bands.map((band) => ({
        series: [band.upper + 1, band.lower + 1] as [number, number],
        fill: () => faint(this.colours(band.role), 0.18),
      })),
      axes: [this.axis(x, true), this.axis(y, false)],
      hooks: {
        drawClear: [(plot) => this.drawShades(plot)],
        draw: [(plot) => this.drawLevels(plot), (plot) => this.drawMarks(plot)],
        setCursor: [(plot) => this.pointed(plot.cursor.idx ?? -1)],
      },
    };
  }

  private series(line: Line): uPlot.Series {
    const stepped = line.shape === 'step' ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
    return {
      label: line.label,
      scale: 'y',
      stroke: () => faint(this.colours(line.role), line.faint ? 0.55 : 1),
      width: line.faint ? 1 : 2,
      show: line.shape !== 'hidden',
      points: { show: line.shape === 'line' && this.model.xs.length < 3 },
      ...(line.dashed ? { dash: [5, 4] } : {}),
      ...(stepped ? { paths: stepped } : {}),
    };
  }

  private axis(axis: Axis, below: boolean): uPlot.Axis {
    const base: uPlot.Axis = {
      stroke: () => this.colours('text'),
      grid: { stroke: () => this.colours('grid'), width: 1 },
      ticks: { stroke: () => this.colours('grid'), width: 1, size: 4 },
      font: '12px system-ui, sans-serif',
      size: below ? 30 : 58,
    };
    // A range of less than two decades would leave a log axis without ticks.
    if (axis.kind === 'log') {
      base.splits = (plot, _, low, high) => logTicks(low, high, below ? plot.width / 70 : plot.height / 28);
      base.values = (_, splits) => splits.map((value) => axis.format(value));
      base.filter = (_, splits) => splits;
    } else if (axis.kind === 'time') {
      base.space = 84;
      base.incrs = TIME_STEPS;
      base.values = (_, splits, __, ___, step) => splits.map((value) => timeTick(value, step));
    } else {
      base.values = (_, splits) => splits.map((value) => axis.format(value));
    }
    return base;
  }

  private rangeOfX(): uPlot.Range.MinMax {
    const { x, xs } = this.model;
    if (x.range) return x.range;
    const low = xs[0] ?? 0;
    const high = xs[xs.length - 1] ?? 1;
    return low === high ? [low - 30, high + 30] : [low, high];
  }

  private rangeOfY(low: number | null, high: number | null): uPlot.Range.MinMax {
    return this.model.y.range ?? [low ?? 0, high ?? 1];
  }

  private drawShades(plot: uPlot): void {
    for (const level of this.model.levels) {
      if (level.shade) shade(plot, level, faint(this.colours(level.role), 0.1));
    }
  }

  private drawLevels(plot: uPlot): void {
    const { ctx, bbox } = plot;
    ctx.save();
    clip(ctx, bbox);
    for (const level of this.model.levels) {
      const y = Math.round(plot.valToPos(level.value, 'y', true)) + 0.5;
      stroke(ctx, this.colours(level.role), 1.5, [6, 3], () => {
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
      });
    }
    ctx.restore();
  }

  private drawMarks(plot: uPlot): void {
    const { ctx, bbox } = plot;
    ctx.save();
    clip(ctx, bbox);
    for (const mark of this.model.marks) {
      const x = Math.round(plot.valToPos(mark.x, 'x', true)) + 0.5;
      drawMark(ctx, mark.kind, x, bbox, this.colours);
    }
    ctx.restore();
  }
}

/** What of a model uPlot's own options depend on, beside the figures. */
function formOf(model: ChartModel): string {
  return JSON.stringify([model.x.kind, model.y.kind, model.lines, model.bands]);
}

function dataOf(model: ChartModel): uPlot.AlignedData {
  return [model.xs, ...model.ys] as uPlot.AlignedData;
}

function clip(ctx: CanvasRenderingContext2D, box: uPlot.BBox): void {
  ctx.beginPath();
  ctx.rect(box.left, box.top, box.width, box.height);
  ctx.clip();
}

function stroke(ctx: CanvasRenderingContext2D, colour: string, width: number, dash: number[], path: () => void): void {
  const ratio = devicePixelRatio;
  ctx.beginPath();
  ctx.strokeStyle = colour;
  ctx.lineWidth = width * ratio;
  ctx.setLineDash(dash.map((length) => length * ratio));
  path();
  ctx.stroke();
  ctx.setLineDash([]);
}

function shade(plot: uPlot, level: Level, colour: string): void {
  const { ctx, bbox } = plot;
  const y = Math.min(bbox.top + bbox.height, Math.max(bbox.top, plot.valToPos(level.value, 'y', true)));
  ctx.save();
  ctx.fillStyle = colour;
  if (level.shade === 'above') ctx.fillRect(bbox.left, bbox.top, bbox.width, y - bbox.top);
  else ctx.fillRect(bbox.left, y, bbox.width, bbox.top + bbox.height - y);
  ctx.restore();
}

/** A thin line with a sign at its top: a circle for an approval, a cross for a rollback, a triangle for an order … */
function drawMark(ctx: CanvasRenderingContext2D, kind: Mark['kind'], x: number, box: uPlot.BBox, colours: Colours): void {
  const ratio = devicePixelRatio;
  const size = 4.5 * ratio;
  const colour = colours(kind === 'rollback' ? 'harm' : kind === 'approval' ? 'proof' : 'mark');
  const y = box.top + size + 2 * ratio;
  if (kind !== 'share') {
    stroke(ctx, faint(colour, 0.5), 1, [2, 3], () => {
      ctx.moveTo(x, y);
      ctx.lineTo(x, box.top + box.height);
    });
  }
  ctx.fillStyle = colour;
  ctx.beginPath();
  if (kind === 'approval') ctx.arc(x, y, size, 0, 2 * Math.PI);
  else if (kind === 'rollback') {
    stroke(ctx, colour, 2.5, [], () => {
      ctx.moveTo(x - size, y - size);
      ctx.lineTo(x + size, y + size);
      ctx.moveTo(x + size, y - size);
      ctx.lineTo(x - size, y + size);
    });
    return;
  } else if (kind === 'order') {
    ctx.moveTo(x - size, y - size);
    ctx.lineTo(x + size, y - size);
    ctx.lineTo(x, y + size);
  } else if (kind === 'share') {
    ctx.moveTo(x, y - size);
    ctx.lineTo(x + size, y);
    ctx.lineTo(x, y + size);
    ctx.lineTo(x - size, y);
  } else ctx.rect(x - size / 2, y - size / 2, size, size);
  ctx.fill();
}

/** Draws `model` into `element`. `pointed` hears of the point under the pointer, −1 where there is none. */
export function draw(
  element: HTMLElement,
  model: ChartModel,
  size: { width: number; height: number },
  pointed: (row: number) => void,
): Plot {
  return new Drawing(element, model, size.width, size.height, pointed);
}
