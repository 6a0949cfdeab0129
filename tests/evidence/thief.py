"""Mutations by who has the log's key, and perhaps that of attestations: entries are changed, and leaves, tree, proofs, head,
statements and the end made anew. What is concluded must still follow from what is recorded, and a kept head still tells."""
import base64
import json
import struct

import verify_bundle
from bundles import FORKED, INCOMPLETE, OK, TAMPERED, UNDERIVABLE, Case, at_path, change_leaf_value, compact, places

VERDICTS = ("pass", "violated", "inconclusive", "error")
STATES = ("queued", "running", "awaiting_approval", "paused", "rolling_back", "finalizing", "succeeded", "rejected", "errored", "aborted",
          "expired", "superseded")
NUMBERS = ("alpha", "estimate", "lower", "upper", "e_value", "p_value", "threshold")


def pick(rng, bundle, *kinds):
    """An entry of one of these kinds: its seq and the entry, parsed."""
    found = [(record["seq"], json.loads(record["entry"])) for record in bundle.of("entry")]
    return rng.choice([(seq, entry) for seq, entry in found if not kinds or entry["kind"] in kinds])


def done(rng, world, bundle, changed, codes, what, restate=False):
    """The bundle with {seq: entry} changed; `restate`: its statements are those that seem to follow, signed by their key."""
    world.rebuild(bundle, {seq: compact(entry) for seq, entry in changed.items()})
    if restate and bundle.single:
        make_statements(world, bundle)
    older = rng.random() < 0.5
    allowed = {FORKED} if older and min(changed) < world.older_size else set(codes)
    return Case(bundle.data(), allowed, f"{what}, all hashed and signed again", older=older)


def make_statements(world, bundle):
    """Attestations that say what the changed entries say."""
    promotion = verify_bundle.Promotion(lambda code, what: None)
    for record in bundle.of("entry"):
        promotion.follow(json.loads(record["entry"]))
    made, old = promotion.statements(world.origin) if promotion.request else [], bundle.of("attestation")
    template = old[0] if old else {"t": "attestation", "envelope": {"payload": "", "payloadType": "application/vnd.in-toto+json", "signatures": []}}
    place = bundle.records.index(bundle.of("entry")[-1]) + 1
    bundle.records = [record for record in bundle.records if record["t"] != "attestation"]
    for i, statement in enumerate(made):
        record = json.loads(compact(template))
        world.seal_statement(record, statement.encode())
        bundle.records.insert(place + i, record)


def flip_verdict(rng, world, bundle):
    """A verdict says something else than its numbers."""
    seq, entry = pick(rng, bundle, "verdict_reached")
    entry["body"]["verdict"] = rng.choice([verdict for verdict in VERDICTS if verdict != entry["body"]["verdict"]])
    return done(rng, world, bundle, {seq: entry}, {UNDERIVABLE}, f"the verdict of entry {seq} flipped", rng.random() < 0.5)


def flip_stage(rng, world, bundle):
    """All clauses of a stage pass, and so does the stage; their numbers still say something else."""
    seq, stage = pick(rng, bundle, "verdict_reached")
    if stage["body"].get("scope") != "stage":
        return flip_verdict(rng, world, bundle)
    changed = {seq: stage}
    entries = {record["seq"]: json.loads(record["entry"]) for record in bundle.of("entry")}
    wanted = rng.choice([verdict for verdict in VERDICTS if verdict != stage["body"]["verdict"]])
    for at in range(stage["body"]["first"], seq):
        entries[at]["body"]["verdict"] = wanted
        changed[at] = entries[at]
    stage["body"]["verdict"] = wanted
    return done(rng, world, bundle, changed, {UNDERIVABLE}, f"the stage of entry {seq} and its clauses say {wanted}", rng.random() < 0.7)


