// Checks one entry as far as it can be checked here: its bytes, its leaf, the path to the root, the head, who signed
// the head, and whether the log continues the head that this browser kept. Whether a verdict follows from its numbers
// is for the verifiers of bundles to say (docs/evidence.md).
// Nothing in this file asks anybody anything: what was answered is handed in, and every part of it may be forged.

import { sameBytes, toHex } from './bytes';
import { NotCanonical } from './canonical';
import { type LogEntry, PROMOTION, readEntry } from './entry';
import { type Continuity, judgeContinuity, type KeptHead, readPath } from './heads';
import { NoHead, readHead, type SignedHead } from './note';
import { step, type Step } from './steps';
import { emptyRoot, isSize, leafHash, rootFromPath } from './tree';
import { judgeSignature, type Rotation, type Signed, type TrustedKey, withRotations } from './trust';

export interface Checked {
  steps: Step[];
  /** broken: some step is; open: none is, and some could not be made; good: all that are made here hold. */
  state: 'good' | 'broken' | 'open';
  entry?: LogEntry;
  head?: SignedHead;
  signed?: Signed;
  continuity?: Continuity;
  /** Time that the checks took, without waiting for answers. */
  ms: number;
}

/** What the server answered. */
export interface Material {
  seq: number;
  entry: Uint8Array;
  /** The answer of GET /v1/log/proof/{seq}. */
  proof: unknown;
  /** The answer of GET /v1/log/consistency from the kept head's size to the proof's. */
  consistency?: unknown;
  /** What a list on the page showed of the entry. */
  listed?: { kind: string; time_us: number; actor?: string };
}

export interface Pinned {
  keys: readonly TrustedKey[];
  rotations: readonly Rotation[];
  kept?: KeptHead;
  /** Whether the kept head was seen after the head that is checked was asked for. */
  isKeptSince?: boolean;
}

export interface InclusionProof {
  seq: number;
  treeSize: number;
  leaf: string;
  root: string;
  path: Uint8Array[];
  note: string;
}

/** The members of a proof as the API gives it; undefined when it has another form. */
export function readProof(proof: unknown): InclusionProof | undefined {
  if (typeof proof !== 'object' || proof === null) return undefined;
  const { seq, tree_size, leaf_hash, root_hash, path, checkpoint } = proof as Record<string, unknown>;
  const hashes = readPath(path);
  if (!hashes || !isSize(seq) || !isSize(tree_size)) return undefined;
  if (typeof leaf_hash !== 'string' || typeof root_hash !== 'string' || typeof checkpoint !== 'string') return undefined;
  return { seq, treeSize: tree_size, leaf: leaf_hash, root: root_hash, path: hashes, note: checkpoint };
}

/** Makes every check. It throws nothing: what is forged is broken. */
export function checkEntry(material: Material, pinned: Pinned, now: () => number = () => performance.now()): Checked {
  const began = now();
  const steps: Step[] = [];
  const entry = checkBytes(material, steps);
  const proof = readProof(material.proof);
  const head = proof ? checkInclusion(material, proof, steps) : undefined;
  if (!proof) {
    steps.push(step('leaf', 'open', 'There is no proof to compare the leaf with.'));
    steps.push(step('path', 'broken', 'The proof does not have the form of an inclusion proof.'));
    steps.push(step('head', 'open', 'The proof names no head.'));
  }
  const judged = checkHead(head, pinned, material.consistency, entry?.time_us ?? 0, steps);
  if (entry) steps.push(ruleStep(entry));
  const isBroken = steps.some(({ state }) => state === 'broken');
  const isOpen = steps.some(({ state }) => state === 'open');
  return {
    steps,
    state: isBroken ? 'broken' : isOpen ? 'open' : 'good',
    ...(entry ? { entry } : {}),
    ...(head ? { head } : {}),
    ...judged,
    ms: now() - began,
  };
}

