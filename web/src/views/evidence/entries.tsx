// Lists of entries: the log itself, and the exceptions of an audit.

import { withQuery } from '../../api/client';
import { treeSize } from '../../api/events';
import { useList } from '../../api/resource';
import type { Entry } from '../../api/types';
import { Link, segment, setQuery } from '../../app/router';
import { Button } from '../../ui/button';
import { VerdictChip } from '../../ui/chip';
import { count, plural, words } from '../../ui/format';
import { Name, Sentence } from '../../ui/name';
import { Empty, Loaded, More } from '../../ui/page';
import { type Column, Table } from '../../ui/table';
import { Time } from '../../ui/time';
import { apiFilters, Filters, hasFilters } from './filters';
import { summary, VERDICTS } from './words';

/** An address of this view that opens an entry and keeps everything else. */
function entryAddress(query: URLSearchParams, seq: number): string {
  const next = new URLSearchParams(query);
  next.set('seq', String(seq));
  next.delete('check');
  return `/evidence?${next.toString()}`;
}

function columns(query: URLSearchParams): Column<Entry>[] {
  return [
    { head: 'Entry', header: true, numeric: true, cell: (entry) => <Link to={entryAddress(query, entry.seq)}>{count(entry.seq)}</Link> },
    { head: 'When', cell: (entry) => <Time us={entry.time_us} /> },
    { head: 'Kind', cell: (entry) => <Name>{words(entry.kind)}</Name> },
    { head: 'By', cell: (entry) => <Name>{entry.actor}</Name> },
    { head: 'About', cell: (entry) => <About of={entry} /> },
    { head: 'Says', class: 'says', cell: (entry) => <Says of={entry} /> },
    { head: 'Proof', cell: (entry) => <Button quiet label={`Check here: entry ${entry.seq}`} onClick={() => setQuery({ seq: String(entry.seq), check: '1' })}>Check here</Button> },
  ];
}

function About({ of }: { of: Entry }) {
  const { model, promotion, stage } = of.subject as Record<string, string | undefined>;
  if (promotion) return <><Link to={`/p/${segment(promotion)}`}><Name>{promotion}</Name></Link>{stage && <><br /><span class="muted small"><Name>{stage}</Name></span></>}</>;
  return model ? <Name>{model}</Name> : <span class="muted">–</span>;
}

function Says({ of }: { of: Entry }) {
  const verdict = of.kind === 'verdict_reached' ? VERDICTS.find((word) => word === of.body['verdict']) : undefined;
  return <>{verdict && <VerdictChip verdict={verdict} />} <Sentence>{summary(of)}</Sentence></>;
}

export function EntryTable({ rows, query, caption }: { rows: Entry[]; query: URLSearchParams; caption: string }) {
  return <Table caption={caption} columns={columns(query)} rows={rows} id={(entry) => String(entry.seq)} class="entries" keys />;
}

/** The log, newest first unless the address says otherwise, by pages without end. */
export function Entries({ query, onRows }: { query: URLSearchParams; onRows: (rows: Entry[]) => void }) {
  const order = query.get('order') === 'oldest' ? 'oldest' : 'newest';
  const list = useList<Entry>(withQuery('/v1/evidence', { ...apiFilters(query), order }), { limit: 50 });
  const size = Number(list.first?.['tree_size'] ?? 0);
  const grown = treeSize.value === null || size === 0 ? 0 : treeSize.value - size;
  if (list.data) onRows(list.data);
  return (
    <>
      <Filters query={query}>
        <div class="field">
          <label for="filter-order">Order</label>
          <select id="filter-order" value={order} onChange={(event) => setQuery({ order: event.currentTarget.value === 'oldest' ? 'oldest' : null })}>
            <option value="newest">newest first</option>
            <option value="oldest">oldest first</option>
          </select>
        </div>
      </Filters>
      <p class="row">
        <span class="muted">{size > 0 && `Read from a log of ${plural(size, 'entry', 'entries')}.`}</span>
        {grown > 0 && <Button kind="link" onClick={list.reload}>{plural(grown, 'more entry', 'more entries')} since: read again</Button>}
      </p>
      <Loaded of={list}>
        {(rows) => rows.length === 0
          ? <Empty title={hasFilters(query) ? 'No entry matches all of these filters' : 'The log is empty'} />
          : <EntryTable rows={rows} query={query} caption="Entries of the evidence log" />}
      </Loaded>
      <More of={list} />
    </>
  );
}

/** Where people bypassed the usual procedure. */
export function Exceptions({ query, onRows }: { query: URLSearchParams; onRows: (rows: Entry[]) => void }) {
  const { model, promotion, from_us, to_us } = apiFilters(query);
  const list = useList<Entry>(withQuery('/v1/audit/exceptions', { model, promotion, from_us, to_us }), { limit: 50 });
  if (list.data) onRows(list.data);
  return (
    <>
      <p>Waivers, refused decisions on one’s own request, first versions, ends and rollbacks by hand, lifted holds and blocks, redactions, and what served without leave.</p>
      <Filters query={query} only={['model', 'promotion', 'from', 'to']} />
      <Loaded of={list}>
        {(rows) => rows.length === 0
          ? <Empty title="No exceptions in this range" />
          : <EntryTable rows={rows} query={query} caption="Exceptions, oldest first" />}
      </Loaded>
      <More of={list} />
    </>
  );
}