def other_number(rng, world, bundle):
    """A number that a verdict rests on becomes another one, far off; where its verdict still follows that is a fact."""
    seq, entry = pick(rng, bundle, "verdict_reached")
    body = entry["body"]
    if body.get("scope") == "stage":
        return other_decision(rng, world, bundle)
    details = body["details"]
    holders = [(body, name) for name in NUMBERS if name in body]
    holders += [(details, name) for name in details] if isinstance(details, dict) else [(pair, "value") for pair in details]
    holder, name = rng.choice(holders)
    value = rng.choice([0.0, 1.0, -1.0, 1e-9, 1e9, 1e300, 5e-324, -1e300, 0.05, float(2**53), float(2**60), 3.0, float("inf"), float("nan")] + [
        struct.unpack(">d", rng.randbytes(8))[0] for _ in range(8)])
    holder[name] = measured(value)
    return done(rng, world, bundle, {seq: entry}, {OK, UNDERIVABLE}, f"{name} of entry {seq} is {value}")


def measured(value):
    bits = struct.pack(">d", value).hex()
    return {"dec": verify_bundle.shortest(value), "hex": "7ff8000000000000" if value != value else bits}


def other_decision(rng, world, bundle):
    """What a stage's decision names: its verdicts, its action, whether it ended."""
    seq, entry = pick(rng, bundle, "verdict_reached")
    body = entry["body"]
    if body.get("scope") != "stage":
        return flip_verdict(rng, world, bundle)
    name = rng.choice(["first", "count", "ended", "action", "verdict"])
    choices = {"first": [body["first"] + 1, body["first"] - 1, 0], "count": [body["count"] + 1, body["count"] - 1, 0], "ended": [not body["ended"]],
               "action": ["finish", "revert", "failed", "inconclusive", "advance", "wait_approval", "", "x"], "verdict": VERDICTS}[name]
    body[name] = rng.choice([value for value in choices if value != body.get(name)])
    return done(rng, world, bundle, {seq: entry}, {OK, UNDERIVABLE, INCOMPLETE}, f"{name} of the decision {seq} is {body[name]!r}", rng.random() < 0.5)


def retell(rng, world, bundle):
    """A state comes from, or leads to, another one."""
    seq, entry = pick(rng, bundle, "state_changed")
    name = rng.choice(["from", "from", "to"])
    entry["body"][name] = rng.choice([state for state in STATES if state != entry["body"][name]])
    codes = {UNDERIVABLE} if name == "from" and bundle.single else {OK, UNDERIVABLE, INCOMPLETE}
    return done(rng, world, bundle, {seq: entry}, codes, f"{name} of entry {seq} is {entry['body'][name]}", rng.random() < 0.5)


def claim_success(rng, world, bundle):
    """What did not succeed did, by its last change of state and by a statement."""
    changes = [json.loads(record["entry"]) for record in bundle.of("entry")]
    last = [entry for entry in changes if entry["kind"] == "state_changed"][-1]
    if last["body"]["to"] == "succeeded":
        last["body"]["to"] = rng.choice(["rejected", "errored"])
    else:
        last["body"]["to"] = "succeeded"
    codes = {UNDERIVABLE} if last["body"]["to"] == "succeeded" else {OK, UNDERIVABLE}  # a person may reject
    return done(rng, world, bundle, {last["seq"]: last}, codes, f"the promotion ended as {last['body']['to']}", True)


def unlink(rng, world, bundle):
    """An entry names another one before it."""
    entries = bundle.of("entry")
    seq = rng.choice(entries[1:])["seq"]
    entry = json.loads(world.entries[seq])
    entry["subject"]["prior"] += rng.choice([-1, 1, -2])
    return done(rng, world, bundle, {seq: entry}, {INCOMPLETE}, f"entry {seq} names another entry before it")


