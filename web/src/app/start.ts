// What happens once when the page is opened.

import { joinTabs, startLive } from '../api/live';
import { loadSession, ownerOf, session, signIn, signedOutWhy, signedState, takeTokenOfFragment } from '../api/session';
import { announce } from '../ui/announce';
import { visible } from '../ui/name';
import { notify } from './notices';
import { startKeys } from './keys';
import { startRouter } from './router';
import { routeOf } from './routes';

export async function start(): Promise<void> {
  const token = takeTokenOfFragment();
  joinTabs();
  startRouter();
  startKeys();
  // The view's code comes while the daemon is asked who is signed in; a failure shows when it is drawn.
  routeOf(location.pathname)?.route.load().catch(() => undefined);
  // A link with a token that is pasted over the address of an open page changes only the fragment.
  addEventListener('hashchange', () => {
    const pasted = takeTokenOfFragment();
    if (pasted) void enter(pasted);
  });
  await (token ? enter(token) : loadSession());
  startLive();
}

async function enter(token: string): Promise<void> {
  await loadSession();
  const present = session.value;
  if (present) {
    // Whoever follows a link does not become somebody else without noticing.
    const owner = await ownerOf(token);
    if (owner?.token === present.token) return;
    if (owner && !confirm(`You are signed in as ${visible(present.name)}. Sign in as ${visible(owner.name)} by the link instead?`)) return;
  }
  const fault = await signIn(token);
  if (!fault) return;
  const text = `The link's token was not accepted. ${fault}`;
  if (!session.value || signedState.value !== 'in') {
    signedOutWhy.value = text;
    return;
  }
  const said = `${text} You are still signed in as ${visible(session.value.name)}.`;
  announce(said);
  notify(said);
}
