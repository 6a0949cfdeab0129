// What this browser keeps for checks (pinned keys, newest heads), and how the parts of a check are asked for.

import { computed, signal } from '@preact/signals';
import { asProblem, request, requestBytes, requestText, withQuery, type Problem } from '../../api/client';
import type { Page } from '../../api/types';
import { checkEntry, checkHead, type Checked, type Material, type Pinned, readProof } from '../../proof/check';
import { type Continuity, HeadShelf, type KeptHead, type Shelf } from '../../proof/heads';
import { readHead, sameHead, type SignedHead } from '../../proof/note';
import type { Step } from '../../proof/steps';
import { judgeSignature, keysText, NoKeys, parseKeys, parseStoredKeys, type Rotation, type Signed, type TrustedKey } from '../../proof/trust';

const PAGE = 500;

/** Where nothing can be kept (storage switched off), what is pinned lasts as long as the page. */
class PageShelf implements Shelf {
  private readonly kept = new Map<string, string>();
  getItem(key: string) { return this.kept.get(key) ?? null; }
  setItem(key: string, value: string) { this.kept.set(key, value); }
  removeItem(key: string) { this.kept.delete(key); }
}

function browserShelf(): Shelf {
  try {
    localStorage.getItem('driftgate.keys');
    return localStorage;
  } catch {
    return new PageShelf();
  }
}

const shelf = new HeadShelf(typeof localStorage === 'undefined' ? new PageShelf() : browserShelf());

const pinnedText = signal(shelf.keysText());
/** Counts changes of what is kept. */
export const keptChanges = signal(0);

/** The keys that the person pinned, as far as they can be read. */
export const pinnedKeys = computed<TrustedKey[]>(() => {
  try {
    return pinnedText.value === '' ? [] : parseStoredKeys(pinnedText.value);
  } catch (error) {
    if (error instanceof NoKeys) return [];
    throw error;
  }
});

if (typeof addEventListener !== 'undefined') {
  addEventListener('storage', (event) => {
    if (event.key === null || event.key.startsWith('driftgate.')) {
      pinnedText.value = shelf.keysText();
      keptChanges.value += 1;
    }
  });
}

/** Pins the keys of a text beside those that are pinned. Throws NoKeys. */
export function pin(text: string): void {
  const added = parseKeys(text);
  const same = (a: TrustedKey, b: TrustedKey) => a.name === b.name && a.id === b.id;
  const kept = pinnedKeys.value.filter((one) => !added.some((other) => same(one, other)));
  keep([...kept, ...added]);
}

export function unpin(key: TrustedKey): void {
  keep(pinnedKeys.value.filter((one) => one.name !== key.name || one.id !== key.id));
}

function keep(keys: TrustedKey[]): void {
  const text = keys.length === 0 ? '' : keysText(keys);
  if (text === '') shelf.unpin();
  else shelf.pin(text);
  pinnedText.value = text;
}

export function keptHeads(): KeptHead[] {
  return shelf.all();
}

export function forgetHead(origin: string): void {
  shelf.forget(origin);
  keptChanges.value += 1;
}

/** The kept head of a log, unless keys of that log are pinned and none of them signed it. */
export function usableKept(origin: string): { kept?: KeptHead; unusable?: KeptHead } {
  const kept = shelf.find(origin);
  if (!kept) return {};
  const isOurs = !pinnedKeys.value.some((key) => key.name === origin)
    || judgeSignature(kept.head, pinnedKeys.value, 0).state === 'good';
  return isOurs ? { kept } : { unusable: kept };
}

/** Keeps a head that nothing speaks against. `judgedBy` is the kept head that it was held against. */
function keepHead(head: SignedHead, signed: Signed, continuity: Continuity, judgedBy: KeptHead | undefined): void {
  const isSigned = signed.state === 'good' || signed.state === 'no key';
  const isNext = continuity === 'first' || continuity === 'same' || continuity === 'continues';
  if (!isSigned || !isNext) return;
  const signedBy = signed.state === 'good' ? signed.key.id : '';
  const before = shelf.find(head.origin);
  // Another check may have kept a head since: this one was not judged by it, and must not take its place.
  const present = usableKept(head.origin).kept;
  if (present && !(judgedBy && sameHead(present.head, judgedBy.head))) return;
  const isKnown = before?.head.note === head.note && before.signedBy === signedBy;
  shelf.keep({ head, seenUs: Date.now() * 1000, signedBy });
  if (!isKnown) keptChanges.value += 1;
}

interface RotationEntry {
  time_us: number;
  body: { use?: string; name?: string; old_key?: string; new_key?: string; from_size?: number };
}

const idOf = (verifierKey: string) => verifierKey.split('+').at(-2) ?? '';

