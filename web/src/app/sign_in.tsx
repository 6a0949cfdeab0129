// Signed out: paste a token.

import { useState } from 'preact/hooks';
import { signedOutWhy, signIn } from '../api/session';
import { Button } from '../ui/button';
import { Icon } from '../ui/icons';
import { Command, Sentence } from '../ui/name';
import { PageHead } from '../ui/page';

export function SignIn() {
  const [token, setToken] = useState('');
  const [fault, setFault] = useState('');
  const [busy, setBusy] = useState(false);
  const why = signedOutWhy.value;
  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    const said = await signIn(token);
    setBusy(false);
    setFault(said);
    if (said) document.getElementById('token')?.focus();
    else setToken('');
  };
  return (
    <div class="sign-in">
      <PageHead title="Sign in" />
      {why && <p class="note warn" role="alert"><Icon name="info" /> <Sentence>{why}</Sentence></p>}
      <form onSubmit={submit}>
        <div class="field">
          <label for="token">Token</label>
          <input id="token" type="password" value={token} autocomplete="off" spellcheck={false} autofocus placeholder="dg_…"
            aria-invalid={!!fault || undefined} aria-describedby={fault ? 'token-fault token-hint' : 'token-hint'}
            onInput={(event) => { setToken(event.currentTarget.value); setFault(''); }} />
          {fault && <span id="token-fault" class="fault" role="alert">{fault}</span>}
          <span id="token-hint" class="hint">It is exchanged for a session of this browser and not kept. What you may do depends on its scopes.</span>
        </div>
        <p><Button type="submit" kind="primary" busy={busy}>{busy ? 'Signing in…' : 'Sign in'}</Button></p>
      </form>
      <p class="muted">No token? Whoever administers this daemon issues one:</p>
      <Command>driftgate token issue --token-file DATA_DIR/admin.token --name YOU --scope viewer</Command>
    </div>
  );
}
