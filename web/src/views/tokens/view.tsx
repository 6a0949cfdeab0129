// Tokens: who may do what, and issuing and revoking them (admin).

import { useState } from 'preact/hooks';
import type { LiveEvent } from '../../api/events';
import { useResource } from '../../api/resource';
import { may, session } from '../../api/session';
import type { Scope, Token } from '../../api/types';
import { ActionButton, issueToken, revokeToken, startAction } from '../../app/actions';
import { Button } from '../../ui/button';
import { Chip } from '../../ui/chip';
import { Dialog } from '../../ui/dialog';
import { Command, Name } from '../../ui/name';
import { Empty, Loaded, NotAllowed, PageHead, Section } from '../../ui/page';
import { Table, type Column } from '../../ui/table';
import { now, Time } from '../../ui/time';

const SCOPES: [Scope, string][] = [
  ['viewer', 'reads everything but the evidence log and tokens'], ['promoter', 'registers contracts, kernels and engines; asks for promotions'],
  ['approver', 'approves steps and waives clauses'], ['operator', 'aborts, rolls back, pauses, lifts holds and blocks'],
  ['auditor', 'reads the evidence log and proofs'], ['admin', 'tokens, and what promoter, operator and auditor may'],
];
const LIFETIMES: [string, number | null][] = [['1 day', 86400], ['7 days', 7 * 86400], ['30 days', 30 * 86400], ['90 days', 90 * 86400], ['without end', null]];

function changesTokens(event: LiveEvent): boolean {
  return event.type === 'entry' && (event.entry.kind === 'token_granted' || event.entry.kind === 'token_revoked');
}

export default function View() {
  return (
    <>
      <PageHead title="Tokens" />
      {may('admin') ? <Tokens /> : <NotAllowed scope="admin" what="The list of tokens" />}
    </>
  );
}

function State({ token }: { token: Token }) {
  if (token.revoked_us) return <><Chip tone="quiet" icon="violated">revoked</Chip> <Time us={token.revoked_us} /></>;
  if (token.expires_us && token.expires_us / 1000 < now.value) return <><Chip tone="quiet" icon="waiting">expired</Chip> <Time us={token.expires_us} /></>;
  return <><Chip tone="good" icon="pass">valid</Chip> {token.expires_us ? <>ends <Time us={token.expires_us} /></> : 'without end'}</>;
}

function columnsFor(onDone: () => void): Column<Token>[] {
  return [
    { head: 'Name', header: true, cell: (one) => <><Name>{one.name}</Name>{one.id === session.value?.token && <> <Chip tone="info" icon="person">yours</Chip></>}</> },
    { head: 'Token', cell: (one) => <code>{one.id}</code> },
    { head: 'Scopes', cell: (one) => one.scopes.join(', ') },
    { head: 'State', cell: (one) => <State token={one} /> },
    { head: 'Issued', cell: (one) => <><Time us={one.created_us} /> by <Name>{one.granted_by}</Name></> },
    { head: 'Revoke', cell: (one) => <ActionButton action={revokeToken(one, one.id === session.value?.token)} onDone={onDone} quiet /> },
  ];
}

function Tokens() {
  const list = useResource<{ items: Token[] }>('/v1/tokens', { live: changesTokens });
  const [secret, setSecret] = useState<{ name: string; bearer: string } | null>(null);
  return (
    <>
      <Section title="Issue a token"><Issue onIssued={(name, bearer) => { setSecret({ name, bearer }); list.reload(); }} /></Section>
      {secret && <Secret {...secret} onClose={() => setSecret(null)} />}
      <Section title="All tokens">
        <Loaded of={list}>
          {({ items }) => items.length ? <Table caption="Tokens" columns={columnsFor(list.reload)} rows={items} id={(one) => one.id} /> : <Empty title="No token" />}
        </Loaded>
      </Section>
    </>
  );
}

function Issue({ onIssued }: { onIssued: (name: string, bearer: string) => void }) {
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<Scope[]>(['viewer']);
  const [lifetime, setLifetime] = useState(2);
  const [fault, setFault] = useState('');
  const both = scopes.includes('admin') && scopes.includes('approver');
  const submit = (event: Event) => {
    event.preventDefault();
    const wanted = name.trim();
    if (!wanted) return setFault('Type the name of the person or program.');
    if (!scopes.length) return setFault('Choose at least one scope.');
    if (both) return setFault('Nobody has admin and approver at once.');
    setFault('');
    const [text, seconds] = LIFETIMES[lifetime] as [string, number | null];
    startAction(issueToken({ name: wanted, scopes, expires_in_s: seconds }, text), (answer) => {
      const bearer = (answer as { bearer?: string } | undefined)?.bearer;
      if (!bearer) return;
      setName('');
      onIssued(wanted, bearer);
    });
  };
  return (
    <form class="tokens-issue" onSubmit={submit}>
      <div class="field">
        <label for="token-name">Name (one person is one name)</label>
        <input id="token-name" type="text" value={name} maxLength={128} autocomplete="off" spellcheck={false} aria-invalid={!!fault || undefined}
          aria-describedby={fault ? 'token-fault' : undefined} onInput={(event) => setName(event.currentTarget.value)} />
      </div>
      <fieldset class="tokens-scopes">
        <legend>Scopes</legend>
        {SCOPES.map(([scope, text]) => (
          <label key={scope}>
            <input type="checkbox" checked={scopes.includes(scope)} onChange={(event) => setScopes(event.currentTarget.checked ? [...scopes, scope] : scopes.filter((one) => one !== scope))} />
            <span><strong>{scope}</strong> <span class="muted">{text}</span></span>
          </label>
        ))}
      </fieldset>
      <div class="field">
        <label for="token-life">Lasts</label>
        <select id="token-life" value={String(lifetime)} onChange={(event) => setLifetime(Number(event.currentTarget.value))}>
          {LIFETIMES.map(([text], at) => <option key={text} value={String(at)}>{text}</option>)}
        </select>
      </div>
      {fault && <p id="token-fault" class="fault" role="alert">{fault}</p>}
      <p><Button type="submit" kind="primary">Issue…</Button></p>
    </form>
  );
}

function Secret({ name, bearer, onClose }: { name: string; bearer: string; onClose: () => void }) {
  const link = `${location.origin}/#token=${encodeURIComponent(bearer)}`;
  return (
    <Dialog title={<>The token of <Name>{name}</Name></>} onClose={onClose}>
      <p>It is shown this once. Whoever has it is <Name>{name}</Name>.</p>
      <h3>Token</h3>
      <Command>{bearer}</Command>
      <h3>Link that signs in</h3>
      <Command>{link}</Command>
      <div class="dialog-foot"><Button kind="primary" onClick={onClose}>I have kept it</Button></div>
    </Dialog>
  );
}
