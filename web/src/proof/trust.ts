// The keys that a person trusts, and what a head that they signed is worth. Keys come from the person alone: pasted as
// verifier keys ("name+id+key", one a line) or as a trust file (docs/evidence.md).

import { fromBase64, toBase64, utf8 } from './bytes';
import { isKeyName, isSigned, keyId, parseVerifierKey, type SignedHead, verifierKeyText } from './note';

const MAX_TRUST_BYTES = 65_536;
const MAX_KEYS = 256;
const MEMBERS = ['use', 'name', 'key', 'from_size', 'from_us', 'until_us'];

export interface TrustedKey {
  name: string;
  key: Uint8Array;
  id: string;
  /** The size of the log when it came into force; undefined when the person did not say. */
  fromSize?: number;
  /** When it was retired, µs: it vouches for nothing that happened at or after this. */
  untilUs?: number;
}

/** The text holds no keys: the message says why. */
export class NoKeys extends Error {}

function headKey(name: string, key: Uint8Array): TrustedKey {
  return { name, key, id: keyId(name, key) };
}

/** Head keys of a pasted text: verifier keys, one a line, or a trust file. Throws NoKeys. */
export function parseKeys(text: string): TrustedKey[] {
  return readKeys(text, false);
}

/** Head keys of what keysText() wrote, where a key without from_size is one of which nobody said when it began. */
export function parseStoredKeys(text: string): TrustedKey[] {
  return readKeys(text, true);
}

function readKeys(text: string, isStored: boolean): TrustedKey[] {
  const trimmed = text.trim();
  if (trimmed === '') throw new NoKeys('It is empty.');
  if (utf8(trimmed).length > MAX_TRUST_BYTES) throw new NoKeys('It is longer than any trust file.');
  const keys = trimmed.startsWith('{') ? parseTrustFile(trimmed, isStored) : parseLines(trimmed);
  if (keys.length > MAX_KEYS) throw new NoKeys(`It has more than ${MAX_KEYS} keys.`);
  return keys;
}

function parseLines(text: string): TrustedKey[] {
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  return lines.filter((line) => line !== '').map((line) => {
    const parsed = parseVerifierKey(line);
    if (!parsed) throw new NoKeys('A line is no verifier key: it should read name+id+key, as the operator gave it to you.');
    return headKey(parsed.name, parsed.key);
  });
}

function parseTrustFile(text: string, isStored: boolean): TrustedKey[] {
  let document: { v?: unknown; keys?: unknown };
  try {
    document = JSON.parse(text) as { v?: unknown; keys?: unknown };
  } catch {
    throw new NoKeys('It begins like a trust file and is no JSON.');
  }
  if (document.v !== 1 || !Array.isArray(document.keys) || Object.keys(document).length !== 2) {
    throw new NoKeys('It is no trust file: it should be {"v": 1, "keys": […]}.');
  }
  const items = document.keys as Record<string, unknown>[];
  const keys = items.map((item, i) => readKey(item, `Key ${i + 1}`, isStored)).filter((key) => key !== undefined);
  if (keys.length === 0) throw new NoKeys('It has no key that signs heads.');
  return keys;
}

function readKey(item: Record<string, unknown>, where: string, isStored: boolean): TrustedKey | undefined {
  if (typeof item !== 'object' || item === null || Object.keys(item).some((name) => !MEMBERS.includes(name))) {
    throw new NoKeys(`${where} has a member that no key has.`);
  }
  const { use, name, key, from_size: fromSize, until_us: untilUs } = item;
  if (use !== 'head' && use !== 'attestation') throw new NoKeys(`${where} has no use.`);
  const bytes = typeof key === 'string' ? fromBase64(key) : undefined;
  if (typeof name !== 'string' || !isKeyName(name) || bytes?.length !== 32) {
    throw new NoKeys(`${where} has no name, or no key of 32 bytes.`);
  }
  for (const number of [fromSize, item['from_us'], untilUs]) {
    if (number !== undefined && !(Number.isSafeInteger(number) && Number(number) >= 0)) {
      throw new NoKeys(`${where} has a number that is not a whole one from 0.`);
    }
  }
  if (use !== 'head') return undefined; // attestations are not checked here
  const read = headKey(name, bytes);
  if (fromSize !== undefined || !isStored) read.fromSize = Number(fromSize ?? 0);
  if (untilUs !== undefined) read.untilUs = Number(untilUs);
  return read;
}

