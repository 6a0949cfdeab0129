"""Seeded mutations of bundles: each makes one that no verifier may accept, and says with which codes it must be refused.

A mutation without keys changes lines; one with the keys at hand changes an entry and makes everything anew that hangs on it:
leaf, tree, proofs, head, attestations' signatures, digest of the lines.
"""
import base64
import copy
import hashlib
import json
import os
import random
import subprocess
import tempfile

TAMPERED, FORKED, UNTRUSTED, INCOMPLETE, UNDERIVABLE = 1, 2, 3, 4, 5


def compact(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha(data):
    return hashlib.sha256(data).digest()


class Signer:
    """An Ed25519 key in a PEM file, used by the openssl command."""

    def __init__(self, path):
        self.path = path
        der = subprocess.run(["openssl", "pkey", "-in", path, "-pubout", "-outform", "DER"], check=True,
                             capture_output=True).stdout
        self.raw = der[-32:]

    def sign(self, message):
        with tempfile.NamedTemporaryFile() as file:
            file.write(message)
            file.flush()
            return subprocess.run(["openssl", "pkeyutl", "-sign", "-inkey", self.path, "-rawin", "-in", file.name],
                                  check=True, capture_output=True).stdout

    def key_id(self, name):
        return sha(name.encode() + b"\n\1" + self.raw)[:4]


def fresh_key(folder, name):
    path = os.path.join(folder, name)
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path], check=True, capture_output=True)
    return Signer(path)


# --- a tree over known leaves, by the definitions of RFC 9162, section 2.1
class Tree:
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


class Bundle:
    def __init__(self, data):
        self.records = [json.loads(line) for line in data.decode().splitlines()]

    def copy(self):
        made = Bundle(b"")
        made.records = copy.deepcopy(self.records)
        return made

    def data(self, seal=True, recount=False):
        """The bytes; with `seal` the digest in the end is that of the lines."""
        if recount:
            for name, kind in (("entries", "entry"), ("attestations", "attestation"), ("blobs", "blob")):
                self.records[-1][name] = len(self.of(kind))
        body = "".join(compact(record) + "\n" for record in self.records[:-1]).encode()
        if not self.records or self.records[-1]["t"] != "end":
            return "".join(compact(record) + "\n" for record in self.records).encode()
        if seal:
            self.records[-1]["digest"] = "sha256:" + sha(body).hex()
        return body + (compact(self.records[-1]) + "\n").encode()

    def of(self, kind):
        return [record for record in self.records if record["t"] == kind]


class World:
    """What is known about the log that the bundles came from: every entry's bytes, and the keys."""

    def __init__(self, folder, whole_log):
        with open(os.path.join(folder, "older.note"), encoding="utf-8") as file:
            self.older_size = int(file.read().split("\n")[1])
        self.log_key = Signer(os.path.join(folder, "log.key"))
        self.attestation_key = Signer(os.path.join(folder, "attestation.key"))
        self.foreign_key = fresh_key(folder, "foreign.key")
        self.entries = [record["entry"] for record in Bundle(whole_log).of("entry")]

    def rebuild(self, bundle, changed, head_key=None):
        """Puts entries changed with the keys at hand ({seq: bytes}) under a new tree, head and new proofs."""
        size = bundle.records[0]["tree_size"]
        leaves = [sha(b"\0" + changed.get(seq, entry).encode()) for seq, entry in enumerate(self.entries[:size])]
        tree = Tree(leaves)
        origin = bundle.records[0]["origin"]
        text = f"{origin}\n{size}\n{base64.b64encode(tree.root(0, size)).decode()}\n"
        key = head_key or self.log_key
        signature = base64.b64encode(key.key_id(origin) + key.sign(text.encode())).decode()
        bundle.records[0]["checkpoint"] = f"{text}\n\u2014 {origin} {signature}\n"
        for record in bundle.of("entry"):
            record["entry"] = changed.get(record["seq"], record["entry"])
            if "proof" in record:
                record["proof"] = [part.hex() for part in tree.path(record["seq"], 0, size)]
        for record in bundle.of("consistency"):
            record["proof"] = [part.hex() for part in tree.extension(record["size"], 0, size)]
            record["root"] = tree.root(0, record["size"]).hex()
        return bundle

    def codes(self, seq, code):
        """Who changes what the kept head covers is found out by it first."""
        return {FORKED if seq < self.older_size else code}

    def sign_statement(self, record, payload, key=None):
        key = key or self.attestation_key
        kind = record["envelope"]["payloadType"]
        message = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
        name = record["envelope"]["signatures"][0]["keyid"].rpartition("+")[0]
        record["envelope"]["payload"] = base64.b64encode(payload).decode()
        record["envelope"]["signatures"][0] = {"keyid": f"{name}+{key.key_id(name).hex()}",
                                               "sig": base64.b64encode(key.sign(message)).decode()}