def skip(rng, world, bundle):
    """An entry is taken out of the chain: another takes its place in the log, and the next one names the one before it."""
    entries = bundle.of("entry")
    at = rng.randrange(1, len(entries) - 1)
    gone, after = entries[at], json.loads(entries[at + 1]["entry"])
    filler = json.loads(gone["entry"])
    filler.update({"subject": {}, "kind": "evidence_read", "body": {}})
    after["subject"]["prior"] = json.loads(gone["entry"])["subject"]["prior"]
    seq, kind = gone["seq"], json.loads(gone["entry"])["kind"]
    # What a stage decided on its way is a fact like others; that it ended, and on which verdicts, is a conclusion.
    on_its_way = json.loads(gone["entry"])["body"].get("ended") is False
    world.rebuild(bundle, {seq: compact(filler), after["seq"]: compact(after)})
    bundle.records = [record for record in bundle.records if record is not gone]
    older = rng.random() < 0.5
    concluded = {UNDERIVABLE, INCOMPLETE} | ({OK} if kind != "verdict_reached" or on_its_way or bundle.running else set())
    allowed = {FORKED} if older and seq < world.older_size else concluded
    return Case(bundle.data(), allowed, f"{kind} {seq} replaced by an entry about nothing, and linked over", older=older)


def decide_on_own(rng, world, bundle):
    """An approval or waiver by who asked for the promotion."""
    seq, entry = pick(rng, bundle, "approval_given", "waiver_given")
    entry["actor"] = json.loads(bundle.of("entry")[0]["entry"])["actor"]
    refused = entry["body"].get("decision") in ("approve", "waive")
    return done(rng, world, bundle, {seq: entry}, {UNDERIVABLE} if refused else {OK}, f"entry {seq} is by who asked")


def soften(rng, world, bundle):
    """A hard clause is said to be soft, against its contract."""
    seq, entry = pick(rng, bundle, "verdict_reached")
    if "severity" not in entry["body"]:
        return flip_verdict(rng, world, bundle)
    name, values = rng.choice([("severity", ("hard", "soft")), ("clause", ("numerical.none", "x"))])
    entry["body"][name] = rng.choice([value for value in values if value != entry["body"][name]])
    return done(rng, world, bundle, {seq: entry}, {UNDERIVABLE}, f"{name} of entry {seq} is not the contract's", rng.random() < 0.5)


def resign_attestation(rng, world, bundle):
    """Another statement, signed with the right key."""
    record = rng.choice(bundle.of("attestation"))
    statement = json.loads(base64.b64decode(record["envelope"]["payload"]))
    path = rng.choice(list(places(statement)))
    holder, key = at_path(statement, path)
    holder[key] = [] if holder[key] == [] else change_leaf_value(rng, holder[key])
    if isinstance(holder[key], list):
        holder[key].append("numerical.other")
    world.seal_statement(record, compact(statement).encode())
    return Case(bundle.data(), {UNDERIVABLE}, f"a statement's {'/'.join(map(str, path))} changed and signed")


def add_statement(rng, world, bundle):
    """A statement more, or one in another's place."""
    records = bundle.of("attestation")
    record = rng.choice(records)
    payload = rng.choice([b"", b"{}", b"\xff", base64.b64decode(rng.choice(records)["envelope"]["payload"])])
    more = json.loads(compact(record))
    world.seal_statement(more, payload)
    if more in records:
        return resign_attestation(rng, world, bundle)
    bundle.records.insert(bundle.records.index(records[-1]) + 1, more)
    return Case(bundle.data(), {UNDERIVABLE, TAMPERED}, "a statement more, signed")


def fork(rng, world, bundle):
    """History before the older head is rewritten: only the kept head tells."""
    seq = rng.randrange(world.older_size)
    entry = json.loads(world.entries[seq])
    entry["time_us"] += rng.choice([1, -1, 1000])
    world.rebuild(bundle, {seq: compact(entry)})
    older = rng.random() < 0.8
    here = any(record["seq"] == seq for record in bundle.of("entry"))
    allowed = {FORKED} if older else {OK, INCOMPLETE, UNDERIVABLE}
    return Case(bundle.data(), allowed, f"history before the older head rewritten (entry {seq})", "signed_facts" if not older else "", older=older) if (
        here or older) else fork(rng, world, bundle)


def roll_back(rng, world, bundle):
    """A head of a smaller tree than the kept one."""
    size = rng.randrange(1, world.older_size)
    world.rebuild(bundle, {}, size=size)
    return Case(bundle.data(), {FORKED, TAMPERED}, f"a head of {size} entries, smaller than the kept one")


