// The ramp: the share now, what it waits for, and how it went.
import { useComputed, type ReadonlySignal } from '@preact/signals';
import type { Canary } from '../../api/types';
import { Chart } from '../../charts/chart';
import { markKind, rampModel } from '../../charts/ramp';
import { clockText, count } from '../../charts/numbers';
import type { SeriesMark } from '../../charts/series';
import { isOpen } from '../../ui/chip';
import { duration, words } from '../../ui/format';
import { Name, Sentence } from '../../ui/name';
import { Facts, Section } from '../../ui/page';
import { ShareBar } from '../../ui/share';
import { Elapsed, now } from '../../ui/time';
import { timesOf, useStable, useStableSignal, type PromotionStore } from './store';

export function Ramp({ store }: { store: PromotionStore }) {
  const has = useComputed(() => Boolean(store.promotion.value.canary) || store.series.value.stage === 'canary');
  if (!has.value) return null;
  return (
    <Section title="Ramp">
      <Now store={store} />
      <RampChart store={store} />
      <Marks marks={useComputed(() => store.series.value.marks)} />
    </Section>
  );
}

function Now({ store }: { store: PromotionStore }) {
  const of = useStable(() => {
    const { canary, ended_us, share_bp, state } = store.promotion.value;
    const until = isOpen(state) ? Math.floor(now.value / 10_000) * 10_000 : (ended_us ?? 0) / 1000;
    return { canary: canary ?? null, share: share_bp ?? canary?.share_bp ?? null, open: isOpen(state), times: timesOf(store.series.value, until) };
  });
  if (!of.canary) return null;
  return (
    <>
      <Facts items={factsOf(of.canary, of.share, of.open, of.times)} />
      {of.open && (of.canary.waits_for ?? []).length > 0 && (
        <div class="waits">
          <p>The share does not grow yet:</p>
          <ul>{(of.canary.waits_for ?? []).map((text, at) => <li key={at}><Sentence>{text}</Sentence></li>)}</ul>
        </div>
      )}
    </>
  );
}

function factsOf(canary: Canary, share: number | null, open: boolean, times: { working: number; waiting: number }): [string, preact.ComponentChildren][] {
  const facts: [string, preact.ComponentChildren][] = [
    ['Share of the candidate', <ShareBar bp={share} />],
    ['Step', `${Math.min(canary.step + 1, Math.max(1, canary.steps))} of ${canary.steps}${canary.phase ? `, ${words(canary.phase)}` : ''}${canary.frozen ? ', frozen' : ''}`],
  ];
  if (open && canary.step_started_us) facts.push(['In this step for', <Elapsed us={canary.step_started_us} />]);
  if (canary.keys !== undefined) facts.push(['Keys in this step', count(canary.keys)]);
  if (canary.exposed_requests !== undefined) facts.push(['Exposed', `${count(canary.exposed_requests)} requests of ${count(canary.exposed_keys)} keys`]);
  if (canary.failures !== undefined) facts.push(['Failures', `candidate ${count(canary.failures)}, incumbent ${count(canary.incumbent_failures ?? 0)}`]);
  if (times.working + times.waiting > 0) {
    facts.push(['Working', duration(times.working / 1000)], ['Waiting for people', duration(times.waiting / 1000)]);
  }
  return facts;
}

/** Time goes on in steps of ten seconds: a finer one could not be seen and would draw for nothing. */
function RampChart({ store }: { store: PromotionStore }) {
  const standing = useStableSignal(() => {
    const { state, ended_us, share_bp, canary } = store.promotion.value;
    return {
      open: isOpen(state), planned: state === 'running' || state === 'awaiting_approval', ended: (ended_us ?? 0) / 1e6,
      share: share_bp ?? canary?.share_bp ?? null, stepSince: canary?.step_started_us ? canary.step_started_us / 1e6 : null,
    };
  });
  const time = useComputed(() => (standing.value.open ? Math.floor(now.value / 10_000) * 10 : standing.value.ended));
  const model = useComputed(() => rampModel(store.series.value, { ...standing.value, now: time.value }));
  return <Chart model={model} />;
}

const LISTED = 200;

function Marks({ marks }: { marks: ReadonlySignal<SeriesMark[]> }) {
  const listed = marks.value;
  if (listed.length === 0) return null;
  const first = listed[0] as SeriesMark;
  const last = listed[listed.length - 1] as SeriesMark;
  const withDate = new Date(first.time * 1000).toDateString() !== new Date(last.time * 1000).toDateString();
  return (
    <details class="marks">
      <summary>What happened ({listed.length})</summary>
      <ol class="marks-list">
        {listed.slice(-LISTED).map((mark) => (
          <li key={`${mark.seq} ${mark.time}`} class={`mark-${markKind(mark.kind, mark.text)}`}>
            <time dateTime={new Date(mark.time * 1000).toISOString()}>{clockText(mark.time, withDate)}</time>{' '}
            <Sentence>{mark.text || words(mark.kind)}</Sentence>
            {mark.actor && <> by <Name>{mark.actor}</Name></>}
            {mark.seq !== null && <span class="muted"> entry {mark.seq}</span>}
          </li>
        ))}
      </ol>
    </details>
  );
}

