"""Mutations that need no key: bits, members, lines and what stands in what order, foreign signatures, cut ends."""
import base64
import copy
import json

from bundles import (INCOMPLETE, OK, TAMPERED, UNDERIVABLE, UNTRUSTED, Case, at_path, change_leaf_value, change_text, places)

TERMINAL = ("succeeded", "rejected", "errored", "aborted", "expired", "superseded")


def flip_bit(rng, _, bundle):
    data = bytearray(bundle.data())
    at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    return Case(bytes(data), {TAMPERED, INCOMPLETE}, f"bit flipped in byte {at}")


def change_byte(rng, _, bundle):
    data = bytearray(bundle.data())
    at = rng.randrange(len(data))
    how = rng.randrange(3)
    if how == 0:
        data[at] = rng.randrange(256)
    elif how == 1:
        del data[at]
    else:
        data.insert(at, rng.randrange(256))
    return Case(bytes(data), {TAMPERED, INCOMPLETE}, f"byte {at} changed, removed or added ({how})")


def cut(rng, _, bundle):
    data = bundle.data()
    at = rng.randrange(len(data))
    return Case(data[:at], {INCOMPLETE}, f"cut after {at} bytes")


def cut_line(rng, _, bundle):
    """Cut behind a line, with an end made anew."""
    last = bundle.records.pop()
    kept = rng.randrange(len(bundle.records) + 1)
    dropped = bundle.records[kept:]
    bundle.records = [*bundle.records[:kept], last]
    if kept == 0:
        return Case(bundle.data(), {TAMPERED}, "only the end is left")
    if all(record["t"] == "blob" for record in dropped):
        return Case(bundle.data(), {OK}, f"{len(dropped)} tables left out", "tables_left_out")
    if bundle.running:
        return Case(bundle.data(), {OK, INCOMPLETE}, f"cut after {kept} lines of a running promotion", "running")
    return Case(bundle.data(), {INCOMPLETE}, f"cut after {kept} lines, with an end made anew")


def end_of(bundle):
    """Number of the last entry that changes the state of the promotion, if that is one in which it has ended."""
    changes = [json.loads(record["entry"]) for record in bundle.of("entry")]
    changes = [entry for entry in changes if entry["kind"] == "state_changed"]
    return changes[-1]["seq"] if changes and changes[-1]["body"]["to"] in TERMINAL else None


def cut_promotion(rng, _, bundle):
    """The last entries are left out, and perhaps the attestations that no longer follow; the end is made anew."""
    entries, running = bundle.of("entry"), bundle.running or rng.random() < 0.3
    end = end_of(bundle)
    dropped = entries[rng.randrange(1, len(entries)):]
    bundle.records = [record for record in bundle.records if not any(record is other for other in dropped)]
    if rng.random() < 0.5:
        attestations = bundle.of("attestation")
        for record in attestations[rng.randrange(len(attestations) + 1):]:
            bundle.records = [other for other in bundle.records if other is not record]
    kept = dropped[0]["seq"] - 1
    case = Case(bundle.data(), {INCOMPLETE, UNDERIVABLE}, f"cut off from entry {dropped[0]['seq']} on, with an end made anew", running=running)
    if end is not None and kept >= end:
        case.allowed, case.meaning = case.allowed | {OK}, "after_the_end"
    elif running:
        case.allowed, case.meaning = case.allowed | {OK}, "running"
    elif end is None or not any(is_end(json.loads(record["entry"])) for record in bundle.of("entry")):
        case.allowed = {INCOMPLETE}
    return case


def is_end(entry):
    return entry["kind"] == "state_changed" and entry["body"]["to"] in TERMINAL


def without_running(_, __, bundle):
    """Of a promotion that still runs, without --running."""
    return Case(bundle.data(), {INCOMPLETE if bundle.running else OK}, "verified without --running", "unchanged", running=False)


def change_field(rng, _, bundle):
    """Any member of any line, with the end made anew."""
    record = rng.choice(bundle.records[:-1])
    path = rng.choice([path for path in places(record) if path != ("t",)])
    if record["t"] == "bundle" and path[0] in ("from_us", "to_us"):
        return change_times(rng, _, bundle)
    holder, key = at_path(record, path)
    holder[key] = ["0" * 64] if holder[key] == [] else change_leaf_value(rng, holder[key])
    allowed = {UNTRUSTED} if key == "keyid" else {TAMPERED, UNTRUSTED}
    return Case(bundle.data(), allowed, f"{record['t']} {'/'.join(map(str, path))} changed")


