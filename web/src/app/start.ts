// What happens once when the page is opened.

import { startLive } from '../api/live';
import { loadSession, signIn, signedOutWhy, signedState, takeTokenOfFragment } from '../api/session';
import { startKeys } from './keys';
import { startRouter } from './router';
import { routeOf } from './routes';

export async function start(): Promise<void> {
  const token = takeTokenOfFragment();
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
  const fault = await signIn(token);
  if (!fault) return;
  await loadSession();
  if (signedState.value !== 'in') signedOutWhy.value = `The link's token was not accepted. ${fault}`;
}