# --- mutations: each takes (random, world, bundle) and gives (bytes, allowed codes, what was done)
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


def flip_bit(rng, world, bundle):
    data = bytearray(bundle.data())
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    return bytes(data), {TAMPERED, UNTRUSTED, INCOMPLETE}, f"bit flipped in byte {at}"


def cut(rng, world, bundle):
    data = bundle.data()
    at = rng.randrange(len(data))
    return data[:at], {INCOMPLETE, TAMPERED}, f"cut after {at} bytes"


def change_field(rng, world, bundle):
    """Any member of any line, with the digest of the lines made anew."""
    record = rng.choice(bundle.records[:-1])
    path = rng.choice([path for path in places(record) if path != ("t",)])
    if record["t"] == "bundle" and path[0] in ("from_us", "to_us"):
        path = ("tree_size",)
    holder, key = at_path(record, path)
    holder[key] = ["0" * 64] if holder[key] == [] else change_leaf_value(rng, holder[key])
    return bundle.data(), {TAMPERED, UNTRUSTED, INCOMPLETE}, f"{record['t']} {'/'.join(map(str, path))} changed"


def change_entry_byte(rng, world, bundle):
    record = rng.choice(bundle.of("entry"))
    record["entry"] = change_text(rng, record["entry"])
    return bundle.data(), {TAMPERED}, f"a byte of entry {record['seq']} changed"


def change_end(rng, world, bundle):
    name = rng.choice(["entries", "attestations", "blobs"])
    bundle.records[-1][name] += rng.choice([1, 2, 10])
    return bundle.data(), {INCOMPLETE}, f"the end counts more {name}"


def add_member(rng, world, bundle):
    record = rng.choice(bundle.records)
    record["note"] = "x"
    return bundle.data(), {TAMPERED}, f"a member added to {record['t']}"


def drop_entry(rng, world, bundle):
    record = rng.choice(bundle.of("entry"))
    last = record is bundle.of("entry")[-1]
    bundle.records.remove(record)
    allowed = {INCOMPLETE} if not last or "promotion" not in bundle.records[0] else {INCOMPLETE, UNDERIVABLE}
    return bundle.data(recount=True), allowed, f"entry {record['seq']} dropped"


def drop_other(rng, world, bundle):
    record = rng.choice([r for r in bundle.records if r["t"] in ("attestation", "range") or r["t"] == "blob" and r is bundle.of(
        "blob")[0]] or bundle.records[-1:])
    bundle.records.remove(record)
    return bundle.data(recount=record["t"] != "end"), {INCOMPLETE, TAMPERED}, f"{record['t']} dropped"


def reorder(rng, world, bundle):
    kind = rng.choice([kind for kind in ("entry", "attestation") if len(bundle.of(kind)) > 1])
    at = [i for i, record in enumerate(bundle.records) if record["t"] == kind]
    i = rng.randrange(len(at) - 1)
    a, b = at[i], at[rng.randrange(i + 1, len(at))]
    bundle.records[a], bundle.records[b] = bundle.records[b], bundle.records[a]
    return bundle.data(), {TAMPERED}, f"{kind} lines {a} and {b} swapped"


def repeat(rng, world, bundle):
    at = rng.randrange(len(bundle.records) - 1)
    bundle.records.insert(at, copy.deepcopy(bundle.records[at]))
    return bundle.data(recount=True), {TAMPERED, UNDERIVABLE}, f"line {at} doubled"


def foreign_head(rng, world, bundle):
    return (world.rebuild(bundle, {}, world.foreign_key).data(), {UNTRUSTED}, "the head is signed by another key")


def foreign_attestation(rng, world, bundle):
    record = rng.choice(bundle.of("attestation"))
    world.sign_statement(record, base64.b64decode(record["envelope"]["payload"]), world.foreign_key)
    return bundle.data(), {UNTRUSTED}, "an attestation is signed by another key"