/** The text that parseStoredKeys reads back: like a trust file where a size is known, else verifier keys. */
export function keysText(keys: readonly TrustedKey[]): string {
  if (keys.every((key) => key.fromSize === undefined)) {
    return keys.map(({ name, key }) => verifierKeyText(name, key)).join('\n');
  }
  const items = keys.map(({ name, key, fromSize, untilUs }) => ({
    use: 'head',
    name,
    key: toBase64(key),
    ...(fromSize === undefined ? {} : { from_size: fromSize }),
    from_us: 0,
    ...(untilUs === undefined ? {} : { until_us: untilUs }),
  }));
  return JSON.stringify({ v: 1, keys: items });
}

/** What an entry key_rotated of the log says about a head key. */
export interface Rotation {
  name: string;
  oldId: string;
  newId: string;
  newKey: string; // the verifier key
  fromSize: number;
  timeUs: number;
}

/**
 * Fits pinned keys to the rotations that the log records. A key's end is taken from the log, which can only make fewer
 * heads acceptable; a new key is never taken from it.
 */
export function withRotations(keys: readonly TrustedKey[], rotations: readonly Rotation[]): TrustedKey[] {
  return keys.map((key) => {
    const fitted = { ...key };
    const ended = rotations.find((one) => one.name === key.name && one.oldId === key.id);
    const began = rotations.find((one) => one.name === key.name && one.newId === key.id);
    if (ended && fitted.untilUs === undefined) fitted.untilUs = ended.timeUs;
    if (began && fitted.fromSize === undefined) fitted.fromSize = began.fromSize;
    return fitted;
  });
}

/**
 * The keys that may have signed a head of `size` entries: the newest of its name with fromSize ≤ size (at the size of a
 * rotation the one before it too), and those of which nobody said when they came into force.
 */
export function keysAt(keys: readonly TrustedKey[], origin: string, size: number): TrustedKey[] {
  const ofLog = keys.filter((key) => key.name === origin);
  const dated = ofLog
    .filter((key) => key.fromSize !== undefined && key.fromSize <= size)
    .sort((a, b) => (b.fromSize ?? 0) - (a.fromSize ?? 0));
  let kept = dated.length === 0 ? 0 : 1;
  while (kept < dated.length && dated[kept - 1]?.fromSize === size) kept++;
  return [...dated.slice(0, kept), ...ofLog.filter((key) => key.fromSize === undefined)];
}

export type Signed =
  | { state: 'good'; key: TrustedKey }
  | { state: 'bad'; key: TrustedKey } // a signature that names a trusted key does not verify
  | { state: 'retired'; key: TrustedKey }
  | { state: 'other log' } // no pinned key is of this log
  | { state: 'other key'; ids: string[] } // signed by keys that are not pinned, or not for this size
  | { state: 'no key' };

/** What a head's signatures are worth under the pinned keys. `newestUs`: when the newest entry known to it was made. */
export function judgeSignature(head: SignedHead, keys: readonly TrustedKey[], newestUs: number): Signed {
  if (keys.length === 0) return { state: 'no key' };
  if (!keys.some((key) => key.name === head.origin)) return { state: 'other log' };
  const message = utf8(head.text);
  const own = head.signatures.filter((line) => line.name === head.origin);
  let good: TrustedKey | undefined;
  for (const key of keysAt(keys, head.origin, head.size)) {
    const line = own.find(({ id }) => id === key.id);
    if (!line) continue;
    if (!isSigned(key.key, message, line.signature)) return { state: 'bad', key };
    good ??= key;
  }
  if (!good) return { state: 'other key', ids: own.map(({ id }) => id) };
  const isRetired = good.untilUs !== undefined && newestUs >= good.untilUs;
  return isRetired ? { state: 'retired', key: good } : { state: 'good', key: good };
}
