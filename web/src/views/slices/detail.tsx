// What is behind one slice: the distribution of tv against the noise floor, where it drifts, and the worst rows.
import { useComputed, useSignal, type ReadonlySignal } from '@preact/signals';
import { useLayoutEffect, useMemo } from 'preact/hooks';
import { withQuery } from '../../api/client';
import { useResource } from '../../api/resource';
import { Chart } from '../../charts/chart';
import { bucketText, ecdfModel, readDistribution, type Bucket, type Distribution, type WorstRow } from '../../charts/distribution';
import type { ChartModel } from '../../charts/model';
import { count, figure } from '../../charts/numbers';
import { Name } from '../../ui/name';
import { Loaded } from '../../ui/page';
import { Table, type Column } from '../../ui/table';
import { promotionPath } from '../promotion/store';

const METRIC = 'tv';

export function SliceDetail({ id, stage, slice }: { id: string; stage: string; slice: string }) {
  const resource = useResource<unknown>(withQuery(`${promotionPath(id)}/stages/${stage}/distribution`, { metric: METRIC, slice }));
  if (resource.error?.status === 404) return <p class="muted">This stage keeps no distribution of {METRIC}.</p>;
  return <Loaded of={resource} what="Reading the distribution…">{(data) => <Shown data={data} />}</Loaded>;
}

function Shown({ data }: { data: unknown }) {
  const of = useMemo(() => readDistribution(data), [data]);
  const buckets = Object.entries(of.by).filter(([, list]) => list.some((bucket) => bucket.rows > 0));
  return (
    <div class="slice-detail">
      <EcdfChart of={of} />
      {buckets.length > 0 && (
        <div class="chart-grid">
          {buckets.map(([name, list]) => <Drift key={name} name={name} metric={of.metric} buckets={list} />)}
        </div>
      )}
      <Worst rows={of.worst} metric={of.metric} />
    </div>
  );
}

function EcdfChart({ of }: { of: Distribution }) {
  const source = useSignal(of);
  useLayoutEffect(() => {
    source.value = of;
  }, [of]);
  const model = useComputed(() => ecdfModel(source.value));
  if (!model.value) return <p class="muted">There is no distribution of {of.metric} for this slice.</p>;
  return <Chart model={model as ReadonlySignal<ChartModel>} />;
}

const BY: Record<string, string> = {
  position: 'position in the sequence',
  entropy: 'entropy of the training kernel',
  probability: 'probability of the token',
};

/** Mean drift by buckets: a table with bars. */
function Drift({ name, metric, buckets }: { name: string; metric: string; buckets: Bucket[] }) {
  const shown = buckets.filter((bucket) => bucket.rows > 0);
  const most = Math.max(...shown.map((bucket) => bucket.mean ?? 0), Number.MIN_VALUE);
  const columns: Column<Bucket>[] = [
    { head: 'Range', header: true, cell: (bucket) => bucketText(bucket, name === 'position') },
    { head: 'Rows', numeric: true, cell: (bucket) => count(bucket.rows) },
    { head: `Mean ${metric}`, numeric: true, cell: (bucket) => figure(bucket.mean) },
    { head: 'Bar', class: 'drift-cell', cell: (bucket) => <Bar part={(bucket.mean ?? 0) / most} /> },
  ];
  return (
    <div class="drift">
      <h3>By {BY[name] ?? name}</h3>
      <Table caption={`Mean ${metric} by ${BY[name] ?? name}`} columns={columns} rows={shown} class="keep drift-table" id={(bucket) => `${shown.indexOf(bucket)}`} />
    </div>
  );
}

function Bar({ part }: { part: number }) {
  return (
    <svg class="drift-bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">
      <rect width={Math.max(0, Math.min(1, part)) * 100} height="10" />
    </svg>
  );
}

function Worst({ rows, metric }: { rows: WorstRow[]; metric: string }) {
  if (rows.length === 0) return null;
  const sliced = rows.some((row) => row.slice !== '');
  const columns: Column<WorstRow>[] = [
    { head: metric, numeric: true, cell: (row) => figure(row.value) },
    { head: 'Token', header: true, cell: (row) => <Token row={row} /> },
    { head: 'Sequence', numeric: true, cell: (row) => count(row.sequence) },
    { head: 'Position', numeric: true, cell: (row) => count(row.position) },
    { head: 'Row', numeric: true, cell: (row) => count(row.row) },
    ...(sliced ? [{ head: 'Slice', cell: (row: WorstRow) => <Name>{row.slice}</Name> }] : []),
  ];
  return (
    <div class="worst-rows">
      <h3>Worst rows</h3>
      <Table caption="Worst rows with their tokens" columns={columns} rows={rows} class="keep" id={(row) => `${rows.indexOf(row)}`} />
    </div>
  );
}

/** A token's text is data of a model: spaces and line ends in it are made visible. */
function Token({ row }: { row: WorstRow }) {
  if (row.token === null || row.token < 0) return <span class="muted">none</span>;
  if (row.tokenText === null) return <code>{String(row.token)}</code>;
  return <><code class="token"><Name>{JSON.stringify(row.tokenText)}</Name></code> <span class="muted">{String(row.token)}</span></>;
}
