"""Bundles as Python objects, the log that they came from, and how both are hashed and signed anew."""
import base64
import copy
import dataclasses
import hashlib
import json
import os

from ed25519 import Signer

OK, TAMPERED, FORKED, UNTRUSTED, INCOMPLETE, UNDERIVABLE = range(6)
COUNTED = (("entries", "entry"), ("attestations", "attestation"), ("blobs", "blob"))


def compact(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha(data):
    return hashlib.sha256(data).digest()


@dataclasses.dataclass
class Case:
    """A changed bundle, and what verifiers may say of it. `meaning`: why it may be accepted (docs/evidence.md)."""
    data: bytes
    allowed: set
    what: str
    meaning: str = ""
    older: bool = True  # verified with the older head
    tables: bool = False  # it has tables, from which the program decides again
    running: bool | None = None  # verified with --running; None: when the bundle is of a promotion that still runs


class Tree:
    """A tree over known leaves, by the definitions of RFC 9162, section 2.1."""

    def __init__(self, leaves):
        self.leaves = leaves
        self.kept = {}

    def root(self, begin, end):
        if (begin, end) not in self.kept:
            if begin == end:
                value = sha(b"")
            elif end - begin == 1:
                value = self.leaves[begin]
            else:
                middle = begin + (1 << (end - begin - 1).bit_length() - 1)
                value = sha(b"\1" + self.root(begin, middle) + self.root(middle, end))
            self.kept[begin, end] = value
        return self.kept[begin, end]

    def path(self, index, begin, end):
        if end - begin == 1:
            return []
        middle = begin + (1 << (end - begin - 1).bit_length() - 1)
        if index < middle:
            return self.path(index, begin, middle) + [self.root(middle, end)]
        return self.path(index, middle, end) + [self.root(begin, middle)]

    def extension(self, old, begin, end, whole=True):
        """The consistency proof from the first `old` leaves of [begin, end)."""
        if old == end - begin:
            return [] if whole else [self.root(begin, end)]
        middle = begin + (1 << (end - begin - 1).bit_length() - 1)
        if old <= middle - begin:
            return self.extension(old, begin, middle, whole) + [self.root(middle, end)]
        return self.extension(old - (middle - begin), middle, end, False) + [self.root(begin, middle)]

    def beside(self, begin, end):
        """The fewest complete subtrees that cover [begin, end)."""
        found = []
        while begin < end:
            size = min(begin & -begin or 1 << 62, 1 << (end - begin).bit_length() - 1)
            found.append(self.root(begin, begin + size))
            begin += size
        return found


class Bundle:
    def __init__(self, data, running=False):
        self.running = running  # of a promotion that still runs
        self.records = [json.loads(line) for line in data.decode().split("\n")[:-1]]

    def copy(self):
        made = Bundle(b"", self.running)
        made.records = copy.deepcopy(self.records)
        return made

    def seal(self, recount=True):
        """Gives the end the counts and the digest of the lines before it, as anybody can."""
        end = self.records[-1]
        if end["t"] != "end":
            return self
        if recount:
            end.update({name: len(self.of(kind)) for name, kind in COUNTED})
        end["digest"] = "sha256:" + sha("".join(compact(record) + "\n" for record in self.records[:-1]).encode()).hex()
        return self

    def lines(self):
        return [compact(record) for record in self.records]

    def data(self, recount=True):
        return "".join(line + "\n" for line in self.seal(recount).lines()).encode()

    def of(self, kind):
        return [record for record in self.records if record["t"] == kind]

    @property
    def header(self):
        return self.records[0]

    @property
    def single(self):
        return "promotion" in self.header


def sealed(lines):
    """The bytes of lines (bytes without their ends) whose last one, the end, is given the digest of those before it."""
    end = json.loads(lines[-1])
    body = b"".join(line + b"\n" for line in lines[:-1])
    end["digest"] = "sha256:" + sha(body).hex()
    return body + compact(end).encode() + b"\n"


class World:
    """What is known about the log that the bundles came from: every entry's bytes, and the keys."""

    def __init__(self, folder, whole_log):
        with open(os.path.join(folder, "older.note"), encoding="utf-8") as file:
            self.older_size = int(file.read().split("\n")[1])
        self.log_key = Signer.load(os.path.join(folder, "log.key"))
        self.attestation_key = Signer.load(os.path.join(folder, "attestation.key"))
        self.foreign_key = Signer(sha(b"a key that nobody trusts"))
        log = Bundle(whole_log)
        self.origin = log.header["origin"]
        self.entries = [record["entry"] for record in log.of("entry")]
        self.leaves = [sha(b"\0" + entry.encode()) for entry in self.entries]
        self.tree = Tree(self.leaves)

    def note(self, origin, size, root, key=None, more=""):
        """A signed head; `more`: extension lines."""
        text = f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n{more}"
        return f"{text}\n{self.signature_line(origin, text, key or self.log_key)}"

    @staticmethod
    def signature_line(name, text, key, key_id=None):
        signature = (key_id or key.key_id(name)) + key.sign(text.encode())
        return f"\u2014 {name} {base64.b64encode(signature).decode()}\n"

    def rebuild(self, bundle, changed, key=None, size=None):
        """Puts entries changed with the keys at hand ({seq: text}) under a new tree, head and new proofs; `size`: of the
        new tree, that of the bundle without one."""
        size = size or bundle.header["tree_size"]
        leaves = self.leaves[:size]
        for seq, entry in changed.items():
            leaves[seq] = sha(b"\0" + entry.encode())
        tree = Tree(leaves)
        origin = bundle.header["origin"]
        bundle.header["tree_size"] = size
        bundle.header["checkpoint"] = self.note(origin, size, tree.root(0, size), key)
        bundle.records = [record for record in bundle.records if record["t"] != "entry" or record["seq"] < size]
        for record in bundle.of("entry"):
            record["entry"] = changed.get(record["seq"], record["entry"])
            if "proof" in record:
                record["proof"] = [part.hex() for part in tree.path(record["seq"], 0, size)]
        for record in bundle.of("consistency"):
            record["size"] = min(record["size"], size)
            record["proof"] = [part.hex() for part in tree.extension(record["size"], 0, size)]
            record["root"] = tree.root(0, record["size"]).hex()
        for record in bundle.of("range"):
            record["end"] = min(record["end"], size)
            record["left"] = [part.hex() for part in tree.beside(0, record["first"])]
            record["right"] = [part.hex() for part in tree.beside(record["end"], size)]
        return bundle

    def codes(self, seqs, *codes):
        """Who changes what the kept head covers is found out by it first."""
        return {FORKED} if min(seqs) < self.older_size else set(codes)

    def seal_statement(self, record, payload, key=None, key_id=None):
        """Signs an attestation's statement; `key_id`: what the envelope says, that of the key without one."""
        key, envelope = key or self.attestation_key, record["envelope"]
        kind = envelope["payloadType"]
        message = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
        envelope["payload"] = base64.b64encode(payload).decode()
        envelope["signatures"] = [{"keyid": key_id or key.digest(self.origin).hex(),
                                   "sig": base64.b64encode(key.sign(message)).decode()}]


def change_text(rng, value):
    at = rng.randrange(len(value)) if value else 0
    letter = rng.choice("abcdef0123456789")
    changed = value[:at] + letter + value[at + 1:]
    return changed if changed != value else value + "0"


def change_leaf_value(rng, value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, abs(value - 1) if value != 1 else 0, value + 1000]) if value else 1
    if value is None:
        return 0
    return change_text(rng, value)


def places(value, path=()):
    """Paths to every member that is neither an object nor a list with something in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None or not value:
        yield path
        return
    for key, item in items:
        yield from places(item, path + (key,))


def at_path(value, path):
    for step in path[:-1]:
        value = value[step]
    return value, path[-1]
