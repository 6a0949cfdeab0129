// What the view shows, as signals: an answer or an event changes one of them, and only what reads it is drawn again.
import { signal, useComputed, type ReadonlySignal, type Signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { Promotion, PromotionItem, StageName, StageRun } from '../../api/types';
import { segment } from '../../app/router';
import { readSeries, type Series } from '../../charts/series';
import type { Report } from './report';

export interface PromotionStore {
  id: string;
  promotion: Signal<Promotion>;
  series: Signal<Series>;
  /** The newest report of each stage, as far as read. */
  reports: Signal<Partial<Record<StageName, Report>>>;
  /** Takes the promotion as an action left it; reads it again without one. */
  changed: (now: Promotion | undefined) => void;
}

export function createStore(id: string, promotion: Promotion, changed: PromotionStore['changed']): PromotionStore {
  return { id, promotion: signal(promotion), series: signal(readSeries({})), reports: signal({}), changed };
}

export function promotionPath(id: string): string {
  return `/v1/promotions/${segment(id)}`;
}

export function slicesPath(id: string, place: { stage?: string; clause?: string; slice?: string } = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(place)) if (value) query.set(name, value);
  const text = query.toString();
  return `/p/${segment(id)}/slices${text ? `?${text}` : ''}`;
}

/** What the event `progress` says of the promotion, put into what is known of it. */
export function withProgress(known: Promotion, item: PromotionItem): Promotion {
  if (item.id !== known.id || item.updated_us < known.updated_us) return known;
  const stages = item.stages.map((stage): StageRun => {
    const before = known.stages.find((run) => run.stage === stage.stage && run.attempt === stage.attempt);
    return { ...before, ...stage, summary: before?.summary ?? (stage as StageRun).summary ?? null };
  });
  // A list item may have the newest run of each stage only; earlier attempts stay as they were.
  const earlier = known.stages.filter((run) => !stages.some((stage) => stage.stage === run.stage && stage.attempt === run.attempt));
  const order = (run: StageRun) => STAGE_ORDER.indexOf(run.stage) * 1000 + run.attempt;
  const approval = item.state === 'awaiting_approval' ? (known.approval ?? null) : null;
  const waiver = item.state === 'inconclusive' ? (known.waiver ?? null) : null;
  return { ...known, approval, waiver, ...item, stages: [...earlier, ...stages].sort((a, b) => order(a) - order(b)) };
}

const STAGE_ORDER: readonly StageName[] = ['offline-numeric', 'statistical-slice', 'shadow-runtime', 'canary'];

/** The newest attempt of a stage, with those before it. */
export function runsOf(promotion: Promotion, stage: StageName): { newest: StageRun | null; earlier: StageRun[] } {
  const runs = promotion.stages.filter((run) => run.stage === stage).sort((a, b) => a.attempt - b.attempt);
  return { newest: runs[runs.length - 1] ?? null, earlier: runs.slice(0, -1) };
}

/** What `read` finds, renewed only when it differs as JSON: a component that uses it is drawn again only then. */
export function useStable<T>(read: () => T): T {
  const text = useComputed(() => JSON.stringify(read()) ?? 'null');
  const now = text.value;
  return useMemo(() => JSON.parse(now) as T, [now]);
}

/** As useComputed of `read`, which keeps its value while the JSON is the same. */
export function useStableSignal<T>(read: () => T): ReadonlySignal<T> {
  const text = useComputed(() => JSON.stringify(read()) ?? 'null');
  return useComputed(() => JSON.parse(text.value) as T);
}

/** States in which nothing goes on until a person acts. */
const WAITING = ['paused', 'awaiting_approval', 'inconclusive'];

/** How long the stage has worked and has waited for people, in ms, from its first point until `until` (ms since the
 * epoch), by the changes of state in between. */
export function timesOf(series: Series, until: number): { working: number; waiting: number } {
  const times = { working: 0, waiting: 0 };
  const first = series.points[0];
  if (!first) return times;
  let since = first.time * 1000;
  let waits = false;
  const spend = (end: number) => {
    times[waits ? 'waiting' : 'working'] += Math.max(0, end - since);
    since = Math.max(since, end);
  };
  for (const mark of series.marks) {
    const next = mark.kind === 'state_changed' ? /→ (\w+)/.exec(mark.text)?.[1] : undefined;
    if (!next) continue;
    spend(mark.time * 1000);
    waits = WAITING.includes(next);
  }
  spend(until);
  return times;
}
