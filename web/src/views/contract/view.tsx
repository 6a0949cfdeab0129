// One contract: its text beside its meaning, what it changed, and what it would have decided.

import { useResource } from '../../api/resource';
import type { Contract, Page } from '../../api/types';
import { Link, type ViewProps } from '../../app/router';
import { Digest, Name } from '../../ui/name';
import { ErrorBox, Facts, Loaded, PageHead, Section } from '../../ui/page';
import { Time } from '../../ui/time';
import { may } from '../../api/session';
import { Compare } from './compare';
import { readExplanation } from './explain';
import { ContractText, type Explanation } from './text';
import { WhatIf } from './what_if';

export default function View({ params, query }: ViewProps) {
  const wanted = params['contract'] ?? '';
  const path = `/v1/contracts/${encodeURIComponent(wanted)}`;
  const contract = useResource<Contract>(path);
  const explained = useResource<Explanation>(`${path}/explain`, { read: readExplanation });
  const others = useResource<Page<Contract>>('/v1/contracts?limit=500');
  const found = contract.data;
  return (
    <>
      <PageHead title={found ? `Contract ${found.name}` : 'Contract'} before={<Link to="/c/">Contracts</Link>} />
      {contract.error && !found && <ErrorBox problem={contract.error} retry={contract.reload} />}
      {found && <About of={found} byName={wanted === found.name} />}
      {(found || !contract.error) && (
        <Section title="What it demands">
          <Loaded of={explained}>{(explanation) => <ContractText of={explanation} />}</Loaded>
        </Section>
      )}
      {found && <Compare digest={found.digest} name={found.name} others={others.data?.items ?? []} other={query.get('with') ?? ''} />}
      {found && <WhatIf contract={found} promotion={query.get('promotion') ?? ''} />}
    </>
  );
}

function About({ of, byName }: { of: Contract; byName: boolean }) {
  return (
    <>
      {byName && <p>The newest version of this name; its digest is its own address.</p>}
      <Facts items={[
        ['Digest', <Digest>{of.digest}</Digest>],
        ['Registered', <Time us={of.registered_us} none="–" />],
        ['By', <Name>{of.registrant}</Name>],
        ['Promotions under it', <Link to={`/?show=all&contract=${encodeURIComponent(of.digest)}`}>show them</Link>],
        ...(may('auditor') ? [['Evidence', <Link to={`/evidence?contract=${encodeURIComponent(of.digest)}`}>entries about it</Link>] as [string, preact.ComponentChildren]] : []),
      ]} />
    </>
  );
}
