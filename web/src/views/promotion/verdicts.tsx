// Verdicts with estimate, interval, limit, α, n and method.
import { VerdictChip } from '../../ui/chip';
import { Name, Sentence } from '../../ui/name';
import { Table, type Column } from '../../ui/table';
import { figure } from '../../charts/numbers';
import { eText, failingFirst, intervalText, limitText, methodText, sampleText, whereText, type ClauseVerdict } from './report';

const COLUMNS: Column<ClauseVerdict>[] = [
  { head: 'Verdict', cell: (one) => <VerdictChip verdict={one.verdict} /> },
  {
    head: 'Clause', header: true, class: 'verdict-clause',
    cell: (one) => {
      const slice = whereText(one.where);
      return (
        <>
          <Name>{one.clause}</Name>
          {slice && <> on <Name>{slice}</Name></>}
          {one.severity === 'soft' && <span class="muted"> (soft)</span>}
          {one.message && <p class="verdict-message"><Sentence>{one.message}</Sentence></p>}
        </>
      );
    },
  },
  { head: 'Estimate', numeric: true, cell: (one) => figure(one.estimate) },
  { head: 'Interval', numeric: true, class: 'verdict-interval', cell: (one) => intervalText(one.lower, one.upper) },
  { head: 'Limit', cell: (one) => <span class="verdict-limit">{limitText(one)}</span> },
  { head: 'e-values', cell: (one) => eText(one) || '–' },
  { head: 'α', numeric: true, cell: (one) => figure(one.alpha) },
  { head: 'n', numeric: true, cell: (one) => sampleText(one) },
  { head: 'Method', cell: (one) => <span class="verdict-method"><Sentence>{methodText(one)}</Sentence></span> },
];

const QUIET = COLUMNS.filter((column) => column.head !== 'e-values');

export function VerdictTable({ verdicts, most, title }: { verdicts: ClauseVerdict[]; most: number; title: string }) {
  const rows = failingFirst(verdicts).slice(0, most);
  const columns = rows.some((one) => eText(one) !== '') ? COLUMNS : QUIET;
  return (
    <Table caption={`Verdicts of the stage ${title}, failing first`} columns={columns} rows={rows} class="verdicts"
      id={(one) => `${rows.indexOf(one)} ${one.clause}`} />
  );
}
