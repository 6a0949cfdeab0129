// What the traffic shows: each live clause with its confidence sequence and e-values, requests and latency by arm.
import { useComputed, useSignal, type ReadonlySignal } from '@preact/signals';
import { Chart } from '../../charts/chart';
import { clauseTitle, confidenceModel, eValueModel, hasEstimates, hasEValues } from '../../charts/confidence';
import { figure } from '../../charts/numbers';
import { readSeries, type ClauseSeries } from '../../charts/series';
import { latencyMetrics, latencyModel, requestsModel } from '../../charts/traffic';
import { VerdictChip } from '../../ui/chip';
import { Name } from '../../ui/name';
import { Section } from '../../ui/page';
import { useStable, type PromotionStore } from './store';
import { byUrgency, keyOf } from './urgency';

/** How many clauses are open at first. */
const OPEN_AT_FIRST = 2;

export function Live({ store }: { store: PromotionStore }) {
  const has = useComputed(() => ({ clauses: store.series.value.clauses.length > 0, points: store.series.value.points.length > 0 }));
  if (!has.value.points && !has.value.clauses) return null;
  return (
    <>
      {has.value.clauses && <LiveClauses store={store} />}
      {has.value.points && <Traffic store={store} />}
    </>
  );
}

function LiveClauses({ store }: { store: PromotionStore }) {
  const order = useStable(() => byUrgency(store.series.value.clauses).map(keyOf));
  const first = useSignal(order.slice(0, OPEN_AT_FIRST));
  return (
    <Section title="Live clauses">
      {order.map((key) => <LiveClause key={key} store={store} name={key} open={first.peek().includes(key)} />)}
    </Section>
  );
}

function LiveClause({ store, name, open }: { store: PromotionStore; name: string; open: boolean }) {
  const series = useComputed(() => store.series.value.clauses.find((one) => keyOf(one) === name) ?? null);
  const shown = useSignal(open);
  const head = useStable(() => {
    const of = series.value;
    const last = of?.points[of.points.length - 1];
    return of && {
      title: clauseTitle(of), limitKind: of.limitKind, threshold: of.threshold, soft: of.severity === 'soft',
      verdict: last?.verdict ?? 'inconclusive', eValue: last?.eValue ?? null, needed: of.harmNeeded,
    };
  });
  if (!head) return null;
  return (
    <details class="live-clause" open={open} onToggle={(event) => (shown.value = event.currentTarget.open)}>
      <summary>
        <VerdictChip verdict={head.verdict} /> <Name>{head.title}</Name>
        <span class="muted"> {head.limitKind} {figure(head.threshold)}{head.soft ? ', soft' : ''}{head.eValue === null ? '' : `, harm e-value ${figure(head.eValue)}${head.needed === null ? '' : ` of ${figure(head.needed)}`}`}</span>
      </summary>
      {shown.value && <ClauseCharts series={series} />}
    </details>
  );
}

const NOTHING: ClauseSeries = readSeries({ clauses: [{}] }).clauses[0] as ClauseSeries;

function ClauseCharts({ series }: { series: ReadonlySignal<ClauseSeries | null> }) {
  const confidence = useComputed(() => confidenceModel(series.value ?? NOTHING));
  const eValues = useComputed(() => eValueModel(series.value ?? NOTHING));
  const has = useStable(() => ({
    estimates: series.value !== null && hasEstimates(series.value),
    eValues: series.value !== null && hasEValues(series.value),
  }));
  if (!has.estimates && !has.eValues) return <p class="muted">Nothing has been observed for this clause yet.</p>;
  return (
    <div class="chart-grid">
      {has.estimates && <Chart model={confidence} />}
      {has.eValues && <Chart model={eValues} />}
    </div>
  );
}

function Traffic({ store }: { store: PromotionStore }) {
  const requests = useComputed(() => requestsModel(store.series.value));
  const metrics = useStable(() => latencyMetrics(store.series.value));
  return (
    <Section title="Traffic by arm">
      <div class="chart-grid">
        <Chart model={requests} />
        {metrics.map((metric) => <Latency key={metric} store={store} metric={metric} />)}
      </div>
    </Section>
  );
}

function Latency({ store, metric }: { store: PromotionStore; metric: string }) {
  const model = useComputed(() => latencyModel(store.series.value, metric));
  return <Chart model={model} />;
}
