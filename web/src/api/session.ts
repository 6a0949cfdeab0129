// Who is signed in. The secret itself is never kept by the page: it is exchanged for a cookie that scripts cannot read.

import { signal } from '@preact/signals';
import type { Scope, Session } from './types';

export type SignedState = 'unknown' | 'in' | 'out' | 'unreachable';

export const session = signal<Session | null>(null);
export const signedState = signal<SignedState>('unknown');
/** Why the page is signed out, when it was signed in before or a sign-in failed. */
export const signedOutWhy = signal('');

type Listener = () => void;
const changed = new Set<Listener>();
let tellOthers: ((what: 'in' | 'out') => void) | null = null;

/** Calls `listener` after each sign-in and sign-out. */
export function onSessionChange(listener: Listener): () => void {
  changed.add(listener);
  return () => changed.delete(listener);
}

/** Sets how other tabs hear of a sign-in or sign-out of this one. */
export function announceBy(tell: (what: 'in' | 'out') => void): void {
  tellOthers = tell;
}

export function csrfToken(): string | null {
  return session.value?.csrf ?? null;
}

/** Whether the session has the scope or one that implies it; admin never implies approver. */
export function may(scope: Scope, of: Session | null = session.value): boolean {
  if (!of) return false;
  if (scope === 'viewer' || of.scopes.includes(scope)) return true;
  return of.scopes.includes('admin') && scope !== 'approver';
}

function set(next: Session | null, state: SignedState, why: string): void {
  const was = session.value;
  session.value = next;
  signedState.value = state;
  signedOutWhy.value = why;
  if ((was?.token ?? null) !== (next?.token ?? null) || was?.csrf !== next?.csrf) for (const listener of changed) listener();
}

/** Takes `#token=…` out of the address and of the history, before anything else can see it. */
export function takeTokenOfFragment(place: Location = location, log: History = history): string | null {
  if (!place.hash.includes('token=')) return null;
  const token = new URLSearchParams(place.hash.slice(1)).get('token');
  log.replaceState(log.state, '', place.pathname + place.search);
  return token;
}

async function fetchSession(init: RequestInit): Promise<Response | null> {
  try {
    return await fetch('/v1/session', { ...init, credentials: 'same-origin', cache: 'no-store' });
  } catch {
    return null;
  }
}

/** Exchanges a token for a session. Gives the reason when that failed, '' otherwise. */
export async function signIn(token: string): Promise<string> {
  const secret = token.trim();
  if (!/^dg_[\x21-\x7e]+$/.test(secret)) return 'A token begins with dg_ and has no spaces in it.';
  const response = await fetchSession({ method: 'POST', headers: { Authorization: `Bearer ${secret}` } });
  if (!response) return 'The daemon could not be reached.';
  if (response.status === 401) return 'The daemon does not know this token: it is mistyped, expired or revoked.';
  if (!response.ok) {
    const problem = (await response.json().catch(() => ({}))) as { detail?: string };
    return problem.detail ?? `The daemon answered with status ${response.status}.`;
  }
  set((await response.json()) as Session, 'in', '');
  tellOthers?.('in');
  return '';
}

/** Whose a token is, without signing in; null when the daemon does not know it or does not answer. */
export async function ownerOf(token: string): Promise<Session | null> {
  const secret = token.trim();
  if (!/^dg_[\x21-\x7e]+$/.test(secret)) return null;
  const response = await fetchSession({ headers: { Authorization: `Bearer ${secret}` } });
  return response?.ok ? ((await response.json()) as Session) : null;
}

/** Asks who is signed in by the cookie. */
export async function loadSession(): Promise<void> {
  const response = await fetchSession({});
  const refused = !!response && [401, 403, 404].includes(response.status);
  if (!response || (!response.ok && !refused)) { // away, or too busy to say
    if (signedState.value === 'unknown' || signedState.value === 'unreachable') signedState.value = 'unreachable';
    return;
  }
  if (response.ok) set((await response.json()) as Session, 'in', '');
  else set(null, 'out', session.value ? 'Your session has ended.' : '');
}

/** Reads the session again; true when its CSRF token is another one than before. */
export async function renewSession(): Promise<boolean> {
  const before = csrfToken();
  await loadSession();
  return signedState.value === 'in' && csrfToken() !== before;
}

/** The daemon refused the session: its token was revoked or has expired, or it was ended elsewhere. */
export function sessionEnded(detail: string): void {
  if (signedState.value === 'out') return;
  set(null, 'out', detail ? `Your session has ended: ${detail}` : 'Your session has ended.');
  tellOthers?.('out');
}

/** Another tab signed in or out. */
export async function sessionChangedElsewhere(what: 'in' | 'out'): Promise<void> {
  if (what === 'in') await loadSession();
  else if (signedState.value === 'in') set(null, 'out', 'You signed out, or your session ended, in another tab.');
}

export async function signOut(): Promise<string> {
  const csrf = csrfToken();
  const response = await fetchSession({ method: 'DELETE', headers: csrf ? { 'X-CSRF-Token': csrf } : {} });
  if (!response) return 'The daemon could not be reached: you are still signed in.';
  if (response.status !== 204 && response.status !== 401) {
    const problem = (await response.json().catch(() => ({}))) as { detail?: string };
    return problem.detail ?? `The daemon answered with status ${response.status}.`;
  }
  set(null, 'out', '');
  tellOthers?.('out');
  return '';
}
