// The candidate's share of traffic over time, with what was ordered and the steps that are planned.
import { increasing, type ChartModel, type Mark } from './model';
import { clockText, shareText } from './numbers';
import type { PlannedStep, Series, SeriesMark, SeriesPoint } from './series';

interface At {
  time: number;
  share: number | null;
  planned: number | null;
}

const KINDS: Record<string, Mark['kind']> = {
  approval_given: 'approval',
  waiver_given: 'approval',
  escalation_decided: 'order',
  route_applied: 'share',
};

/** What a mark stands for, by the kind of its entry; a rollback is an order or a state by that name. */
export function markKind(kind: string, text: string): Mark['kind'] {
  const rollback = kind === 'escalation_decided' ? text.startsWith('rollback') : kind === 'state_changed' && text.includes('→ rolling_back');
  return rollback ? 'rollback' : (KINDS[kind] ?? 'state');
}

function toMark(mark: SeriesMark): Mark {
  const text = mark.text || mark.kind;
  return { x: mark.time, kind: markKind(mark.kind, mark.text), text: mark.actor ? `${text} (${mark.actor})` : text };
}

/** The steps that still come, each as early as its predecessors' least durations allow. */
export function plannedPoints(last: SeriesPoint, planned: readonly PlannedStep[], pace: number, stepSince: number | null = null): { time: number; share: number }[] {
  const current = last.step ?? -1;
  const here = planned.find((step) => step.step === current);
  const ahead = planned.filter((step) => step.step > current);
  if (ahead.length === 0) return [];
  const lasts = (step: PlannedStep | undefined) => (step?.minDurationMs ? step.minDurationMs / 1000 : pace);
  const points = [{ time: last.time, share: last.share }];
  let time = Math.max(last.time, (stepSince ?? last.time) + lasts(here));
  let share = last.share;
  for (const step of ahead) {
    share = step.share;
    points.push({ time, share });
    time += lasts(step);
  }
  points.push({ time, share });
  return points;
}

/** How long a step has taken on average so far, in seconds; at least a second. */
function paceOf(points: readonly SeriesPoint[]): number {
  const first = points[0];
  const last = points[points.length - 1];
  if (!first || !last) return 60;
  const steps = new Set(points.map((point) => point.step)).size;
  return Math.max(1, (last.time - first.time) / Math.max(1, steps));
}

function pointsOf(series: Series, { open, now, share, planned: plan, stepSince }: Present): At[] {
  const at: At[] = series.points.map((point) => ({ time: point.time, share: point.share, planned: null }));
  const last = series.points[series.points.length - 1];
  if (!last) return at;
  if (!open) return [...at, { time: Math.max(now, last.time), share: share ?? last.share, planned: null }];
  const present = { ...last, time: Math.max(now, last.time), share: share ?? last.share };
  at.push({ time: present.time, share: present.share, planned: null });
  if (!plan) return at;
  for (const point of plannedPoints(present, series.planned, paceOf(series.points), stepSince)) {
    at.push({ time: point.time, share: point.time === present.time ? present.share : null, planned: point.share });
  }
  return at;
}

function summaryOf(series: Series, { open, share, planned }: Present): string {
  const last = series.points[series.points.length - 1];
  if (!last) return 'The candidate has had no traffic yet.';
  const most = Math.max(...series.points.map((point) => point.share));
  const orders = series.marks.filter((mark) => markKind(mark.kind, mark.text) === 'order').length;
  const rollbacks = series.marks.filter((mark) => markKind(mark.kind, mark.text) === 'rollback').length;
  const said = [
    open
      ? `The candidate has ${shareText(share ?? last.share)} of the traffic${most > (share ?? last.share) ? ` and has had ${shareText(most)}` : ''}.`
      : `The candidate reached ${shareText(most)} of the traffic and ended at ${shareText(share ?? last.share)}.`,
  ];
  const next = series.planned.find((step) => step.step > (last.step ?? -1) && step.share > last.share);
  if (open && planned && next) said.push(`The next step is ${shareText(next.share)}${next.approval ? ', after an approval' : ''}.`);
  if (orders + rollbacks > 0) {
    said.push(`${orders} order${orders === 1 ? '' : 's'}, ${rollbacks} rollback${rollbacks === 1 ? '' : 's'}.`);
  }
  return said.join(' ');
}

/** Where the ramp is after its newest point. */
export interface Present {
  /** Whether the promotion still runs: the share then lasts until now, and planned steps follow. */
  open: boolean;
  /** Now, or when the promotion ended, in seconds. */
  now: number;
  /** The share as applied, in basis points; null when it is not known. */
  share: number | null;
  /** Whether steps are still to come: it is neither paused nor on its way back. */
  planned: boolean;
  /** When the present step began, in seconds; null when it is not known. */
  stepSince: number | null;
}

export function rampModel(series: Series, present: Present): ChartModel {
  const points = increasing(pointsOf(series, present), (point) => point.time);
  const times = points.map((point) => point.time);
  const planned = points.some((point) => point.planned !== null);
  const long = times.length > 0 && (times[times.length - 1] as number) - (times[0] as number) > 86_400;
  return {
    name: 'Ramp: the candidate’s share of traffic',
    summary: summaryOf(series, present),
    x: { kind: 'time', label: 'Time', format: (value) => clockText(value, long) },
    y: { kind: 'linear', label: 'Share', range: [0, 10_500], format: shareText },
    lines: [
      { label: 'Candidate', role: 'candidate', shape: 'step' },
      ...(planned ? [{ label: 'Planned', role: 'planned' as const, shape: 'step' as const, dashed: true }] : []),
    ],
    bands: [],
    levels: [],
    marks: series.marks.filter((mark) => times.length > 0 && mark.time <= (times[times.length - 1] as number)).map(toMark),
    xs: times,
    ys: [points.map((point) => point.share), ...(planned ? [points.map((point) => point.planned)] : [])],
  };
}
