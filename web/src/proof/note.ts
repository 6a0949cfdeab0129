// Signed heads: C2SP tlog-checkpoints (a signed note of origin, size and root), read as strictly as the other
// verifiers read them, and the verifier keys that people keep ("name+id+key").

import { ed25519 } from '@noble/curves/ed25519.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { concat, fromBase64, sameBytes, toBase64, toHex, utf8 } from './bytes';

const ALGORITHM = 1; // Ed25519
const ID_BYTES = 4;
const KEY_BYTES = 32;
const HASH_BYTES = 32;
const SIGNATURE_BYTES = 64;
const MAX_NOTE_BYTES = 16_384;
const MAX_SIGNATURES = 100;
const SIZE = /^(?:0|[1-9][0-9]{0,15})$/;
const BAD_NAME = /[\s+\u0085]/u;

export interface SignatureLine {
  name: string;
  id: string; // eight hexadecimal digits
  signature: Uint8Array;
}

export interface SignedHead {
  origin: string;
  size: number;
  root: Uint8Array;
  /** What is signed, with its last line end. */
  text: string;
  signatures: SignatureLine[];
  note: string;
}

/** The text is no signed head: the message says why. */
export class NoHead extends Error {}

export function keyDigest(name: string, key: Uint8Array): Uint8Array {
  return sha256(concat(utf8(name), Uint8Array.of(0x0a, ALGORITHM), key));
}

/** Eight hexadecimal digits. */
export function keyId(name: string, key: Uint8Array): string {
  return toHex(keyDigest(name, key).subarray(0, ID_BYTES));
}

export function verifierKeyText(name: string, key: Uint8Array): string {
  return `${name}+${keyId(name, key)}+${toBase64(concat(Uint8Array.of(ALGORITHM), key))}`;
}

/** Whether a text can name a key: not empty, without white space and plus signs. */
export function isKeyName(name: string): boolean {
  return name !== '' && !BAD_NAME.test(name);
}

/** A key from "name+id+key", whose id must be the key's; undefined for any other text. */
export function parseVerifierKey(text: string): { name: string; key: Uint8Array } | undefined {
  const parts = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/u.exec(text);
  if (!parts) return undefined;
  const [, name = '', id, encoded = ''] = parts;
  const bytes = fromBase64(encoded);
  if (!isKeyName(name) || bytes?.length !== KEY_BYTES + 1 || bytes[0] !== ALGORITHM) return undefined;
  const key = bytes.slice(1);
  return keyId(name, key) === id ? { name, key } : undefined;
}

function hasControls(note: string): boolean {
  for (const character of note) {
    if (character < ' ' && character !== '\n') return true;
  }
  return false;
}

/** Throws NoHead for a text that is not exactly a signed head. No signature is verified. */
export function readHead(note: string): SignedHead {
  if (utf8(note).length > MAX_NOTE_BYTES) throw new NoHead('it is too long');
  if (hasControls(note) || note.includes('\ufffd')) throw new NoHead('it is not UTF-8, or has control characters');
  const blank = note.lastIndexOf('\n\n');
  if (blank < 0 || blank + 2 === note.length || !note.endsWith('\n')) throw new NoHead('it has no signature');
  const text = note.slice(0, blank + 1);
  const signatures: SignatureLine[] = [];
  for (const line of note.slice(blank + 2, -1).split('\n')) {
    const signature = readSignature(line);
    if (!signature) throw new NoHead('a signature line is not “— name base64”');
    const isTwice = signatures.some(({ name, id }) => name === signature.name && id === signature.id);
    if (isTwice) throw new NoHead('it has two signatures by one key');
    if (signatures.length === MAX_SIGNATURES) throw new NoHead('it has more than 100 signatures');
    signatures.push(signature);
  }
  return { ...readText(text), text, signatures, note };
}

function readText(text: string): { origin: string; size: number; root: Uint8Array } {
  const lines = text.slice(0, -1).split('\n');
  const [origin = '', size = '', encoded = ''] = lines;
  if (origin === '') throw new NoHead('it has no origin');
  if (!SIZE.test(size) || !Number.isSafeInteger(Number(size))) throw new NoHead('its size is not a number');
  const root = fromBase64(encoded);
  if (root?.length !== HASH_BYTES) throw new NoHead('its root is not a hash');
  if (lines.some((line) => line === '')) throw new NoHead('it has an empty line');
  return { origin, size: Number(size), root };
}

function readSignature(line: string): SignatureLine | undefined {
  const parts = /^\u2014 ([^ ]+) ([^ ]+)$/u.exec(line);
  if (!parts) return undefined;
  const [, name = '', encoded = ''] = parts;
  const bytes = fromBase64(encoded);
  if (!isKeyName(name) || !bytes || bytes.length <= ID_BYTES) return undefined;
  return { name, id: toHex(bytes.subarray(0, ID_BYTES)), signature: bytes.slice(ID_BYTES) };
}

/** Whether the signature of `message` by an Ed25519 key verifies. */
export function isSigned(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (key.length !== KEY_BYTES || signature.length !== SIGNATURE_BYTES) return false;
  try {
    return ed25519.verify(signature, message, key, { zip215: false });
  } catch {
    return false; // bytes that are no point or no scalar
  }
}

export function sameHead(a: SignedHead, b: SignedHead): boolean {
  return a.origin === b.origin && a.size === b.size && sameBytes(a.root, b.root);
}
