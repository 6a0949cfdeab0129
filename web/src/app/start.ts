// What happens once when the page is opened.

import { loadSession, signIn, signedOutWhy, signedState, takeTokenOfFragment } from '../api/session';
import { startRouter } from './router';

export async function start(): Promise<void> {
  const token = takeTokenOfFragment();
  startRouter();
  if (token) {
    const fault = await signIn(token);
    if (!fault) return;
    await loadSession();
    if (signedState.value !== 'in') signedOutWhy.value = `The link's token was not accepted. ${fault}`;
    return;
  }
  await loadSession();
}
