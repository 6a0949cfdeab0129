// Which keys this browser trusts, which head it has kept, and how the log's present head stands beside both.

import { useEffect, useState } from 'preact/hooks';
import { asProblem, type Problem } from '../../api/client';
import { NoHead } from '../../proof/note';
import { NoKeys, type TrustedKey } from '../../proof/trust';
import { Button } from '../../ui/button';
import { Chip } from '../../ui/chip';
import { Dialog } from '../../ui/dialog';
import { count } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Copy, Name, visible } from '../../ui/name';
import { ErrorBox } from '../../ui/page';
import { Time } from '../../ui/time';
import { save } from './download';
import { forgetHead, type HeadView, keptChanges, keptHeads, pin, pinnedKeys, readPresentHead, unpin } from './store';

/** The band above all parts of the view: keys, present head, kept head. */
export function HeadBand({ turn, onChange }: { turn: number; onChange: () => void }) {
  const [view, setView] = useState<HeadView | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isPinning, setPinning] = useState(false);
  const [again, setAgain] = useState(0);
  const keys = pinnedKeys.value;
  useEffect(() => {
    const control = new AbortController();
    readPresentHead(control.signal).then(
      (read) => {
        if (control.signal.aborted) return;
        setView(read);
        setProblem(null);
      },
      (error: unknown) => {
        if (!control.signal.aborted) setProblem(problemOf(error));
      },
    );
    return () => control.abort();
  }, [turn, again, keys]);

  const refresh = () => {
    setAgain((old) => old + 1);
    onChange();
  };
  return (
    <section class="section log-band" aria-labelledby="log-band-title">
      <div class="section-head">
        <h2 id="log-band-title">The log and this browser</h2>
        <Button onClick={() => setPinning(true)} kind={keys.length === 0 ? 'primary' : 'plain'}>
          {keys.length === 0 ? 'Pin the log’s key' : 'Keys and kept heads'}
        </Button>
      </div>
      {problem && <ErrorBox problem={problem} retry={() => setAgain((old) => old + 1)} title="The head of the log could not be checked" />}
      {view && <Standing view={view} onForget={refresh} />}
      {!view && !problem && <p class="muted" aria-busy="true">Reading the head of the log…</p>}
      {isPinning && <KeysDialog onClose={() => setPinning(false)} onChange={onChange} />}
    </section>
  );
}

function problemOf(error: unknown): Problem {
  if (error instanceof NoHead) return asProblem(new Error(`The host’s head of the log is no signed head: ${error.message}.`));
  return asProblem(error);
}

function Standing({ view, onForget }: { view: HeadView; onForget: () => void }) {
  const { head, steps, continuity, kept, unusable } = view;
  const alarm = continuity === 'rollback' || continuity === 'fork';
  const broken = steps.find(({ state }) => state === 'broken');
  const tone = broken ? 'bad' : steps.some(({ state }) => state === 'open') ? 'warn' : 'good';
  return (
    <>
      <p class="row">
        <Chip tone={tone} icon={broken ? 'violated' : tone === 'warn' ? 'inconclusive' : 'pass'}>
          {broken ? (alarm ? continuity : 'head refused') : tone === 'warn' ? 'not verified' : 'head verified'}
        </Chip>
        <span>Head of <Name>{head.origin}</Name> with {count(head.size)} entries.</span>
        <Button kind="link" onClick={() => save('head.note', head.note, 'text/plain')}>Save this head</Button>
      </p>
      <div role={broken ? 'alert' : undefined}>
        <ul class="standing">
          {steps.map((step) => <li key={step.name} class={step.state}><Icon name={iconOf(step.state)} /> <bdi>{visible(step.text)}</bdi></li>)}
          {unusable && <li class="open"><Icon name="info" /> The head of {count(unusable.head.size)} entries that was kept before is not signed by a key that you pinned, and is not used.</li>}
        </ul>
      </div>
      {alarm && kept && <Alarm view={view} onForget={onForget} />}
    </>
  );
}

export function iconOf(state: string) {
  return state === 'good' ? 'pass' : state === 'broken' ? 'violated' : state === 'open' ? 'inconclusive' : state === 'elsewhere' ? 'info' : 'none';
}

