// What an action is. Everything on the page that changes something is one of these, and goes through the one dialog.

import { signal } from '@preact/signals';
import { request, requestAnswer } from '../../api/client';
import type { Scope } from '../../api/types';
import { may, onSessionChange, session } from '../../api/session';

/** What the reader sees of the thing that an action changes; compared after a conflict to say what is different. */
export interface Shown {
  name: string;
  value: string;
  /** Shown as a digest, shortened, with a copy button. */
  digest?: boolean;
}

export interface Action {
  /** Names the kind of the action: approve, abort, lift-hold, … */
  name: string;
  /** On the button: Approve, Abort, … */
  verb: string;
  /** Heading of the dialog. */
  title: string;
  scope: Scope;
  kind?: 'primary' | 'danger' | 'plain';
  /** Why the state of the thing, or who the reader is, rules it out now; null when it may be done. */
  refused: string | null;
  /** What will happen, in a sentence. */
  effect: string;
  shown: Shown[];
  /** Whether a reason must be typed. */
  reason: boolean;
  /** What the request changes; the reason is put into the body by `body`. */
  method: 'POST' | 'PUT' | 'DELETE';
  path: string;
  body?: (reason: string) => unknown;
  headers?: Record<string, string>;
  /** Reads the thing again and gives the same action as it would be now. */
  look: (() => Promise<Action>) | null;
  /** Said when it is done; may depend on what the daemon answered. */
  done: string | ((answer: unknown) => string);
  /** False where the daemon takes no idempotency key: sending it twice may do it twice. */
  repeatable?: boolean;
}

export interface Started {
  action: Action;
  onDone?: (answer: unknown) => void;
}

/** The action whose dialog is open. */
export const started = signal<Started | null>(null);

// A dialog belongs to the person who opened it.
let openedBy: string | undefined;
onSessionChange(() => {
  if (started.value && session.value?.token !== openedBy) started.value = null;
});

/** Opens the dialog of an action. The only way by which the page starts to change anything. */
export function startAction(action: Action, onDone?: (answer: unknown) => void): void {
  if (whyNot(action) !== null) return;
  openedBy = session.value?.token;
  started.value = { action, onDone };
}

/** Why the reader cannot do it: the scope that the token lacks, or what the state rules out; null when they can. */
export function whyNot(action: Pick<Action, 'scope' | 'refused'>): string | null {
  if (!may(action.scope)) {
    const mine = session.value?.scopes.join(', ') || 'none';
    return `Needs the scope ${action.scope}; your token has: ${mine}.`;
  }
  return action.refused;
}

/** A new idempotency key. randomUUID is absent on plain http beyond localhost, so it is not used. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(18));
  return `page-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

/** Sends the action once. The same key makes a repeated sending harmless. */
export async function send(action: Action, reason: string, key: string): Promise<unknown> {
  const headers = { 'Idempotency-Key': key, ...action.headers };
  return request(action.path, { method: action.method, body: action.body?.(reason), headers });
}

/** What differs between two looks at the same thing, in the order of the newer. */
export function differences(before: Shown[], after: Shown[]): { name: string; was: string; now: string; digest: boolean }[] {
  const old = new Map(before.map((one) => [one.name, one.value]));
  const found = after.filter((one) => old.get(one.name) !== one.value)
    .map((one) => ({ name: one.name, was: old.get(one.name) ?? '–', now: one.value, digest: !!one.digest }));
  const names = new Set(after.map((one) => one.name));
  for (const one of before) if (!names.has(one.name)) found.push({ name: one.name, was: one.value, now: '–', digest: !!one.digest });
  return found;
}

/** A resource with the tag that a change must name in If-Match. */
export async function readTagged<T>(path: string): Promise<{ value: T; etag: string }> {
  const { value, etag } = await requestAnswer<T>(path);
  return { value, etag: etag ?? '*' };
}