def change_type(rng, _, bundle):
    """A member of another type."""
    record = rng.choice(bundle.records)
    holder, key = at_path(record, rng.choice([path for path in places(record)] + [(name,) for name in record]))
    was = holder[key]
    holder[key] = rng.choice([value for value in (None, True, False, 0, -1, 1.5, "", [], {}, [None], {"a": 1}, [[]], "0" * 64, 2**53, 1e300)
                              if type(value) is not type(was)])
    is_end_line = record is bundle.records[-1]
    return Case(unsealed(bundle) if is_end_line else bundle.data(), {TAMPERED}, f"a member that was {str(was)[:40]!r} is {holder[key]!r}")


def unsealed(bundle):
    return "".join(line + "\n" for line in bundle.lines()).encode()


def change_times(rng, _, bundle):
    """The times of a range that was asked for: entries must reach beyond both."""
    if bundle.single:
        return change_field(rng, _, bundle)
    header, edges = bundle.header, bundle.of("range")[0]
    times = [json.loads(record["entry"])["time_us"] for record in bundle.of("entry")]
    name = rng.choice(["from_us", "to_us"])
    header[name] = max(0, rng.choice([0, 1, 2**53 - 1, rng.choice(times) + rng.choice([-1, 0, 1]), header[name] + rng.choice([-1, 1, -1000, 1000])]))
    what = f"{name} is {header[name]}"
    if header["to_us"] < header["from_us"]:
        return Case(bundle.data(), {TAMPERED}, what)
    reaches = (edges["first"] == 0 or times[0] < header["from_us"]) and (edges["end"] == header["tree_size"] or times[-1] >= header["to_us"])
    return Case(bundle.data(), {OK} if reaches else {INCOMPLETE}, what, "times" if reaches else "")


def change_entry_byte(rng, _, bundle):
    record = rng.choice(bundle.of("entry"))
    record["entry"] = change_text(rng, record["entry"])
    return Case(bundle.data(), {TAMPERED}, f"a byte of entry {record['seq']} changed")


def change_end(rng, _, bundle):
    name = rng.choice(["entries", "attestations", "blobs"])
    bundle.records[-1][name] += rng.choice([1, 2, 10])
    return Case(bundle.data(recount=False), {INCOMPLETE}, f"the end counts more {name}")


def add_member(rng, _, bundle):
    record = rng.choice(bundle.records)
    holder = rng.choice([record, record["envelope"], record["envelope"]["signatures"][0]]) if record["t"] == "attestation" else record
    holder[rng.choice(["note", "a", "", "T", "proof", "promotion", "\u00e9"])] = rng.choice(["x", 1, None, [], {}])
    return Case(bundle.data(), {TAMPERED}, f"a member added to {record['t']}")


def drop_member(rng, _, bundle):
    record = rng.choice(bundle.records)
    holder = rng.choice([record, record["envelope"], record["envelope"]["signatures"][0]]) if record["t"] == "attestation" else record
    name = rng.choice([name for name in holder])
    del holder[name]
    return Case(unsealed(bundle), {TAMPERED}, f"{name} removed from a line")


def drop_entry(rng, _, bundle):
    record = rng.choice(bundle.of("entry")[:-1])
    bundle.records.remove(record)
    return Case(bundle.data(), {INCOMPLETE}, f"entry {record['seq']} dropped")


def drop_other(rng, _, bundle):
    record = rng.choice([record for record in bundle.records if record["t"] not in ("entry", "end")])
    older = rng.random() < 0.5
    behind = any(other["t"] == "attestation" for other in bundle.records[:bundle.records.index(record)])
    bundle.records.remove(record)
    case = Case(bundle.data(), {INCOMPLETE}, f"{record['t']} dropped", older=older)
    if record["t"] in ("bundle", "range"):
        case.allowed = {TAMPERED}
    elif record["t"] == "blob" and behind:
        case.allowed, case.meaning = {OK}, "tables_left_out"
    elif record["t"] == "consistency" and not older:
        case.allowed, case.meaning = {OK}, "consistency_left_out"
    return case


def drop_end(_, __, bundle):
    bundle.records.pop()
    return Case(unsealed(bundle), {INCOMPLETE}, "no end")