function checkBytes({ seq, entry, listed }: Material, steps: Step[]): LogEntry | undefined {
  try {
    const read = readEntry(entry);
    if (read.seq !== seq) {
      steps.push(step('entry', 'broken', `These are the bytes of entry ${read.seq}, not of entry ${seq}.`));
      return undefined;
    }
    const isListed = !listed || (listed.kind === read.kind && listed.time_us === read.time_us
      && (listed.actor === undefined || listed.actor === read.actor));
    if (!isListed) {
      steps.push(step('entry', 'broken', 'The list showed another kind, time or actor than these bytes say.'));
      return read;
    }
    steps.push(step('entry', 'good', `${entry.length.toLocaleString('en')} bytes, in the canonical form to the byte.`));
    return read;
  } catch (error) {
    if (!(error instanceof NotCanonical)) throw error;
    steps.push(step('entry', 'broken', `These bytes are no entry: ${error.message}.`));
    return undefined;
  }
}

/** Leaf, path and head; gives the head when it can be read, whether it fits or not. */
function checkInclusion(material: Material, proof: InclusionProof, steps: Step[]): SignedHead | undefined {
  const leaf = leafHash(material.entry);
  const isLeaf = toHex(leaf) === proof.leaf;
  steps.push(isLeaf
    ? step('leaf', 'good', `SHA-256 of these bytes as a leaf is ${proof.leaf}.`)
    : step('leaf', 'broken', `These bytes make the leaf ${toHex(leaf)}, and the log has ${proof.leaf}: a byte differs.`));
  const root = rootFromPath(leaf, material.seq, proof.treeSize, proof.path);
  steps.push(checkPath(material.seq, proof, root));
  let head: SignedHead;
  try {
    head = readHead(proof.note);
  } catch (error) {
    if (!(error instanceof NoHead)) throw error;
    steps.push(step('head', 'broken', `The head cannot be read: ${error.message}.`));
    return undefined;
  }
  const entries = head.size.toLocaleString('en');
  if (head.size !== proof.treeSize) {
    steps.push(step('head', 'broken', `The head is of ${entries} entries, and the proof of ${proof.treeSize}.`));
  } else if (!root || !sameBytes(root, head.root)) {
    steps.push(step('head', 'broken', `The head of ${entries} entries has another root than the one computed here.`));
  } else {
    steps.push(step('head', 'good', `The head of ${head.origin} with ${entries} entries has the root computed here.`));
  }
  return head;
}

function checkPath(seq: number, proof: InclusionProof, root: Uint8Array | undefined): Step {
  if (proof.seq !== seq) return step('path', 'broken', `The proof is of entry ${proof.seq}, not of entry ${seq}.`);
  if (!root) return step('path', 'broken', `The path does not have the length of one in a tree of ${proof.treeSize} entries.`);
  const hashes = `${proof.path.length} ${proof.path.length === 1 ? 'hash' : 'hashes'}`;
  return toHex(root) === proof.root
    ? step('path', 'good', `The leaf and ${hashes} beside it make the root ${proof.root}.`)
    : step('path', 'broken', `The leaf and ${hashes} beside it make the root ${toHex(root)}, not ${proof.root}.`);
}

/** Who signed a head, and what it is beside the kept one. */
export function checkHead(
  head: SignedHead | undefined, pinned: Pinned, consistency: unknown, newestUs: number, steps: Step[],
): { signed?: Signed; continuity?: Continuity } {
  if (!head) {
    steps.push(step('signature', 'open', 'Without a head there is no signature.'));
    return {};
  }
  const keys = withRotations(pinned.keys, pinned.rotations);
  const signed = judgeSignature(head, keys, newestUs);
  steps.push(signatureStep(signed, pinned.rotations));
  if (head.size === 0 && !sameBytes(head.root, emptyRoot())) {
    steps.push(step('head', 'broken', 'The head of an empty log has a root that no empty log has.'));
  }
  const continuity = judgeContinuity(pinned.kept?.head, head, readConsistency(consistency), pinned.isKeptSince);
  steps.push(keptStep(continuity, head, pinned.kept));
  return { signed, continuity };
}

