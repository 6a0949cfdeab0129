// All contracts, in the order in which they were registered.

import { useList } from '../../api/resource';
import type { Contract } from '../../api/types';
import { Link, segment } from '../../app/router';
import { Command, Digest, Name } from '../../ui/name';
import { Empty, Loaded, More, PageHead, Section } from '../../ui/page';
import { Table, type Column } from '../../ui/table';
import { Time } from '../../ui/time';

const columns: Column<Contract>[] = [
  { head: 'Contract', header: true, cell: (one) => <Link to={`/c/${segment(one.digest)}`}><Name>{one.name}</Name></Link> },
  { head: 'Digest', cell: (one) => <Digest>{one.digest}</Digest> },
  { head: 'Registered', cell: (one) => <Time us={one.registered_us} none="–" /> },
  { head: 'By', cell: (one) => <Name>{one.registrant}</Name> },
];

export default function View() {
  const list = useList<Contract>('/v1/contracts', { live: (event) => event.type === 'entry' && event.entry.kind === 'contract_registered', limit: 200 });
  return (
    <>
      <PageHead title="Contracts" />
      <Section title="All contracts">
        <Loaded of={list}>
          {(items) => items.length ? <><Table caption="Contracts" columns={columns} rows={items} id={(one) => one.digest} keys /><More of={list} /></> : (
            <Empty title="No contract yet"><p>This registers one:</p><Command>driftgate contract register CONTRACT.yaml</Command></Empty>
          )}
        </Loaded>
      </Section>
    </>
  );
}