def reorder(rng, _, bundle):
    """Two lines in each other's place, or one elsewhere, with the end made anew."""
    at = range(len(bundle.records) - 1)
    first, second = sorted(rng.sample(at, 2))
    if rng.random() < 0.5:
        bundle.records[first], bundle.records[second] = bundle.records[second], bundle.records[first]
    else:
        bundle.records.insert(first, bundle.records.pop(second))
    return Case(bundle.data(), {TAMPERED, INCOMPLETE}, f"lines {first} and {second} in another order")


def repeat(rng, _, bundle):
    at = rng.randrange(len(bundle.records) - 1)
    bundle.records.insert(at, copy.deepcopy(bundle.records[at]))
    return Case(bundle.data(), {TAMPERED}, f"line {at} doubled")


def transplant(rng, world, bundle):
    """A line of another bundle of the same log."""
    other = rng.choice(world.others).copy()
    line = rng.choice(other.records[:-1])
    if line in bundle.records:
        return repeat(rng, world, bundle)
    bundle.records.insert(rng.randrange(1, len(bundle.records)), line)
    return Case(bundle.data(), {TAMPERED, INCOMPLETE, UNDERIVABLE, UNTRUSTED}, f"a line {line['t']} of another bundle")


def foreign_head(rng, world, bundle):
    header = bundle.header
    origin, size, root, *_ = header["checkpoint"].split("\n")
    text = f"{origin}\n{size}\n{root}\n"
    key = rng.choice([world.foreign_key, world.attestation_key])
    if rng.random() < 0.3:  # under the id of the key that is trusted
        header["checkpoint"] = f"{text}\n" + world.signature_line(origin, text, key, world.log_key.key_id(origin))
        return Case(bundle.data(), {TAMPERED}, "the head is signed by another key under the id of the right one")
    name = rng.choice([origin, origin, "other.example/log", origin + "x"])
    header["checkpoint"] = f"{text}\n" + world.signature_line(name, text, rng.choice([key, world.log_key]) if name != origin else key)
    return Case(bundle.data(), {UNTRUSTED}, "the head is signed by another key")


def foreign_origin(rng, world, bundle):
    """The head of another log, signed by the key of this one."""
    size, root = bundle.header["tree_size"], base64.b64decode(bundle.header["checkpoint"].split("\n")[2])
    bundle.header["origin"] = rng.choice(["other.example/log", world.origin + "x", world.origin.upper()])
    bundle.header["checkpoint"] = world.note(bundle.header["origin"], size, root)
    return Case(bundle.data(), {UNTRUSTED}, "the head of another log")


def foreign_attestation(rng, world, bundle):
    record = rng.choice(bundle.of("attestation"))
    payload, key = base64.b64decode(record["envelope"]["payload"]), rng.choice([world.foreign_key, world.log_key])
    under = rng.random() < 0.4
    world.seal_statement(record, payload, key, world.attestation_key.digest(world.origin).hex() if under else None)
    return Case(bundle.data(), {TAMPERED if under else UNTRUSTED}, "an attestation is signed by another key" + " under the right id" * under)


def other_payload_type(rng, world, bundle):
    record = rng.choice(bundle.of("attestation"))
    payload = base64.b64decode(record["envelope"]["payload"])
    record["envelope"]["payloadType"] = rng.choice(["application/json", "", "application/vnd.in-toto+JSON", "application/vnd.in-toto+json "])
    world.seal_statement(record, payload)
    return Case(bundle.data(), {TAMPERED}, "a statement of another type, signed")


def two_signatures(rng, world, bundle):
    record = rng.choice(bundle.of("attestation"))
    marks = record["envelope"]["signatures"]
    marks.insert(rng.randrange(2), rng.choice([copy.deepcopy(marks[0]), {"keyid": "00", "sig": "AAAA"}]))
    if rng.random() < 0.3:
        marks.clear()
    return Case(bundle.data(), {TAMPERED}, f"{len(marks)} signatures on an attestation")


ANYWHERE = [(flip_bit, 10), (change_byte, 6), (cut, 4), (cut_line, 6), (change_field, 16), (change_type, 6), (change_times, 2), (change_entry_byte, 4),
            (change_end, 1), (add_member, 2), (drop_member, 2), (drop_entry, 5), (drop_other, 4), (drop_end, 1), (reorder, 6), (repeat, 3),
            (transplant, 4), (foreign_head, 4), (foreign_origin, 1)]
OF_PROMOTIONS = [(cut_promotion, 12), (without_running, 2), (foreign_attestation, 4), (other_payload_type, 1), (two_signatures, 1)]
