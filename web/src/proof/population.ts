// Whether the answer to an audit of a range of time is complete: the range is a run of leaves between two roots, each of
// which a signed head vouches for, and one of which continues the other (docs/api.md, AuditPopulation).

import { fromHex, sameBytes } from './bytes';
import { readPath } from './heads';
import { NoHead, readHead, type SignedHead } from './note';
import { step, type Step } from './steps';
import { isContinuation, isSize } from './tree';
import { judgeSignature, type TrustedKey } from './trust';

type Answer = Record<string, unknown>;

interface End {
  size: number;
  root: Uint8Array;
  head: SignedHead;
  continuation: Uint8Array[];
}

function readEnd(answer: Answer, side: 'from' | 'to'): End | undefined {
  const [size, root, note] = [answer[`${side}_size`], answer[`${side}_root`], answer[`${side}_checkpoint`]];
  const continuation = readPath(answer[`${side}_continuation`]);
  const bytes = typeof root === 'string' && root.length === 64 ? fromHex(root) : undefined;
  if (!isSize(size) || !bytes || !continuation || typeof note !== 'string') return undefined;
  try {
    return { size, root: bytes, head: readHead(note), continuation };
  } catch (error) {
    if (error instanceof NoHead) return undefined;
    throw error;
  }
}

/** Why a signed head does not vouch for the root of an end; '' when it does. */
function endFault({ size, root, head, continuation }: End): string {
  const entries = size.toLocaleString('en');
  if (head.size === size && continuation.length === 0) {
    return sameBytes(head.root, root) ? '' : `The head of ${entries} entries has another root.`;
  }
  const isVouched = isContinuation(size, head.size, root, head.root, continuation);
  return isVouched ? '' : `The head of ${head.size.toLocaleString('en')} entries does not continue the first ${entries}.`;
}

/** The checks of one answer's `completeness`. `newestUs`: until when the keys must have been in force. */
export function checkCompleteness(completeness: unknown, keys: readonly TrustedKey[], newestUs: number): Step[] {
  const answer = typeof completeness === 'object' && completeness !== null ? (completeness as Answer) : {};
  const [from, to, path] = [readEnd(answer, 'from'), readEnd(answer, 'to'), readPath(answer['path'])];
  if (!from || !to || !path) return [step('path', 'broken', 'The proof of completeness does not have the form of one.')];
  const isWhole = isContinuation(from.size, to.size, from.root, to.root, path);
  const range = `entries ${from.size.toLocaleString('en')} to ${(to.size - 1).toLocaleString('en')}`;
  const fault = endFault(from) || endFault(to);
  return [
    isWhole
      ? step('path', 'good', `The range is ${from.size === to.size ? 'empty' : range}: the log up to its end continues the log up to its beginning.`)
      : step('path', 'broken', 'The log up to the end of the range does not continue the log up to its beginning.'),
    fault ? step('head', 'broken', fault) : step('head', 'good', 'Signed heads vouch for both ends.'),
    step('entry', 'open', `That entries ${from.size.toLocaleString('en')} to ${to.size.toLocaleString('en')} are those of the times asked for is not checked here: verify the bundle of this range.`),
    signatureOf([from.head, to.head], keys, newestUs),
  ];
}

function signatureOf(heads: SignedHead[], keys: readonly TrustedKey[], newestUs: number): Step {
  const states = heads.map((head) => judgeSignature(head, keys, newestUs).state);
  if (states.includes('no key')) return step('signature', 'open', 'No key is pinned, so who signed the heads is not checked.');
  return states.every((state) => state === 'good')
    ? step('signature', 'good', 'Both heads are signed by a key that you pinned.')
    : step('signature', 'broken', 'A head is not signed by a key that you pinned for a log of its size.');
}
