// The evidence log of the mock: real entries under a real key, as docs/evidence.md specifies them.
import { createHash, createPrivateKey, createPublicKey, sign } from 'node:crypto';

const sha = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest();
const leafHash = (bytes) => sha(Buffer.from([0]), bytes);
const nodeHash = (left, right) => sha(Buffer.from([1]), left, right);

/** Canonical form of integers, strings, booleans, null, lists and objects. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(',')}}`;
}

const split = (n) => 2 ** (Math.ceil(Math.log2(n)) - 1); // the largest power of two below n

export class Log {
  constructor(entries, privateKey, name = 'driftgate.local/log') {
    this.entries = [...entries];
    this.leaves = this.entries.map((entry) => leafHash(Buffer.from(entry)));
    this.known = new Map(); // hashes of complete subtrees, by "begin-end"
    this.name = name;
    this.key = createPrivateKey(privateKey);
    this.raw = createPublicKey(this.key).export({ format: 'der', type: 'spki' }).subarray(-32);
    this.id = sha(`${name}\n`, Buffer.from([1]), this.raw).subarray(0, 4);
  }

  get size() { return this.entries.length; }
  get verifierKey() {
    return `${this.name}+${this.id.toString('hex')}+${Buffer.concat([Buffer.from([1]), this.raw]).toString('base64')}`;
  }

  append(entry) {
    const whole = { actor: 'driftgate', body: {}, subject: {}, ...entry, seq: this.size, v: 1 };
    const bytes = canonical(whole);
    this.entries.push(bytes);
    this.leaves.push(leafHash(Buffer.from(bytes)));
    return whole;
  }

  root(begin = 0, end = this.size) {
    if (end === begin) return sha('');
    if (end - begin === 1) return this.leaves[begin];
    const key = `${begin}-${end}`;
    const seen = this.known.get(key);
    if (seen) return seen;
    const k = split(end - begin);
    const hash = nodeHash(this.root(begin, begin + k), this.root(begin + k, end));
    if (Number.isInteger(Math.log2(end - begin))) this.known.set(key, hash);
    return hash;
  }

  path(seq, begin = 0, end = this.size) {
    if (end - begin === 1) return [];
    const k = split(end - begin);
    return seq < begin + k
      ? [...this.path(seq, begin, begin + k), this.root(begin + k, end)]
      : [...this.path(seq, begin + k, end), this.root(begin, begin + k)];
  }

  consistency(from, to) {
    const part = (m, begin, end, whole) => {
      if (m === end) return whole ? [] : [this.root(begin, end)];
      const k = split(end - begin);
      return m <= begin + k
        ? [...part(m, begin, begin + k, whole), this.root(begin + k, end)]
        : [...part(m, begin + k, end, false), this.root(begin, begin + k)];
    };
    return from === 0 || from === to ? [] : part(from, 0, to, true);
  }

  checkpoint(size = this.size) {
    const text = `${this.name}\n${size}\n${this.root(0, size).toString('base64')}\n`;
    const signature = Buffer.concat([this.id, sign(null, Buffer.from(text), this.key)]).toString('base64');
    return `${text}\n— ${this.name} ${signature}\n`;
  }

  proof(seq) {
    return {
      seq, tree_size: this.size, leaf_hash: this.leaves[seq].toString('hex'), root_hash: this.root().toString('hex'),
      path: this.path(seq).map((hash) => hash.toString('hex')), checkpoint: this.checkpoint(),
    };
  }

  consistencyProof(from, to) {
    return {
      from, to, path: this.consistency(from, to).map((hash) => hash.toString('hex')),
      root: this.root(0, to).toString('hex'), checkpoint: this.checkpoint(to), continuation: [],
    };
  }
}
