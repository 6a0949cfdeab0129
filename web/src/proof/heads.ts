// The newest head that this browser has kept, and what another head is beside it. A log that anybody could rewrite
// unseen is worth little: whoever keeps a head notices when the log is shown shorter or other than it was.

import { fromHex, sameBytes } from './bytes';
import { NoHead, readHead, type SignedHead } from './note';
import { isContinuation } from './tree';

/** The part of localStorage that is used here. */
export interface Shelf {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

export interface KeptHead {
  head: SignedHead;
  seenUs: number;
  /** The id of the pinned key that had signed it when it was kept; '' when none was pinned. */
  signedBy: string;
}

const HEADS = 'driftgate.heads';
const KEYS = 'driftgate.keys';

interface Stored {
  note: string;
  seenUs: number;
  signedBy: string;
}

/** One shelf is of one origin: what another daemon shows lies on another. */
export class HeadShelf {
  constructor(private readonly shelf: Shelf) {}

  private read(): Stored[] {
    try {
      const stored: unknown = JSON.parse(this.shelf.getItem(HEADS) ?? '[]');
      return Array.isArray(stored) ? (stored as Stored[]) : [];
    } catch {
      return [];
    }
  }

  /** All kept heads, one for each log, the one seen last in front. */
  all(): KeptHead[] {
    const found: KeptHead[] = [];
    for (const { note, seenUs, signedBy } of this.read()) {
      try {
        found.push({ head: readHead(note), seenUs, signedBy });
      } catch (error) {
        if (!(error instanceof NoHead)) throw error;
      }
    }
    return found.sort((a, b) => b.seenUs - a.seenUs);
  }

  find(origin: string): KeptHead | undefined {
    return this.all().find(({ head }) => head.origin === origin);
  }

  /** Replaces the kept head of the same log. False when the browser keeps nothing. */
  keep(kept: KeptHead): boolean {
    const others = this.all().filter(({ head }) => head.origin !== kept.head.origin);
    const stored = [kept, ...others].map(({ head, seenUs, signedBy }) => ({ note: head.note, seenUs, signedBy }));
    return put(this.shelf, HEADS, JSON.stringify(stored));
  }

  forget(origin: string): void {
    const others = this.all().filter(({ head }) => head.origin !== origin);
    const stored = others.map(({ head, seenUs, signedBy }) => ({ note: head.note, seenUs, signedBy }));
    put(this.shelf, HEADS, JSON.stringify(stored));
  }

  /** The text of the pinned keys; '' without any. */
  keysText(): string {
    try {
      return this.shelf.getItem(KEYS) ?? '';
    } catch {
      return '';
    }
  }

  pin(text: string): boolean {
    return put(this.shelf, KEYS, text);
  }

  unpin(): void {
    try {
      this.shelf.removeItem(KEYS);
    } catch {
      // A browser that keeps nothing has nothing to forget.
    }
  }
}

function put(shelf: Shelf, key: string, value: string): boolean {
  try {
    shelf.setItem(key, value);
    return true;
  } catch {
    return false;
  }
}

/** A consistency proof as the API gives it, and as it is used. */
export interface ConsistencyProof {
  from: number;
  to: number;
  path: Uint8Array[];
}

export type Continuity =
  | 'first' // nothing was kept
  | 'same'
  | 'continues'
  | 'before' // shorter than what was kept after it was asked for, and continued by that
  | 'rollback' // shorter than what was kept
  | 'fork' // not a continuation of what was kept
  | 'unproven' // longer than what was kept, and no proof is at hand
  | 'other log';

/**
 * What a head is beside the kept one. `isKeptSince`: the kept head was seen after `shown` was asked for, so that `shown`
 * may be shorter; `proof` is then the one from `shown` to the kept head.
 */
export function judgeContinuity(
  kept: SignedHead | undefined,
  shown: SignedHead,
  proof: ConsistencyProof | undefined,
  isKeptSince = false,
): Continuity {
  if (!kept) return 'first';
  if (kept.origin !== shown.origin) return 'other log';
  if (shown.size < kept.size) {
    if (!isKeptSince) return 'rollback';
    if (!proof) return 'unproven';
    if (proof.from !== shown.size || proof.to !== kept.size) return 'fork';
    return isContinuation(shown.size, kept.size, shown.root, kept.root, proof.path) ? 'before' : 'fork';
  }
  if (shown.size === kept.size) return sameBytes(kept.root, shown.root) ? 'same' : 'fork';
  if (!proof) return 'unproven';
  if (proof.from !== kept.size || proof.to !== shown.size) return 'fork';
  return isContinuation(kept.size, shown.size, kept.root, shown.root, proof.path) ? 'continues' : 'fork';
}

/** The hashes of a list of hexadecimal texts; undefined when one is none. */
export function readPath(path: unknown): Uint8Array[] | undefined {
  if (!Array.isArray(path)) return undefined;
  const hashes: Uint8Array[] = [];
  for (const text of path as unknown[]) {
    const hash = typeof text === 'string' && text.length === 64 ? fromHex(text) : undefined;
    if (!hash) return undefined;
    hashes.push(hash);
  }
  return hashes;
}