def resign_attestation(rng, world, bundle):
    """Another statement, signed with the right key."""
    record = rng.choice(bundle.of("attestation"))
    statement = json.loads(base64.b64decode(record["envelope"]["payload"]))
    path = rng.choice(list(places(statement)))
    holder, key = at_path(statement, path)
    holder[key] = [] if holder[key] == [] else change_leaf_value(rng, holder[key])
    if isinstance(holder[key], list):
        holder[key].append("numerical.other")
    world.sign_statement(record, compact(statement).encode())
    return bundle.data(), {UNDERIVABLE}, f"a statement's {'/'.join(map(str, path))} changed and signed"


def flip_verdict(rng, world, bundle):
    """A verdict says something else than its numbers, and everything is hashed and signed again."""
    record = rng.choice([r for r in bundle.of("entry") if json.loads(r["entry"])["kind"] == "verdict_reached"])
    entry = json.loads(record["entry"])
    others = [v for v in ("pass", "violated", "inconclusive", "error") if v != entry["body"]["verdict"]]
    entry["body"]["verdict"] = rng.choice(others)
    done = world.rebuild(bundle, {record["seq"]: compact(entry)})
    return done.data(), world.codes(record["seq"], UNDERIVABLE), f"the verdict of entry {record['seq']} flipped, all hashed and signed again"


def retell(rng, world, bundle):
    """A state, its origin or its stage says something else, hashed and signed again."""
    record = rng.choice([r for r in bundle.of("entry") if json.loads(r["entry"])["kind"] == "state_changed"])
    entry = json.loads(record["entry"])
    entry["body"]["from"] = "queued" if entry["body"]["from"] != "queued" else "paused"
    done = world.rebuild(bundle, {record["seq"]: compact(entry)})
    return done.data(), world.codes(record["seq"], UNDERIVABLE), f"entry {record['seq']} comes from another state, all hashed and signed again"


def unlink(rng, world, bundle):
    """An entry is left out and the one after it says that there was none, hashed and signed again."""
    entries = bundle.of("entry")
    i = rng.randrange(1, len(entries) - 1)
    record = entries[i + 1]
    entry = json.loads(record["entry"])
    entry["subject"]["prior"] = entry["subject"]["prior"] - 1
    done = world.rebuild(bundle, {record["seq"]: compact(entry)})
    return done.data(), world.codes(record["seq"], INCOMPLETE), f"entry {record['seq']} names another entry before it, all hashed and signed again"


def respell(rng, world, bundle):
    """An entry in another spelling than the canonical one, hashed and signed again."""
    record = rng.choice(bundle.of("entry"))
    changed = rng.choice([record["entry"].replace(":", ": ", 1), record["entry"] + " ",
                          json.dumps(json.loads(record["entry"]), separators=(",", ":"))[:-1] + ',"a":1}'])
    done = world.rebuild(bundle, {record["seq"]: changed})
    return done.data(), {TAMPERED}, f"entry {record['seq']} spelled in another way, all hashed and signed again"


def fork(rng, world, bundle):
    """History before the older head is rewritten, hashed and signed again: only the kept head tells."""
    seq = 0
    entry = json.loads(world.entries[seq])
    entry["time_us"] += 1
    done = world.rebuild(bundle, {seq: compact(entry)})
    return done.data(), {FORKED}, "history before the older head rewritten, all hashed and signed again"


EVERYWHERE = [(flip_bit, 4), (cut, 2), (change_field, 8), (change_entry_byte, 3), (change_end, 1), (add_member, 1), (drop_entry, 3),
              (drop_other, 1), (reorder, 2), (repeat, 1), (foreign_head, 1), (respell, 1)]
OF_PROMOTIONS = [(foreign_attestation, 1), (resign_attestation, 3), (flip_verdict, 5), (retell, 2), (unlink, 1), (fork, 1)]


def mutations(seed, count, world, bundles):
    """Gives (name, bytes, allowed codes, what was done) `count` times; the same seed gives the same."""
    rng = random.Random(seed)
    parsed = {name: Bundle(data) for name, data in bundles.items()}
    for number in range(count):
        name = rng.choice(sorted(parsed))
        single = "promotion" in parsed[name].records[0]
        kinds = EVERYWHERE + (OF_PROMOTIONS if single else [])
        mutate = rng.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        try:
            data, allowed, what = mutate(rng, world, parsed[name].copy())
        except IndexError:  # this bundle has nothing for this mutation
            data, allowed, what = cut(rng, world, parsed[name].copy())
        if data == bundles[name]:
            continue
        yield f"{number:05d}-{mutate.__name__}-{name}", data, allowed, what
