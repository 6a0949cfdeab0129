// The schedules of the models that the overview shows.

import type { StatusItem } from '../../api/types';
import { Link, segment } from '../../app/router';
import { Chip } from '../../ui/chip';
import { Name } from '../../ui/name';
import { Section } from '../../ui/page';
import { Table, type Column } from '../../ui/table';
import { Time } from '../../ui/time';
import { Fire } from './fires';

type Row = StatusItem['schedules'][number] & { model: string };

const columns: Column<Row>[] = [
  { head: 'Schedule', header: true, cell: (row) => <Link to={`/schedules?name=${encodeURIComponent(row.name)}`}><Name>{row.name}</Name></Link> },
  { head: 'Model', cell: (row) => <Link to={`/models/${segment(row.model)}`}><Name>{row.model}</Name></Link> },
  { head: 'Next', cell: (row) => (row.paused ? <Chip tone="warn" icon="paused">paused</Chip> : <Time us={row.next_us} />) },
  { head: 'Last', cell: (row) => <Fire fire={row.last} /> },
];

export function SchedulesOfModels({ models }: { models: StatusItem[] }) {
  const rows = models.flatMap((item) => item.schedules.map((one) => ({ ...one, model: item.model })));
  if (!rows.length) return null;
  return <Section title="Schedules"><Table caption="Schedules and what came of them" columns={columns} rows={rows} id={(row) => row.name} keys /></Section>;
}
