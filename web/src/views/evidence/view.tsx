// The evidence log: entries with their proofs checked in the browser, and the questions of an audit.

import { useRef, useState } from 'preact/hooks';
import { may } from '../../api/session';
import type { Entry } from '../../api/types';
import { Link, type ViewProps } from '../../app/router';
import type { Material } from '../../proof/check';
import { NotAllowed, PageHead } from '../../ui/page';
import { Export, Population, Sample } from './audits';
import { Entries, Exceptions } from './entries';
import { EntryDialog } from './entry';
import { HeadBand } from './pinned';
import { Served } from './served';

const PARTS: [string, string][] = [
  ['', 'Entries'], ['served', 'What served when'], ['population', 'Population'], ['exceptions', 'Exceptions'], ['sample', 'Sample'], ['export', 'Export'],
];

export default function View({ query }: ViewProps) {
  const [turn, setTurn] = useState(0);
  const rows = useRef(new Map<number, Entry>());
  if (!may('auditor')) {
    return (
      <>
        <PageHead title="Evidence" />
        <NotAllowed scope="auditor" what="Reading the evidence log" />
      </>
    );
  }
  const part = PARTS.some(([name]) => name === query.get('show')) ? (query.get('show') ?? '') : '';
  const seq = seqOf(query.get('seq'));
  const remember = (found: Entry[]) => found.forEach((entry) => rows.current.set(entry.seq, entry));
  const changed = () => setTurn((old) => old + 1);
  return (
    <>
      <PageHead title="Evidence" />
      <HeadBand turn={turn} onChange={changed} />
      <nav aria-label="Parts of the evidence" class="parts">
        {PARTS.map(([name, title]) => <Link key={name} to={name ? `/evidence?show=${name}` : '/evidence'} aria-current={name === part ? 'page' : undefined}>{title}</Link>)}
      </nav>
      {part === '' && <Entries query={query} onRows={remember} />}
      {part === 'served' && <Served query={query} />}
      {part === 'population' && <Population query={query} />}
      {part === 'exceptions' && <Exceptions query={query} onRows={remember} />}
      {part === 'sample' && <Sample query={query} />}
      {part === 'export' && <Export query={query} />}
      {seq !== undefined && <EntryDialog seq={seq} checks={query.get('check') === '1'} listed={listed(rows.current.get(seq))} onChecked={changed} />}
    </>
  );
}

function seqOf(text: string | null): number | undefined {
  return text !== null && /^[0-9]{1,15}$/.test(text) ? Number(text) : undefined;
}

/** What a list showed of an entry, so that its bytes can be held against it. */
function listed(entry: Entry | undefined): Material['listed'] {
  if (!entry) return undefined;
  return { kind: entry.kind, time_us: entry.time_us, ...(entry.actor === undefined ? {} : { actor: entry.actor }) };
}
