// The one dialog of all actions: what it concerns, what will happen, a typed reason, and what to do when it fails.

import { useRef, useState } from 'preact/hooks';
import { asProblem, type Problem } from '../../api/client';
import { announce } from '../../ui/announce';
import { Button } from '../../ui/button';
import { Dialog } from '../../ui/dialog';
import { Digest, Name, Sentence } from '../../ui/name';
import { ErrorBox } from '../../ui/page';
import { notify } from '../notices';
import { differences, newKey, send, started, whyNot, type Action, type Shown, type Started } from './action';

/** Stands once in the shell and shows the dialog of the action that was started. */
export function ActionHost() {
  const now = started.value;
  return now ? <ActionDialog key={now.action.path} {...now} /> : null;
}

function close() {
  started.value = null;
}

interface Changed {
  problem: Problem;
  fresh: Action | null;
  lost: Problem | null;
  before: Shown[];
}

function ActionDialog({ action: first, onDone }: Started) {
  const [action, setAction] = useState(first);
  const [reason, setReason] = useState('');
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<Problem | null>(null);
  const [missing, setMissing] = useState(false);
  const [changed, setChanged] = useState<Changed | null>(null);
  // Made once and kept while the outcome is unknown, so that trying again cannot do it twice. A clear refusal had no
  // effect, and what follows it is another request.
  const key = useRef(newKey());
  const field = useRef<HTMLTextAreaElement>(null);

  const lookAgain = async (problem: Problem) => {
    const before = action.shown;
    if (!action.look) return setFault(problem);
    try {
      setChanged({ problem, fresh: await action.look(), lost: null, before });
    } catch (error) {
      setChanged({ problem, fresh: null, lost: asProblem(error), before });
    }
  };

  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy || changed) return;
    if (action.reason && !reason.trim()) {
      setMissing(true);
      field.current?.focus();
      return;
    }
    setBusy(true);
    setFault(null);
    try {
      const answer = await send(action, reason.trim(), key.current);
      const done = typeof action.done === 'string' ? action.done : action.done(answer);
      announce(done);
      close();
      notify(done);
      onDone?.(answer);
    } catch (error) {
      const problem = asProblem(error);
      if (problem.status >= 400 && problem.status < 500) key.current = newKey();
      if (problem.status === 401) close();
      else if (problem.code === 'other_session') {
        close();
        announce(problem.detail);
        notify(problem.detail);
      }
      else if (problem.status === 409 || problem.status === 412) await lookAgain(problem);
      else setFault(problem);
    } finally {
      setBusy(false);
    }
  };

  const again = action.repeatable !== false;
  const goOn = (fresh: Action) => {
    setAction(fresh);
    setChanged(null);
    setFault(null);
  };
  const leave = () => {
    // Behind the dialog stands what was shown before the conflict, or before an answer was lost.
    if (changed || fault?.away) onDone?.(undefined);
    close();
  };

  return (
    <Dialog title={<Name>{action.title}</Name>} onClose={leave} busy={busy}>
      <form class="action" data-action={action.name} noValidate onSubmit={submit}>
        {changed ? <Conflict changed={changed} onGoOn={goOn} onLeave={leave} /> : (
          <>
            <p><Sentence>{action.effect}</Sentence></p>
            <ShownList shown={action.shown} />
            {action.reason && (
              <div class="field">
                <label for="action-reason">Reason (it becomes evidence; put no personal data into it)</label>
                <textarea id="action-reason" ref={field} value={reason} required readOnly={busy || !!fault?.away} autofocus maxLength={2000}
                  aria-invalid={missing || undefined} aria-describedby={missing ? 'action-reason-fault' : undefined}
                  onInput={(event) => {
                    setReason(event.currentTarget.value);
                    setMissing(false);
                  }} />
                {missing && <span id="action-reason-fault" class="fault" role="alert">Type the reason first.</span>}
              </div>
            )}
            {fault && <ErrorBox problem={fault} title={fault.away ? 'No answer came: it is not known whether it was done' : undefined} />}
            {fault?.away && <p class="muted">{again ? 'Trying again is safe: the daemon does it at most once.' : 'It may have been done: look at the list before you do it again.'}</p>}
            <div class="dialog-foot">
              <Button onClick={leave}>{fault?.away && !again ? 'Close and look' : 'Cancel'}</Button>
              {(!fault?.away || again) && <Button type="submit" kind={action.kind ?? 'plain'} busy={busy} refused={whyNot(action)}>{busy ? 'Sending…' : fault ? 'Try again' : action.verb}</Button>}
            </div>
          </>
        )}
      </form>
    </Dialog>
  );
}

function ShownList({ shown }: { shown: Shown[] }) {
  return (
    <dl class="action-shown">
      {shown.map((one) => (
        <div key={one.name}><dt>{one.name}</dt><dd>{one.digest ? <Digest>{one.value}</Digest> : <Sentence>{one.value}</Sentence>}</dd></div>
      ))}
    </dl>
  );
}

function Conflict({ changed, onGoOn, onLeave }: { changed: Changed; onGoOn: (fresh: Action) => void; onLeave: () => void }) {
  const { problem, fresh, before } = changed;
  const found = fresh ? differences(before, fresh.shown) : [];
  const refused = fresh ? whyNot(fresh) : null;
  return (
    <>
      <ErrorBox problem={problem} title="It changed while you looked at it; nothing was done" />
      {found.length > 0 && (
        <table class="table keep action-changes">
          <caption>What is different now</caption>
          <thead><tr><th scope="col">What</th><th scope="col">You saw</th><th scope="col">It is now</th></tr></thead>
          <tbody>
            {found.map((one) => (
              <tr key={one.name}>
                <th scope="row">{one.name}</th>
                <td>{one.digest ? <Digest copy={false}>{one.was}</Digest> : <Sentence>{one.was}</Sentence>}</td>
                <td>{one.digest ? <Digest>{one.now}</Digest> : <Sentence>{one.now}</Sentence>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {changed.lost && <p class="muted">It could not be read again: <Sentence>{changed.lost.detail}</Sentence></p>}
      {refused && <p><Sentence>{refused}</Sentence></p>}
      <div class="dialog-foot">
        <Button kind="primary" onClick={onLeave}>Close and look again</Button>
        {fresh && !refused && <Button onClick={() => onGoOn(fresh)}>Decide on what is shown now</Button>}
      </div>
    </>
  );
}
