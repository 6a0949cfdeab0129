// One entry: what it says, its exact bytes, and its check.

import { useEffect, useState } from 'preact/hooks';
import { asProblem, type Problem } from '../../api/client';
import { Link, segment, setQuery } from '../../app/router';
import { textOf } from '../../proof/bytes';
import { NotCanonical } from '../../proof/canonical';
import { type LogEntry, readEntry } from '../../proof/entry';
import type { Material } from '../../proof/check';
import { Button } from '../../ui/button';
import { VerdictChip } from '../../ui/chip';
import { Dialog } from '../../ui/dialog';
import { count, utc, words } from '../../ui/format';
import { Copy, Digest, Name, visible } from '../../ui/name';
import { ErrorBox, Facts } from '../../ui/page';
import { Clock } from '../../ui/time';
import { save } from './download';
import { Result } from './steps';
import { check, type CheckState, pinnedKeys, readBytes } from './store';
import { MemberList } from './value';
import { VERDICTS } from './words';

interface Read {
  bytes: Uint8Array;
  entry: LogEntry | undefined;
  fault: string;
}

function read(bytes: Uint8Array): Read {
  try {
    return { bytes, entry: readEntry(bytes), fault: '' };
  } catch (error) {
    if (!(error instanceof NotCanonical)) throw error;
    return { bytes, entry: undefined, fault: error.message };
  }
}

export interface EntryDialogProps {
  seq: number;
  /** Whether the check begins by itself, since the person asked for it in the list. */
  checks: boolean;
  listed: Material['listed'];
  onChecked: () => void;
}

/** The entry named by the address; closing it takes it out of the address. */
export function EntryDialog({ seq, checks, listed, onChecked }: EntryDialogProps) {
  const [shown, setShown] = useState<Read | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    setShown(null);
    setProblem(null);
    readBytes(seq, control.signal).then(
      (bytes) => setShown(read(bytes)),
      (error: unknown) => {
        if (!control.signal.aborted) setProblem(asProblem(error));
      },
    );
    return () => control.abort();
  }, [seq, turn]);
  const close = () => setQuery({ seq: null, check: null });
  const title = shown?.entry ? `Entry ${count(seq)}: ${words(shown.entry.kind)}` : `Entry ${count(seq)}`;
  return (
    <Dialog title={visible(title)} onClose={close} wide>
      {problem && <ErrorBox problem={problem} retry={() => setTurn((old) => old + 1)} />}
      {!shown && !problem && <p class="muted" aria-busy="true">Reading its bytes…</p>}
      {shown && <Body key={seq} seq={seq} of={shown} checks={checks} listed={listed} onChecked={onChecked} />}
      <div class="dialog-foot">
        {seq > 0 && <Button onClick={() => setQuery({ seq: String(seq - 1), check: null })}>Entry before</Button>}
        <Button onClick={() => setQuery({ seq: String(seq + 1), check: null })}>Next entry</Button>
      </div>
    </Dialog>
  );
}

interface BodyProps {
  seq: number;
  of: Read;
  checks: boolean;
  listed: Material['listed'];
  onChecked: () => void;
}

function Body({ seq, of, checks, listed, onChecked }: BodyProps) {
  const [state, setState] = useState<CheckState | null>(null);
  const run = () => {
    setState({ state: 'asking' });
    void check(seq, of.bytes, listed).then((done) => {
      setState(done);
      onChecked();
    });
  };
  // Once for each opening: a check that was asked for in the list is one click.
  useEffect(() => {
    if (checks) run();
  }, []);
  return (
    <>
      {of.entry ? <Facts items={factsOf(of.entry)} /> : <p class="fault" role="alert">These bytes are no entry in canonical form: {of.fault}.</p>}
      <div class="check-bar">
        <Button kind="primary" onClick={run} busy={state?.state === 'asking'}>{state?.state === 'asking' ? 'Checking…' : state ? 'Check again' : 'Check here'}</Button>
        <span class="muted small">
          Hashes these bytes, walks to the root and checks the head in this browser, {pinnedKeys.value.length > 0 ? 'under the key that you pinned.' : 'but no key is pinned yet, so who signed it stays open.'}
        </span>
      </div>
      {state?.state === 'done' && <Result checked={state.checked} />}
      {state?.state === 'failed' && <ErrorBox problem={state.problem} retry={run} title="The check could not be made" />}
      {of.entry && <><h3>What it says</h3><MemberList of={of.entry.body} /></>}
      <Bytes seq={seq} bytes={of.bytes} />
    </>
  );
}

function factsOf({ time_us, actor, kind, subject, body }: LogEntry): [string, preact.ComponentChildren][] {
  const facts: [string, preact.ComponentChildren][] = [
    ['When', <><Clock us={time_us} /> <span class="muted small">{utc(time_us)}</span></>],
    ['By', <Name>{actor}</Name>],
    ['Kind', <code>{visible(kind)}</code>],
  ];
  const { model, promotion, stage, attempt, contract, checkpoint, prior } = subject;
  const verdict = VERDICTS.find((word) => word === body['verdict']);
  if (verdict) facts.push(['Verdict', <VerdictChip verdict={verdict} />]);
  if (model !== undefined) facts.push(['Model', <Link to={`/models/${segment(model)}`}><Name>{model}</Name></Link>]);
  if (promotion !== undefined) facts.push(['Promotion', <Link to={`/p/${segment(promotion)}`}><Name>{promotion}</Name></Link>]);
  if (stage !== undefined) facts.push(['Stage', <><Name>{stage}</Name>{attempt !== undefined && attempt > 1 ? `, attempt ${attempt}` : ''}</>]);
  if (contract !== undefined) facts.push(['Contract', <Link to={`/c/${segment(contract)}`}><code>{visible(contract.slice(0, 19))}…</code></Link>]);
  if (checkpoint !== undefined) facts.push(['Checkpoint', <Digest>{checkpoint}</Digest>]);
  if (prior !== undefined) facts.push(['Entry about it before', <Link to={`/evidence?seq=${prior}`}>{count(prior)}</Link>]);
  return facts;
}

function Bytes({ seq, bytes }: { seq: number; bytes: Uint8Array }) {
  const text = textOf(bytes);
  return (
    <>
      <div class="section-head">
        <h3>Its exact bytes <span class="muted small">{count(bytes.length)}</span></h3>
        <span class="row">
          {text !== undefined && <Copy text={text} label="Copy the bytes" word />}
          <Button kind="link" onClick={() => save(`entry-${seq}.json`, bytes, 'application/json')}>Save as a file</Button>
        </span>
      </div>
      <pre class="bytes" tabIndex={0} aria-label={`Exact bytes of entry ${seq}`}><bdi>{text === undefined ? 'They are not UTF-8: save them as a file.' : visible(text)}</bdi></pre>
    </>
  );
}
