// All contracts, newest first, with a link to what each version changed.

import { useList } from '../../api/resource';
import type { Contract } from '../../api/types';
import { Link, segment, type ViewProps } from '../../app/router';
import { Command, Digest, Name } from '../../ui/name';
import { Empty, Loaded, More, PageHead } from '../../ui/page';
import { Table } from '../../ui/table';
import { Time } from '../../ui/time';

/** The version of the same name that was registered before each contract, by digest. */
export function versionsBefore(contracts: readonly Contract[]): Map<string, string> {
  const newest = new Map<string, string>();
  const before = new Map<string, string>();
  const oldestFirst = [...contracts].sort((a, b) => (a.registered_us ?? 0) - (b.registered_us ?? 0));
  for (const { name, digest } of oldestFirst) {
    const known = newest.get(name);
    if (known) before.set(digest, known);
    newest.set(name, digest);
  }
  return before;
}

export default function View(_: ViewProps) {
  const list = useList<Contract>('/v1/contracts', { limit: 200, live: (event) => event.type === 'entry' && event.entry.kind === 'contract_registered' });
  return (
    <>
      <PageHead title="Contracts" />
      <Loaded of={list}>
        {(rows) => rows.length === 0
          ? <Empty title="No contract has been registered yet"><Command>driftgate contract register contract.yaml</Command></Empty>
          : <Contracts rows={rows} />}
      </Loaded>
      <More of={list} />
    </>
  );
}

function Contracts({ rows }: { rows: Contract[] }) {
  const before = versionsBefore(rows);
  const newestFirst = [...rows].sort((a, b) => (b.registered_us ?? 0) - (a.registered_us ?? 0));
  return (
    <Table caption="Contracts, newest first" rows={newestFirst} id={({ digest }) => digest} keys columns={[
      { head: 'Contract', header: true, cell: ({ name, digest }) => <Link to={`/c/${segment(digest)}`}><Name>{name}</Name></Link> },
      { head: 'Digest', cell: ({ digest }) => <Digest>{digest}</Digest> },
      { head: 'Registered', cell: ({ registered_us }) => <Time us={registered_us} none="–" /> },
      { head: 'By', cell: ({ registrant }) => <Name>{registrant}</Name> },
      { head: 'Version before', cell: ({ digest }) => {
        const old = before.get(digest);
        return old ? <Link to={`/c/${segment(digest)}?with=${encodeURIComponent(old)}`}>what it changed</Link> : <span class="muted">first</span>;
      } },
    ]} />
  );
}