def scribble(rng, world, bundle):
    """Anything in any entry: whatever it is, both verifiers must say the same of it."""
    seq, entry = pick(rng, bundle)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        holder, key = at_path(entry, rng.choice([path for path in places(entry)] + [("body", name) for name in entry["body"]]))
        how = rng.random()
        if how < 0.4:
            holder[key] = change_leaf_value(rng, holder[key]) if not isinstance(holder[key], (list, dict)) else []
        elif how < 0.7:
            holder[key] = rng.choice([None, True, False, 0, -1, 1, 2**53 - 1, 2**53, "", "x", "NaN", "Infinity", "-Infinity", "4340000000000000", [], {},
                                      [{"name": "a", "value": 1}], [1], {"dec": "1", "hex": "3ff0000000000000"}, {"dec": "2", "hex": "3ff0000000000000"},
                                      {"dec": "1", "hex": "3ff0000000000000", "more": 1}, {"hex": "3ff0000000000000"}, "hard", "soft", "pass", "violated",
                                      "rejected", "succeeded", "critical", "discovered", "described", "corpus", "\u00e9", "\U0001f600", "a b"])
        elif how < 0.85 and isinstance(holder, dict):
            del holder[key]
        elif isinstance(holder, dict):
            holder[rng.choice(["a", "threshold", "estimate", "harm", "proof", "proof_estimate", "tables", "holm_rejected", "replicates_wanted",
                               "p_proof", "rules", "A", ""])] = rng.choice([0, 1, "x", {}, {"dec": "1", "hex": "3ff0000000000000"}])
        else:
            holder.insert(key, rng.choice([0, "x", {}, {"name": "x", "value": 1}]))
    restate = bundle.single and rng.random() < 0.3
    case = done(rng, world, bundle, {seq: entry}, {OK, TAMPERED, INCOMPLETE, UNDERIVABLE}, f"entry {seq} scribbled into", False)
    if restate:
        try:
            make_statements(world, bundle)
            case.data = bundle.data()
        except verify_bundle.BROKEN:
            pass
    case.allowed |= {TAMPERED}
    return case


def other_contract(rng, world, bundle):
    """Another contract in the place of the first one, its digest in every entry."""
    blob = bundle.of("blob")[0]
    contract = json.loads(base64.b64decode(blob["bytes"]))
    family, clauses = rng.choice([(name, value) for name, value in contract.items() if isinstance(value, list) and value])
    clause = rng.choice(clauses)
    if isinstance(clause, dict):
        how = rng.randrange(4)
        if how == 0:
            clauses.remove(clause)
        elif how == 1:
            clause["severity"] = "soft" if clause.get("severity", "hard") == "hard" else "hard"
        elif how == 2:
            clause[rng.choice(["id", "severity"])] = rng.choice(["x", None, 1, [], {}])
        else:
            contract[family] = rng.choice([None, {}, "x", [1], [[]]])
    data = rng.choice([compact(contract)] * 4 + ["{}", "[]", "", "null", "x", '{"numerical":[],"numerical":[]}']).encode()
    old, new = blob["digest"], "sha256:" + verify_bundle.sha(data).hex()
    blob.update({"digest": new, "bytes": base64.b64encode(data).decode()})
    changed = {record["seq"]: record["entry"].replace(old, new) for record in bundle.of("entry")}
    world.rebuild(bundle, changed)
    try:
        make_statements(world, bundle)
    except verify_bundle.BROKEN:
        pass
    older = rng.random() < 0.3
    allowed = {FORKED} if older and min(changed) < world.older_size else {OK, UNDERIVABLE}
    return Case(bundle.data(), allowed, "another contract", older=older)


ANYWHERE = [(flip_verdict, 6), (other_number, 8), (other_decision, 5), (retell, 4), (fork, 4), (scribble, 16)]
OF_PROMOTIONS = [(flip_stage, 4), (claim_success, 3), (unlink, 4), (skip, 6), (decide_on_own, 2), (soften, 3), (resign_attestation, 6),
                 (add_statement, 2), (roll_back, 2), (other_contract, 4)]