/** The rotations of head keys that the log records. Where a pinned key signed the head they can change nothing. */
async function rotationsFor(head: SignedHead): Promise<Rotation[]> {
  const isOfLog = pinnedKeys.value.some((key) => key.name === head.origin);
  if (!isOfLog || judgeSignature(head, pinnedKeys.value, 0).state === 'good') return [];
  const page = await request<Page<RotationEntry>>(withQuery('/v1/evidence', { kind: 'key_rotated', limit: PAGE }));
  return page.items.flatMap(({ time_us: timeUs, body }) => {
    const { use, name, old_key: oldKey, new_key: newKey, from_size: fromSize } = body;
    if (use !== 'head' || !name || !oldKey || !newKey || fromSize === undefined) return [];
    return [{ name, oldId: idOf(oldKey), newId: idOf(newKey), newKey, fromSize, timeUs }];
  });
}

/** Rotations are looked up once for a set of keys: each look at the log is itself recorded in it. */
const rotationsByKeys = new Map<string, Promise<Rotation[]>>();
function rotations(head: SignedHead): Promise<Rotation[]> {
  const name = `${head.origin} ${head.signatures.map(({ id }) => id).join()} ${pinnedText.value}`;
  const known = rotationsByKeys.get(name);
  if (known) return known;
  const asked = rotationsFor(head).catch((error: unknown) => {
    rotationsByKeys.delete(name);
    throw error;
  });
  rotationsByKeys.set(name, asked);
  return asked;
}

/** The proof that a log continues a smaller one; undefined when the host gives none, which proves nothing. */
async function consistencyProof(from: number, to: number): Promise<unknown> {
  try {
    return await request<unknown>(withQuery('/v1/log/consistency', { from, to }));
  } catch (error) {
    const problem = asProblem(error);
    if (problem.away || problem.status === 401) throw problem;
    return undefined;
  }
}

/** What pinned keys, kept head and consistency proof there are for a head. */
async function standing(head: SignedHead, askedUs: number): Promise<{ pinned: Pinned; consistency: unknown; unusable: KeptHead | undefined }> {
  const { kept, unusable } = usableKept(head.origin);
  const isGrown = kept !== undefined && kept.head.size < head.size;
  const isKeptSince = kept !== undefined && kept.head.size > head.size && kept.seenUs >= askedUs;
  const [found, consistency] = await Promise.all([
    rotations(head),
    isGrown ? consistencyProof(kept.head.size, head.size)
      : isKeptSince ? consistencyProof(head.size, kept.head.size) : undefined,
  ]);
  return { pinned: { keys: pinnedKeys.value, rotations: found, isKeptSince, ...(kept ? { kept } : {}) }, consistency, unusable };
}

export interface HeadView {
  head: SignedHead;
  steps: Step[];
  signed: Signed;
  continuity: Continuity;
  kept: KeptHead | undefined;
  unusable: KeptHead | undefined;
}

/** The log's present head, judged; keeps it when nothing speaks against it. Throws NoHead and Problem. */
export async function readPresentHead(signal?: AbortSignal): Promise<HeadView> {
  const askedUs = Date.now() * 1000;
  const note = await requestText('/v1/log/checkpoint', signal ? { signal } : {});
  const head = readHead(note);
  const { pinned, consistency, unusable } = await standing(head, askedUs);
  const steps: Step[] = [];
  const judged = checkHead(head, pinned, consistency, Date.now() * 1000, steps);
  const signed = judged.signed ?? { state: 'no key' };
  const continuity = judged.continuity ?? 'first';
  // A check that a newer one replaced keeps nothing: the keys may have changed since.
  if (!signal?.aborted) keepHead(head, signed, continuity, pinned.kept);
  return { head, steps, signed, continuity, kept: pinned.kept, unusable };
}

/** The exact bytes of an entry. */
export function readBytes(seq: number, signal?: AbortSignal): Promise<Uint8Array> {
  return requestBytes(`/v1/evidence/${seq}`, signal ? { signal } : {});
}

export type CheckState =
  | { state: 'asking' }
  | { state: 'done'; checked: Checked; unusable: KeptHead | undefined }
  | { state: 'failed'; problem: Problem };

/** Asks for what it takes and checks the entry whose bytes are at hand. */
export async function check(seq: number, bytes: Uint8Array, listed: Material['listed']): Promise<CheckState> {
  try {
    const askedUs = Date.now() * 1000;
    const proof = await request<unknown>(`/v1/log/proof/${seq}`);
    const head = headOf(proof);
    const { pinned, consistency, unusable } = head
      ? await standing(head, askedUs)
      : { pinned: { keys: pinnedKeys.value, rotations: [] } as Pinned, consistency: undefined, unusable: undefined };
    const material: Material = { seq, entry: bytes, proof, consistency, ...(listed ? { listed } : {}) };
    const checked = checkEntry(material, pinned);
    if (checked.state !== 'broken' && checked.head && checked.signed && checked.continuity) {
      keepHead(checked.head, checked.signed, checked.continuity, pinned.kept);
    }
    return { state: 'done', checked, unusable };
  } catch (error) {
    return { state: 'failed', problem: asProblem(error) };
  }
}

function headOf(proof: unknown): SignedHead | undefined {
  const note = readProof(proof)?.note;
  if (note === undefined) return undefined;
  try {
    return readHead(note);
  } catch {
    return undefined; // the check says what is wrong with it
  }
}