function Alarm({ view, onForget }: { view: HeadView; onForget: () => void }) {
  const [isSure, setSure] = useState(false);
  const { head, kept } = view;
  if (!kept) return null;
  const saveBoth = () => {
    save('shown.note', head.note, 'text/plain');
    save('kept.note', kept.head.note, 'text/plain');
  };
  return (
    <div class="alarm">
      <p>The kept head was seen <Time us={kept.seenUs} />. Both heads are {kept.signedBy ? 'signed, and together they prove it' : 'worth keeping'}: save them before anything else, and compare with a head that somebody else has kept.</p>
      <p class="row">
        <Button onClick={saveBoth}>Save both heads</Button>
        {isSure
          ? <Button kind="danger" onClick={() => { forgetHead(head.origin); onForget(); }}>Forget the kept head, I know why it differs</Button>
          : <Button kind="danger" onClick={() => setSure(true)}>Forget the kept head…</Button>}
      </p>
    </div>
  );
}

/** Shows, adds and takes away pinned keys; shows and forgets kept heads. */
export function KeysDialog({ onClose, onChange }: { onClose: () => void; onChange: () => void }) {
  const [text, setText] = useState('');
  const [fault, setFault] = useState('');
  const keys = pinnedKeys.value;
  const add = (event: Event) => {
    event.preventDefault();
    try {
      pin(text);
      setText('');
      setFault('');
      onChange();
    } catch (error) {
      if (!(error instanceof NoKeys)) throw error;
      setFault(error.message);
    }
  };
  return (
    <Dialog title="Keys and kept heads" onClose={onClose} wide>
      <p>Checks here are worth as much as the key they are made under. It must come from somewhere else than this host: the operator’s paper, your own <code>driftgate key trust</code>, a colleague. This page never fetches it.</p>
      <form onSubmit={add} class="key-form">
        <div class="field">
          <label for="key-text">Verifier key (name+id+key), or a whole trust file</label>
          <textarea id="key-text" value={text} rows={3} spellcheck={false} autocomplete="off" aria-invalid={fault ? true : undefined}
            aria-describedby={fault ? 'key-fault' : undefined} onInput={(event) => setText(event.currentTarget.value)} />
          {fault && <p id="key-fault" class="fault" role="alert">{fault}</p>}
        </div>
        <Button type="submit" kind="primary">Pin</Button>
      </form>
      <h3>Pinned keys</h3>
      {keys.length === 0 ? <p class="muted">None.</p> : <ul class="keys">{keys.map((key) => <PinnedKey key={`${key.name}+${key.id}`} of={key} onChange={onChange} />)}</ul>}
      <h3>Kept heads</h3>
      <KeptHeads onChange={onChange} />
    </Dialog>
  );
}

function PinnedKey({ of, onChange }: { of: TrustedKey; onChange: () => void }) {
  const since = of.fromSize === undefined ? '' : `, from ${count(of.fromSize)} entries on`;
  const remove = () => {
    unpin(of);
    onChange();
  };
  return (
    <li>
      <span><Name>{of.name}</Name> <code>{of.id}</code>{since}{of.untilUs !== undefined && <>, retired <Time us={of.untilUs} /></>}</span>
      <Button kind="link" onClick={remove} label={`Unpin the key ${of.id}`}>Unpin</Button>
    </li>
  );
}

function KeptHeads({ onChange }: { onChange: () => void }) {
  const [sure, setSure] = useState('');
  void keptChanges.value;
  const heads = keptHeads();
  if (heads.length === 0) return <p class="muted">None.</p>;
  const forget = (origin: string) => {
    if (sure !== origin) return setSure(origin);
    forgetHead(origin);
    onChange();
    return undefined;
  };
  return (
    <ul class="keys">
      {heads.map(({ head, seenUs, signedBy }) => (
        <li key={head.origin}>
          <span><Name>{head.origin}</Name>: {count(head.size)} entries, kept <Time us={seenUs} />, {signedBy ? <>signed by <code>{visible(signedBy)}</code></> : 'before any key was pinned'} <Copy text={head.note} label="Copy this head" /></span>
          <Button kind="link" onClick={() => forget(head.origin)}>{sure === head.origin ? 'Forget it: rollbacks before now will not be noticed' : 'Forget'}</Button>
        </li>
      ))}
    </ul>
  );
}
