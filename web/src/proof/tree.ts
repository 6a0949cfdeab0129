// The Merkle tree of RFC 6962 and the proofs of RFC 9162, section 2.1. Sizes and indexes are integers up to 2^53 − 1,
// so nothing here uses the 32-bit operators of the language.

import { sha256 } from '@noble/hashes/sha2.js';
import { concat, sameBytes } from './bytes';

const HASH_BYTES = 32;
const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

export type Hash = Uint8Array;

export function leafHash(entry: Uint8Array): Hash {
  return sha256(concat(LEAF, entry));
}

export function nodeHash(left: Hash, right: Hash): Hash {
  return sha256(concat(NODE, left, right));
}

/** The root of a tree without leaves. */
export function emptyRoot(): Hash {
  return sha256(new Uint8Array());
}

/** The largest power of two below `size`, which is at least 2. */
function split(size: number): number {
  let half = 1;
  while (half * 2 < size) half *= 2;
  return half;
}

export function isSize(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function areHashes(path: readonly Hash[]): boolean {
  return path.every((hash) => hash.length === HASH_BYTES);
}

/**
 * The root of a tree of `size` leaves that follows from one leaf's hash and its inclusion path (leaf to root).
 * Undefined when the path has another length than such a proof has, or the leaf lies outside of the tree.
 */
export function rootFromPath(leaf: Hash, index: number, size: number, path: readonly Hash[]): Hash | undefined {
  if (!isSize(index) || !isSize(size) || index >= size || !areHashes(path)) return undefined;
  // The turns from the root down to the leaf: whether it lies on the left, one for each level.
  const isLeft: boolean[] = [];
  let at = index;
  let within = size;
  while (within > 1) {
    const half = split(within);
    const left = at < half;
    isLeft.push(left);
    if (left) {
      within = half;
    } else {
      at -= half;
      within -= half;
    }
  }
  if (isLeft.length !== path.length) return undefined;
  let hash = leaf;
  for (const sibling of path) hash = isLeft.pop() ? nodeHash(hash, sibling) : nodeHash(sibling, hash);
  return hash;
}

/**
 * Whether the tree of `newSize` leaves with `newRoot` continues the one of `oldSize` leaves with `oldRoot`, by a
 * consistency path.
 */
export function isContinuation(
  oldSize: number,
  newSize: number,
  oldRoot: Hash,
  newRoot: Hash,
  path: readonly Hash[],
): boolean {
  if (!isSize(oldSize) || !isSize(newSize) || oldSize > newSize || !areHashes(path)) return false;
  if (oldSize === 0) return path.length === 0 && sameBytes(oldRoot, emptyRoot());
  const rest = [...path];
  const roots = subtreeRoots(oldSize, newSize, oldRoot, true, rest);
  if (!roots || rest.length !== 0) return false;
  return sameBytes(roots.old, oldRoot) && sameBytes(roots.new, newRoot);
}

/** Roots of the first `oldSize` leaves of a subtree and of all of it; takes hashes off the end of `path`. */
function subtreeRoots(
  oldSize: number,
  size: number,
  oldRoot: Hash,
  isWhole: boolean,
  path: Hash[],
): { old: Hash; new: Hash } | undefined {
  if (oldSize === size) {
    // The old tree itself is not repeated in the path while it is the subtree in question.
    const root = isWhole ? oldRoot : path.pop();
    return root && { old: root, new: root };
  }
  const half = split(size);
  const sibling = path.pop();
  if (!sibling) return undefined;
  if (oldSize > half) {
    const right = subtreeRoots(oldSize - half, size - half, oldRoot, false, path);
    return right && { old: nodeHash(sibling, right.old), new: nodeHash(sibling, right.new) };
  }
  const left = subtreeRoots(oldSize, half, oldRoot, isWhole, path);
  return left && { old: left.old, new: nodeHash(left.new, sibling) };
}
