// A real log and a second, plain implementation of its tree: the definitions of RFC 6962 and RFC 9162 word for word,
// on Node's own crypto.

import { execFileSync } from 'node:child_process';
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

declare const __TEST_DIR__: string;

export const ROOT = join(__TEST_DIR__, '..', '..');

export interface Fixtures {
  entries: string[];
  key: string;
  head: string;
  trust: { keys: { use: string; name: string; key: string }[] };
}

let read: Fixtures | undefined;

/** What the programs of an older revision wrote: tests/vectors/folder_44abce1.tar.xz. */
export function fixtures(): Fixtures {
  if (read) return read;
  const folder = mkdtempSync(join(tmpdir(), 'driftgate-proof-'));
  try {
    const out = join(folder, 'fixtures.json');
    execFileSync('python3', [join(ROOT, 'tests', 'web', 'fixtures.py'), out]);
    read = JSON.parse(readFileSync(out, 'utf8')) as Fixtures;
    return read;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const sha = (...parts: Uint8Array[]) => parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest();
export const leafOf = (entry: Uint8Array) => sha(Uint8Array.of(0), entry);
const nodeOf = (left: Uint8Array, right: Uint8Array) => sha(Uint8Array.of(1), left, right);

function splitOf(n: number): number {
  let k = 1;
  while (k * 2 < n) k *= 2;
  return k;
}

/** MTH of RFC 6962, section 2.1. */
export function treeRoot(leaves: Uint8Array[]): Uint8Array {
  if (leaves.length === 0) return sha();
  if (leaves.length === 1) return leaves[0]!;
  const k = splitOf(leaves.length);
  return nodeOf(treeRoot(leaves.slice(0, k)), treeRoot(leaves.slice(k)));
}

/** PATH of RFC 9162, section 2.1.3. */
export function inclusion(m: number, leaves: Uint8Array[]): Uint8Array[] {
  if (leaves.length === 1) return [];
  const k = splitOf(leaves.length);
  return m < k
    ? [...inclusion(m, leaves.slice(0, k)), treeRoot(leaves.slice(k))]
    : [...inclusion(m - k, leaves.slice(k)), treeRoot(leaves.slice(0, k))];
}

/** PROOF of RFC 9162, section 2.1.4. */
export function consistency(m: number, leaves: Uint8Array[]): Uint8Array[] {
  const sub = (size: number, part: Uint8Array[], isWhole: boolean): Uint8Array[] => {
    if (size === part.length) return isWhole ? [] : [treeRoot(part)];
    const k = splitOf(part.length);
    return size <= k
      ? [...sub(size, part.slice(0, k), isWhole), treeRoot(part.slice(k))]
      : [...sub(size - k, part.slice(k), false), treeRoot(part.slice(0, k))];
  };
  return m === 0 ? [] : sub(m, leaves, true);
}

export const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

export class TestKey {
  readonly raw: Uint8Array;
  readonly id: Uint8Array;
  constructor(private readonly key: KeyObject, readonly name: string) {
    this.raw = createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32);
    this.id = sha(Buffer.from(`${name}\n`), Uint8Array.of(1), this.raw).subarray(0, 4);
  }
  static fromPem(pem: string, name: string) { return new TestKey(createPrivateKey(pem), name); }
  static fresh(name: string) { return new TestKey(generateKeyPairSync('ed25519').privateKey, name); }
  get text() {
    return `${this.name}+${hex(this.id)}+${Buffer.concat([Uint8Array.of(1), this.raw]).toString('base64')}`;
  }
  signature(text: string): string {
    return `— ${this.name} ${Buffer.concat([this.id, sign(null, Buffer.from(text), this.key)]).toString('base64')}\n`;
  }
}

export class TestLog {
  readonly bytes: Buffer[];
  readonly leaves: Uint8Array[];
  constructor(entries: string[], readonly key: TestKey) {
    this.bytes = entries.map((entry) => Buffer.from(entry));
    this.leaves = this.bytes.map(leafOf);
  }
  get size() { return this.bytes.length; }
  head(size = this.size, key = this.key): string {
    const root = Buffer.from(treeRoot(this.leaves.slice(0, size))).toString('base64');
    const text = `${key.name}\n${size}\n${root}\n`;
    return `${text}\n${key.signature(text)}`;
  }
  proof(seq: number, size = this.size) {
    const leaves = this.leaves.slice(0, size);
    return { seq, tree_size: size, leaf_hash: hex(leaves[seq]!), root_hash: hex(treeRoot(leaves)),
      path: inclusion(seq, leaves).map(hex), checkpoint: this.head(size) };
  }
  consistency(from: number, to = this.size) {
    const leaves = this.leaves.slice(0, to);
    return { from, to, path: consistency(from, leaves).map(hex), root: hex(treeRoot(leaves)), checkpoint: this.head(to), continuation: [] };
  }
}

export function realLog(): TestLog {
  const { entries, key } = fixtures();
  return new TestLog(entries, TestKey.fromPem(key, 'driftgate.local/log'));
}

/** Numbers that look random and are the same in every run (xorshift32). */
export function numbersFrom(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % below;
  };
}