function readConsistency(answer: unknown) {
  if (typeof answer !== 'object' || answer === null) return undefined;
  const { from, to, path } = answer as Record<string, unknown>;
  // A proof that cannot be read proves nothing, and is not taken for one that was not given.
  return { from: isSize(from) ? from : -1, to: isSize(to) ? to : -1, path: readPath(path) ?? [new Uint8Array()] };
}

function signatureStep(signed: Signed, rotations: readonly Rotation[]): Step {
  switch (signed.state) {
    case 'good':
      return step('signature', 'good', `Signed by the key ${signed.key.id} that you pinned.`);
    case 'bad':
      return step('signature', 'broken', `It names your key ${signed.key.id}, and is not that key’s signature of this head.`);
    case 'retired':
      return step('signature', 'broken', `Signed by the key ${signed.key.id}, which was retired before: pin the one that followed it.`);
    case 'other log':
      return step('signature', 'broken', 'The head is of another log than the keys that you pinned.');
    case 'other key': {
      const by = signed.ids.length > 0 ? signed.ids.join(', ') : 'nobody';
      const next = rotations.find((one) => signed.ids.includes(one.newId));
      const said = next
        ? ` The log says that this key replaced ${next.oldId} at ${next.fromSize.toLocaleString('en')} entries: get the new one by the way you got the first, and pin it too.`
        : '';
      return step('signature', 'broken', `Signed by ${by}, which is no key that you pinned for a log of this size.${said}`);
    }
    case 'no key':
      return step('signature', 'open', 'No key is pinned: who runs this host could have made up a log that fits. Pin the log’s key, got by another way than from here.');
  }
}

function keptStep(continuity: Continuity, head: SignedHead, kept: KeptHead | undefined): Step {
  const size = head.size.toLocaleString('en');
  const before = kept?.head.size.toLocaleString('en') ?? '';
  switch (continuity) {
    case 'first':
      return step('kept', 'none', 'This browser has kept no head of this log before; it keeps this one if everything else holds.');
    case 'same':
      return step('kept', 'good', `It is the newest head that this browser has kept, of ${size} entries.`);
    case 'continues':
      return step('kept', 'good', `The log of ${size} entries continues the ${before} that this browser has kept the head of.`);
    case 'unproven':
      return step('kept', 'open', `There is no proof yet that the log of ${size} entries continues the ${before} kept before.`);
    case 'rollback':
      return step('kept', 'broken', `Rollback: this head has ${size} entries, and this browser has kept one of ${before}. Entries were taken away, or an old copy of the log is shown.`);
    case 'fork':
      return step('kept', 'broken', `Fork: the log of ${size} entries does not continue the ${before} that this browser has kept the head of. Its history was rewritten.`);
    case 'before':
      return step('kept', 'good', `The newest head that this browser has kept, of ${before} entries, was seen meanwhile and continues it.`);
    case 'other log':
      return step('kept', 'none', 'The kept head is of another log.');
  }
}

/** Names what checks a verdict: this page does not know the rules. */
function ruleStep({ kind, subject: { promotion } }: LogEntry): Step {
  if (kind !== 'verdict_reached') return step('rule', 'none', 'This entry records what happened and decides nothing.');
  // The commands are copied into a shell, and the name in them is the entry's.
  if (promotion === undefined || !PROMOTION.test(promotion)) {
    return step('rule', 'elsewhere', 'The rule is not checked here, and the entry names no promotion whose bundle could be exported to check it.');
  }
  const bundle = `${promotion}.bundle`;
  const text = 'The rule is not checked here: export the promotion’s bundle and give it to either verifier, with --running while the promotion has not ended.';
  return step('rule', 'elsewhere', text, [
    `driftgate audit export --promotion ${promotion} --out ${bundle}`,
    `driftgate audit verify ${bundle} --trust trust.json`,
    `scripts/verify_bundle.py --trust trust.json ${bundle}`,
  ]);
}
