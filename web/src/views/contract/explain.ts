// The explanation of a contract, which the daemon makes for one at a time.

import { Problem, request } from '../../api/client';

const TRIES = 5;
const WAIT_MS = 1000;

function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}

/** Asks again after a second, a few times, where another contract is being explained. Throws as request does. */
export async function readExplanation(path: string, signal: AbortSignal, waitMs = WAIT_MS): Promise<unknown> {
  for (let tried = 1; ; tried++) {
    try {
      return await request<unknown>(path, { signal });
    } catch (error) {
      const isBusy = error instanceof Problem && error.status === 503 && error.code === 'unavailable';
      if (!isBusy || tried === TRIES) throw error;
    }
    await pause(waitMs);
    signal.throwIfAborted();
  }
}
