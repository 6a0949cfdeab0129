#!/usr/bin/env python3
"""Verifies bundles of driftgate's evidence with Python's standard library and the openssl command alone.

Written from docs/evidence.md, independently of `driftgate audit verify`, with which it must agree: exit 0 ok, 1 tampered,
2 fork or rollback, 3 untrusted key, 4 incomplete, 5 a verdict does not follow from its evidence.
"""
import argparse, base64, decimal, functools, hashlib, json, math, pathlib, re, struct, subprocess, sys, tempfile, time

OK, TAMPERED, FORKED, UNTRUSTED, INCOMPLETE, UNDERIVABLE = range(6)
NAMES = ["ok", "tampered", "fork or rollback", "untrusted key", "incomplete", "not derivable"]
STAGES = ["offline-numeric", "statistical-slice", "shadow-runtime", "canary"]
TERMINAL = {"succeeded", "rejected", "errored", "aborted", "expired", "superseded"}
KINDS = set("""contract_registered kernel_registered engine_registered model_bootstrapped promotion_requested state_changed
  job_finished verdict_reached route_desired route_applied escalation_decided approval_given waiver_given hold_set hold_lifted
  schedule_fired schedule_skipped schedule_set schedule_deleted token_granted token_revoked evidence_read evidence_redacted
  daemon_started clock_stepped block_set block_lifted key_rotated epoch_changed router_replaced breaker_changed
  guard_armed guard_alarmed guard_decided guard_ended recipe_set recipe_deleted""".split())
ENTRY = {"actor": str, "body": dict, "kind": str, "seq": int, "subject": dict, "time_us": int, "v": int}
SUBJECT = {"attempt": int, "prior": int, "model": str, "promotion": str, "stage": str, "checkpoint": str, "contract": str}
SHAPES = {  # of each line: its members and their types
    kind: dict(zip(names.split()[::2], map({"int": int, "str": str, "list": list, "dict": dict}.get, names.split()[1::2])))
    for kind, names in {
        "bundle": "t str v int origin str tree_size int checkpoint str", "consistency": "t str size int root str proof list",
        "range": "t str first int end int left list right list", "entry": "t str seq int entry str",
        "attestation": "t str envelope dict", "blob": "t str digest str bytes str",
        "end": "t str entries int attestations int blobs int digest str"}.items()}
WORDS = {"severity": ("hard", "soft"), "verdict": ("pass", "violated", "inconclusive", "error"), "approximate": (True, False),
         "role": ("corpus", "critical", "monitored", "discovered", "described"), "no_harm_only": (True, False)}
class Found(Exception): """What is wrong, and its exit code."""
BROKEN = (Found, ValueError, LookupError, TypeError, AttributeError, NameError, RecursionError, ArithmeticError)
def need(condition, what, code=TAMPERED):
    if not condition:
        raise Found(what, code)
# --- JSON: every line and every entry is in canonical form, which is compared
def is_a(value, kind): return type(value) is kind and (kind is not int or 0 <= value < 2**53)
def compact(value): return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
def canonical(source):
    value = json.loads(source)
    need(compact(value) == source, "another spelling than the canonical one")
    return value
def shortest(x):  # the decimal that reads back, fixed unless scientific is shorter
    if math.isnan(x) or math.isinf(x):
        return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"
    digits = decimal.Decimal(repr(x))
    scientific = re.sub(r"(e[+-])(\d)$", r"\g<1>0\2", f"{digits.normalize():e}")
    return min(f"{x:.0f}" if x == int(x) else f"{digits:f}", scientific, key=len)
def from_bits(value):
    need(re.fullmatch("[0-9a-f]{16}", value), "a hex that is no double")
    return struct.unpack(">d", bytes.fromhex(value))[0]
def check_value(value, depth=0):
    need(type(value) is not float and (type(value) is not int or abs(value) < 2**53) and (
        depth < 32 or type(value) not in (list, dict)), "a number that is no integer to 2^53, or more than 32 nested values")
    if type(value) is dict:
        if set(value) == {"dec", "hex"}:
            need(shortest(from_bits(value["hex"])) == value["dec"] and (value["dec"] != "NaN" or value["hex"] == "7ff8000000000000"),
                 "a measured number whose dec and hex differ")
        need(all(re.fullmatch("[a-z][a-z0-9_]{0,63}", key) for key in value), "a key that is not [a-z][a-z0-9_]{0,63}")
    for item in value.values() if type(value) is dict else value if type(value) is list else ():
        check_value(item, depth + 1)
def read_entry(source, seq):
    entry = canonical(source)
    check_value(entry)
    need(len(source.encode()) <= 65535 and set(entry) == set(ENTRY) and all(is_a(entry[name], ENTRY[name]) for name in ENTRY) and all(
        type(value) is SUBJECT.get(name) for name, value in entry["subject"].items()), "other members than an entry may have")
    need(entry["v"] == 1 and entry["kind"] in KINDS and entry["actor"] and entry["seq"] == seq, "a wrong v, kind, actor or seq")
    return entry
# --- the Merkle tree (RFC 6962, RFC 9162 section 2.1), proofs read from their far end as the RFC defines them
def sha(data): return hashlib.sha256(data).digest()
def node(left, right): return sha(b"\1" + left + right)
def path_root(leaf, index, size, proof):
    if size == 1:
        return need(not proof, "a proof that is too long") or leaf
    k, sibling = 1 << ((size - 1).bit_length() - 1), bytes.fromhex(proof[-1])
    return node(path_root(leaf, index, k, proof[:-1]), sibling) if index < k else node(
        sibling, path_root(leaf, index - k, size - k, proof[:-1]))
def consistent_roots(old, new, proof, root):  # roots of the first `old` and of all; `root`: the old tree's while it is a whole part
    if old == new:
        need(len(proof) == (root is None), "a proof of another length")
        return (root or bytes.fromhex(proof[0]),) * 2
    k, sibling = 1 << ((new - 1).bit_length() - 1), bytes.fromhex(proof[-1])
    if old > k:
        return tuple(node(sibling, part) for part in consistent_roots(old - k, new - k, proof[:-1], None))
    first, second = consistent_roots(old, k, proof[:-1], root)
    return first, node(second, sibling)
def levels_between(begin, end):  # levels of the fewest complete subtrees that cover the leaves [begin, end)
    while begin < end:
        yield (level := min((end - begin).bit_length(), (begin & -begin).bit_length() or 64) - 1)
        begin += 1 << level
def push(stack, level, hash_):
    while stack and stack[-1][0] == level:
        hash_, level = node(stack.pop()[1], hash_), level + 1
    stack.append((level, hash_))
# --- keys and signatures
def unbase64(source):
    need(base64.b64encode(base64.b64decode(source, validate=True)).decode() == source, "no base 64")
    return base64.b64decode(source)

@functools.lru_cache(maxsize=4096)
def is_signed(key, message, signature):  # ed25519 by the openssl command
    spki = base64.b64encode(bytes.fromhex("302a300506032b6570032100") + key)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in zip("kms", (b"-----BEGIN PUBLIC KEY-----\n" + spki + b"\n-----END PUBLIC KEY-----\n", message, signature)):
            pathlib.Path(folder, name).write_bytes(data)
        command = "openssl pkeyutl -verify -pubin -inkey k -rawin -in m -sigfile s".split()
        return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0
def read_trust(source):
    keys = [{"from_size": 0, **key, "raw": unbase64(key["key"])} for key in json.loads(source)["keys"]]
    keys = [{**key, "digest": sha(key["name"].encode() + b"\n\1" + key["raw"])} for key in keys]
    return [{**key, "id": key["digest"][:4]} for key in keys]
def read_note(note):  # origin, size, root, signed text and {key id: signature} under the origin of a signed tlog-checkpoint
    signed, blank, signatures = note.rpartition("\n\n")
    lines, found = signed.split("\n"), {}
    need(blank and signatures.endswith("\n") and len(note.encode()) <= 16384 and not re.search("[\0-\x09\x0b-\x1f]", note) and all(lines)
         and re.fullmatch("0|[1-9][0-9]{0,18}", lines[1]) and int(lines[1]) < 2**63 and len(unbase64(lines[2])) == 32, "no signed checkpoint")
    for mark, name, data in (line.split(" ", 2) for line in signatures[:-1].split("\n")):
        need(mark == "\u2014" and name and not re.search("[\\s+]", name) and len(unbase64(data)) > 4, "a signature line of another form")
        need((name, unbase64(data)[:4]) not in found and len(found) < 100, "two signatures by one key, or more than 100")
        found[name, unbase64(data)[:4]] = unbase64(data)[4:]
    signed_by = {id_: data for (name, id_), data in found.items() if name == lines[0]}
    return lines[0], int(lines[1]), unbase64(lines[2]), (signed + "\n").encode(), signed_by
# --- verdicts
MEMBERS = ("alpha", "estimate", "lower", "upper", "e_value", "p_value", "threshold")
def number(value, stated):  # stated: the body says its version of the rules, and every number is {"dec", "hex"}
    if type(value) is dict and set(value) == {"dec", "hex"}:
        return from_bits(value["hex"])
    need(not stated and type(value) in (int, str), "a number that is not measured")
    if type(value) is int or value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    need(re.fullmatch("[0-9a-f]{16}", value) and int(value, 16) >= 2**53, "a text that is no number")
    return float(int(value, 16))  # a whole double from 2^53 on was written as hexadecimal digits
def mapping(value):  # an object, or the list of names and values that stands for one
    if type(value) is list:
        need(all(set(pair) == {"name", "value"} for pair in value), "other members than name and value")
        need(len({pair["name"] for pair in value}) == len(value), "a name twice")
        value = {pair["name"]: pair["value"] for pair in value}
    need(type(value) is dict and all(type(name) is str for name in value), "neither an object nor a list of names and values")
    return value

class Numbers:  # of one verdict: members as v.m("alpha"), details as v.d("p_proof"); what is not recorded is a fault
    def __init__(self, members, details, body):
        self.members, self.details, self.kind, self.clusters = members, details, body["limit_kind"], body["clusters"]
    def m(self, name): return self.members[name]
    def d(self, name): return self.details[name]
    def has(self, name): return name in self.details
    def within(self, value): return value >= self.m("threshold") if self.kind == "min" else value <= self.m("threshold")
    def line(self, arm):
        limit = self.m("threshold")
        return limit * self.d(arm) if self.kind == "max_ratio" else limit + self.d(arm) if self.kind == "max_delta" else limit
# Each rule gives (passes, is violated, otherwise); None: inconclusive, or with no_harm_only pass.
def test(v):
    proven, harmed = v.d("p_proof") <= v.m("alpha"), v.m("p_value") <= v.m("alpha")
    return proven, harmed and not proven, None
def test_3(v):  # the rows of an average sequence do not pass over those of all sequences together
    proven, harmed, otherwise = test(v)
    within = not v.has("share_of_rows") or v.d("share_of_rows") <= v.d("tolerated_fraction")
    return proven and within, v.m("p_value") <= v.m("alpha") and not (proven and within), otherwise
def margin(v):
    proven, harmed, limit = v.d("p_proof") <= v.m("alpha"), v.m("p_value") <= v.m("alpha"), v.m("threshold")
    kept, broken = v.m("lower") > -limit, v.m("upper") < -limit
    return proven and kept, harmed and broken, None
def limits(v):
    within, beyond = v.m("upper") <= v.m("threshold"), v.m("lower") > v.m("threshold")
    return within, beyond, None
def arm_limits(v):
    if not v.has("candidate_lower"):
        return False, False, None
    beyond = v.d("candidate_lower") > v.line("incumbent_upper")
    known = v.has("candidate_upper") and (v.kind == "max" or v.has("incumbent_lower"))
    return known and v.d("candidate_upper") <= v.line("incumbent_lower"), beyond, None
def census(v):
    within, enough = v.within(v.m("estimate")), v.clusters >= v.d("least_units")
    return within and enough, not within, "inconclusive"
def bounded_census(v):
    v.m("threshold")
    enough, harm, proof = v.clusters >= v.d("least_units"), "harm_estimate", "proof_estimate"
    return v.has(proof) and v.within(v.d(proof)) and enough, v.has(harm) and not v.within(v.d(harm)), "inconclusive"
def by_e_value(v, e):
    joint = v.has("e_joint") and v.d("e_joint") >= v.d("e_joint_needed")
    alone = e >= v.d("e_harm_needed")
    return v.has("e_proof") and v.d("e_proof") >= v.d("e_proof_needed"), alone or joint, None
def e_value(v): return by_e_value(v, v.m("e_value"))
def two_parts(v): return v.d("label_part") * v.d("e_label") + v.d("blocks_part") * v.d("e_blocks")
def e_value_2(v):  # the e-value of a test of failure rates follows from both of its parts
    return by_e_value(v, two_parts(v) if v.has("e_blocks") else v.m("e_value"))
def e_value_3(v):  # and from a third one where signs of blocks are compared
    signs = v.has("e_blocks") and v.has("e_signs")
    return by_e_value(v, two_parts(v) + v.d("signs_part") * v.d("e_signs")) if signs else e_value_2(v)
def recovering(v):
    clean, dwelt = v.d("clean_windows") >= v.d("clean_windows_needed"), v.d("dwell_ms") >= v.d("dwell_needed_ms")
    return False, not (clean and dwelt), "inconclusive"
def figure(otherwise): return lambda v: (v.m("estimate") >= v.m("threshold"), False, otherwise)
RULES_1 = {
    "cannot": lambda v: (False, False, "error"), "undecided": lambda v: (False, False, "inconclusive"),
    "test": test, "bounded_test": test, "margin": margin, "limits": limits, "arm_limits": arm_limits, "census": census,
    "bounded_census": bounded_census, "e_value": e_value, "recovering": recovering,
    "bound": lambda v: (v.m("upper") <= v.m("threshold"), False, "inconclusive"),
    "nonfinite": lambda v: (False, v.d("nonfinite") > 0, "inconclusive"),
    "count_at_least": figure("inconclusive"), "share_at_least": figure("violated"),
    "age_at_most": lambda v: (v.m("estimate") <= v.m("threshold"), False, "error")}
RULES_2 = RULES_1 | {"e_value": e_value_2}
RULES_3 = RULES_2 | {"test": test_3, "bounded_test": test_3, "e_value": e_value_3}
def severity_1(body, of_clause, discovery, _):  # discovery: what slices.discover says; None where the contract has none
    if body["role"] != "discovered":
        return of_clause
    need(discovery and body["rule"] in ("cannot", "undecided", "e_value", "nonfinite"), "body/role is not of a search")
    return of_clause if discovery == "block" else "soft"
def severity_2(body, of_clause, discovery, max_ratio):  # as 1; against the rest of the corpus, max_ratio says what blocks
    if (body["role"], body["rule"], body["limit_kind"]) != ("discovered", "test", "ratio_to_rest"):
        return severity_1(body, of_clause, discovery, max_ratio)
    threshold = number(body["threshold"], True)
    need(discovery and threshold in (1, max_ratio), "body/threshold is neither 1 nor slices.discover.max_ratio")
    return of_clause if threshold == max_ratio else "soft"
def blocks_1(clause):  # whether its verdict counts for the stage's
    watched = clause.body["role"] in ("monitored", "discovered") and clause.verdict == "inconclusive"
    return clause.body["severity"] == "hard" and clause.body["role"] != "described" and not watched
# Every version of the rules, for as long as its evidence is kept: how a clause's verdict follows from its numbers, how
# severe it is, what counts for its stage. Versions are added, never changed.
RULES = {1: (RULES_1, severity_1, blocks_1), 2: (RULES_2, severity_2, blocks_1), 3: (RULES_3, severity_2, blocks_1)}

class Clause:  # a clause's verdict as an entry records it
    def __init__(self, body):
        need(all(type(body[name]) is str for name in ("clause", "seed", "limit_kind", "method", "message", "rule")) and all(
            type(body[name]) in (str, bool) and body[name] in words for name, words in WORDS.items()) and re.fullmatch(
                "[0-9]+", body["seed"]) and int(body["seed"]) < 2**64 and is_a(body["n"], int) and is_a(body["clusters"], int),
             "it records no verdict")
        self.body, self.verdict, where, stated = body, body["verdict"], mapping(body["where"]), "rules" in body
        self.version, self.tables = body.get("rules", 1), mapping(body.get("tables", {}))
        need(all(type(text) is str for text in (*where.values(), *self.tables.values())), "a slice or table that is no text")
        self.slice = ";".join(name + "=" + where[name] for name in sorted(where))
        self.where = where
        details = {name: number(value, stated) for name, value in mapping(body["details"]).items()}
        members = {name: number(body[name], stated) for name in MEMBERS if name in body}
        need("alpha" in members, "body/alpha is missing")
        need(is_a(self.version, int) and self.version in RULES, f"body/rules {self.version} is a version that is not known here")
        rules, _, self.blocks = RULES[self.version]
        passed, violated, otherwise = rules[body["rule"]](Numbers(members, details, body))
        kept = "pass" if body["no_harm_only"] else "inconclusive"
        self.derived = "violated" if violated else "pass" if passed else otherwise or kept
        if self.derived == "violated" and details.get("holm_rejected", 1) == 0:  # not proven among many tests
            self.derived = "error" if "replicates_wanted" in details else kept
        self.name = body["clause"] + f"[{self.slice}]" * bool(self.slice)
        self.open, self.failed = self.counts("inconclusive"), self.counts("violated") or self.counts("error")
    def counts(self, verdict): return self.verdict == verdict and self.blocks(self)
def combined(clauses):
    blocking = {clause.verdict for clause in clauses if clause.open or clause.failed}
    return next((verdict for verdict in ("violated", "error", "inconclusive") if verdict in blocking), "pass")

def member(value, name):  # of an object, or nothing
    return value.get(name) if type(value) is dict else None

def identity(name):  # what a name is told apart by: not by case, nor by characters that look alike
    same = name.translate(str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ01i", "abcdefghljklmnopqrstuvwxyzoll"))
    return re.sub("rn|vv", lambda two: {"rn": "m", "vv": "w"}[two[0]], same)

def single(pairs):  # an object of JSON without a name twice
    need(len({name for name, _ in pairs}) == len(pairs), "a name twice")
    return dict(pairs)
class Contract:  # what of a contract binds the verdicts under it
    def __init__(self, source):
        document = json.loads(source, object_pairs_hook=single, parse_constant=single)
        slices, discover = document.get("slices", {}), document.get("slices", {}).get("discover")
        self.discovery = discover.get("action", "report") if "discover" in slices else None
        self.max_ratio = discover.get("max_ratio") if "discover" in slices else None
        need(self.max_ratio is None or type(self.max_ratio) in (int, float), "slices.discover.max_ratio is no number")
        self.critical, self.clauses = slices.get("critical", []), {}
        need(self.discovery in ("report", "block") or "discover" not in slices, "slices.discover cannot be read")
        need(type(self.critical) is list and all(type(text) is str for where in self.critical for text in where.values()),
             "slices.critical cannot be read")
        for family in ("numerical", "statistical", "runtime", "observability"):
            need(type(document.get(family, [])) is list, f"{family} is no list")
            for clause in document.get(family, []):
                severity, named = clause.get("severity", "hard"), clause.get("slices", [])
                need(type(clause["id"]) is str and severity in ("hard", "soft") and type(named) is list and all(
                    type(role) is str for role in named), "a clause cannot be read")
                self.clauses[f"{family}.{clause['id']}"] = severity, "critical" in named
    def check(self, clause, stage):
        body, role = clause.body, clause.body["role"]
        need(body["clause"] in self.clauses, "body/clause is no clause of the contract")
        severity, on_critical = self.clauses[body["clause"]]
        critical = on_critical and clause.where in self.critical
        need({"corpus": not clause.where, "critical": critical, "monitored": clause.where and not critical, "discovered": stage ==
              "statistical-slice" and not critical and (clause.where or body["rule"] == "cannot")}.get(role), "body/role is not its slice's")
        need(RULES[clause.version][1](body, severity, self.discovery, self.max_ratio) == body["severity"], "body/severity is not the contract's")

TEXTS = {kind: names.split() for kinds, names in (
    ("verdict_reached", "scope slice verdict action inputs_digest report_digest code_version seed"),
    ("state_changed", "from to stage traffic"), ("approval_given waiver_given", "decision clause evidence_digest"),
    ("schedule_fired", "owner")) for kind in kinds.split()}
class Promotion:  # follows the entries about one promotion and derives each verdict, stage and state again
    def __init__(self, find, first=0):
        self.find, self.first, self.state, self.stage, self.traffic, self.ended_us, self.asked = find, first, "", "", "", 0, set()
        self.request, self.contract, self.batch, self.decided, self.waivers, self.named = {}, None, [], [], {}, set()
    def follow(self, entry):
        body, kind, seq, subject = entry["body"], entry["kind"], entry["seq"], entry["subject"]
        wrong = [name for name in TEXTS.get(kind, ()) if type(body.get(name, "")) is not str]
        if wrong:
            return self.find(UNDERIVABLE, f"entry {seq}: body/{wrong[0]} must be a text")
        digests = subject.get("contract"), *map(body.get, ("inputs_digest", "report_digest", "evidence_digest"))
        self.named.update(digest for digest in digests if type(digest) is str)
        self.asked |= {{"promotion_requested": entry["actor"], "schedule_fired": body.get("owner", "")}.get(kind)}
        if kind == "promotion_requested":  # and who set the recipe that parts of the request came from
            recipe = member(member(body, "request"), "recipe")
            self.asked |= {setter for setter in [member(recipe, "set_by")] if type(setter) is str}
        try:
            if kind == "promotion_requested":
                self.request, self.state = entry, "queued"
            elif kind == "verdict_reached":
                (self.stage_decided if body.get("scope") == "stage" else self.clause_decided)(
                    body, seq, (subject.get("stage", ""), subject.get("attempt", 0)))
            elif kind == "state_changed": self.state_changed(entry, body)
            elif (kind, body.get("decision")) in (("approval_given", "approve"), ("waiver_given", "waive")):
                rule = body.get("people_rule")  # entries of before compare names exactly
                same = identity if type(rule) is int and rule >= 2 else str
                need(same(entry["actor"]) not in map(same, filter(None, self.asked)), "actor may not decide on what it asked for")
                if kind == "waiver_given":
                    given = self.waivers.setdefault((body.get("evidence_digest", ""), body.get("clause", "")), ([], []))
                    given[0].append(entry["actor"])
                    given[1].append(same)
        except BROKEN as error:
            self.find(UNDERIVABLE, f"entry {seq}: {error.args[0]}")
    def clause_decided(self, body, seq, place):
        clause = Clause(body)
        self.named |= set(clause.tables.values())
        joined = not self.batch or (self.batch[-1][0] + 1, self.batch[-1][1]) == (seq, place)
        self.batch = [*(self.batch if joined else []), (seq, place, clause)]
        need(joined, "the verdicts before it belong to no decision of a stage")
        need(body["slice"] == clause.slice, "body/slice is not body/where")
        self.contract is None or self.contract.check(clause, place[0])
        need(clause.derived == clause.verdict,
             f"body/verdict is {clause.verdict}; by the rule {body['rule']} the numbers give {clause.derived}")
    def stage_decided(self, body, seq, place):
        batch, self.batch, clauses, action = self.batch, [], [item[2] for item in self.batch], body.get("action", "")
        need(body["verdict"] in WORDS["verdict"] and type(body["ended"]) is bool, "no verdict, or no ended")
        self.decided += [(seq, place, body, clauses)] * body["ended"]
        need(is_a(body["first"], int) and is_a(body["count"], int), "body/first or body/count is missing")
        if body["count"] > 0 and body["first"] < self.first: return
        need(is_a(body.get("rules", 1), int) and body.get("rules", 1) in RULES, "body/rules is a version that is not known here")
        need(all(body.get("rules") == clause.body.get("rules") for clause in clauses), "body/rules is not that of its verdicts")
        need({place} >= {item[1] for item in batch} and (body["count"], body["first"]) == (
            len(batch), batch[0][0] if batch else body["first"]), "body/first and body/count are not the verdicts before it")
        together, harm = combined(clauses), any(clause.verdict == "violated" for clause in clauses)
        derived = "error" if action in ("failed", "revert") else "inconclusive" if body["ended"] and action == "inconclusive" or (
            action and not body["ended"] and together == "pass") else "violated" if body["ended"] and harm and action not in (
                "", "finish") else together
        need(derived == body["verdict"], f"body/verdict is {body['verdict']}; clauses and action {action!r} give {derived}")
        need(action not in ("advance", "wait_approval") or together == "pass", f"body/action {action} needs all hard clauses to pass")
    def passed(self, stage):  # its newest attempt passed, or two people waived each open clause
        _, _, body, clauses = next((d for d in reversed(self.decided) if d[1][0] == stage), (0, 0, {}, []))
        given = [self.waivers.get((body.get("report_digest", ""), c.body["clause"]), ((), ())) for c in clauses if c.open]
        given = [set(map(identity if identity in rules else str, names)) for names, rules in given]
        return body.get("verdict") == "pass" or body.get("verdict") == "inconclusive" and all(len(who) > 1 for who in given)
    def state_changed(self, entry, body):
        before, self.state, self.traffic = self.state, body.get("to", ""), body.get("traffic", "")
        stage, self.stage = self.stage, body.get("stage", "")
        self.ended_us = entry["time_us"] if self.state in TERMINAL and before not in TERMINAL else self.ended_us
        need(before in ("", body.get("from", "")), f"body/from is {body.get('from')}, and the promotion was {before}")
        due = STAGES if self.state == "succeeded" else [] if self.stage == stage or self.stage not in STAGES[1:] else [
            STAGES[STAGES.index(self.stage) - 1]]
        need(not self.request or all(map(self.passed, due)), f"it goes to {self.state} in {self.stage}, and not all of {due} passed")
        need(self.state != "rejected" or not self.request or entry["actor"] != "driftgate" or any(
            decided["verdict"] == "violated" for _, _, decided, _ in self.decided), "it is rejected, and no stage was violated")
    def statements(self, origin):  # the in-toto statements that follow
        model, promotion, *digests = (self.request["subject"].get(n, "") for n in ("model", "promotion", "checkpoint", "contract"))
        (checkpoint, contract), made, inputs = ({"sha256": digest.removeprefix("sha256:")} for digest in digests), [], []
        state = lambda kind, predicate: made.append(compact({
            "_type": "https://in-toto.io/Statement/v1", "predicateType": kind, "predicate": predicate,
            "subject": [{"name": model, "digest": checkpoint}]}))
        for seq, (stage, attempt), body, clauses in self.decided:
            url = f"urn:driftgate:promotion:{promotion}/{stage}/{attempt}"
            config = [{"name": "contract", "digest": contract}, {"name": "entry", "uri": f"urn:driftgate:log:{origin}#{seq}"}] + [
                {"name": name, "digest": {"sha256": body[member].removeprefix("sha256:")}} for name, member in
                (("measurement", "inputs_digest"), ("report", "report_digest")) if body.get(member)]
            state("https://in-toto.io/attestation/test-result/v0.1", {
                "result": {"pass": "PASSED", "inconclusive": "WARNED"}.get(body["verdict"], "FAILED"), "configuration": config,
                "url": url, "passedTests": [c.name for c in clauses if c.verdict == "pass"],
                "failedTests": [c.name for c in clauses if c.failed], "warnedTests": [
                    c.name for c in clauses if c.verdict != "pass" and not c.failed]})
            inputs.append({"uri": url, "digest": {"sha256": sha(made[-1].encode()).hex()}})
        if self.state in TERMINAL:
            good = (self.state, self.traffic != "reverted") == ("succeeded", True)
            state("https://slsa.dev/verification_summary/v1", {
                "verifier": {"id": f"urn:driftgate:log:{origin}"}, "inputAttestations": inputs,
                "timeVerified": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.ended_us // 10**6)),
                "resourceUri": f"urn:driftgate:model:{model}", "verificationResult": "PASSED" if good else "FAILED",
                "policy": {"uri": "urn:driftgate:contract", "digest": contract},
                "verifiedLevels": ["DRIFTGATE_" + s.upper().replace("-", "_") for s in STAGES] if good else ["FAILED"]})
        return made

class Bundle:
    def __init__(self, trust, older_head=None, running=False):
        self.trust, self.older_head, self.findings, self.kinds, self.digest = trust, older_head, [], "", hashlib.sha256()
        self.running, self.last_blob = running, "~"
        self.header, self.range, self.older, self.last, self.newest, self.open, self.payloads = {}, None, [], None, 0, {}, []
        self.promotion, self.gap, self.stack, self.times, self.blobs, self.signers = Promotion(self.find), False, [], [-1, 2**63], {}, []
    def find(self, code, what): self.findings.append((code, what))
    def attempt(self, what, function, *arguments):
        try:
            function(*arguments)
        except BROKEN as error:
            self.find(error.args[1] if type(error) is Found else TAMPERED, f"{what}: {error.args[0]}")
    def open_head(self, note, what):
        origin, size, root, message, signatures = read_note(note)
        keys = [k for k in self.trust if k["use"] == "head" and k["name"] == origin and k["from_size"] <= size]
        keys.sort(key=lambda k: -k["from_size"])  # the newest, and at the size of a rotation the one before it too
        keys = keys[:1 + sum(k["from_size"] == size for k in keys)]
        tried = [(k, is_signed(k["raw"], message, signatures[k["id"]])) for k in keys if k["id"] in signatures]
        self.signers += [key for key, good in tried if good][:1]
        tried and all(good for _, good in tried) or self.find(
            TAMPERED if tried else UNTRUSTED, f"{what}: no good signature by a trusted key")
        return origin, size, root
    def take(self, source):
        record = canonical(source.decode())
        kind, single = record["t"], "promotion" in (self.header or record)
        self.digest.update(source + b"\n" if kind != "end" else b"")
        self.kinds += kind[0] if kind not in ("bundle", "end") else "hx"[kind == "end"]
        more = {"entry": {"proof": list} if single else {}, "bundle": {"promotion": str} if single else {"from_us": int, "to_us": int}}
        shape = SHAPES[kind] | more.get(kind, {})
        need(set(record) == set(shape) and all(is_a(record[name], shape[name]) for name in shape), "other members than it should have")
        hashes = [hash_ for value in record.values() if type(value) is list for hash_ in value] + [record.get("root", "0" * 64)]
        need(all(re.fullmatch("[0-9a-f]{64}", hash_) for hash_ in hashes), "a hash that is not 64 hex digits")
        need(bool(self.header) != (kind == "bundle"), "the header must be the first line, once")
        getattr(self, "take_" + kind)(record)
    def take_bundle(self, record):
        self.header, self.origin, self.size, self.root = record, "", 0, bytes(32)
        need(record["v"] == 1 and record.get("promotion") != "" and record.get("from_us", 0) <= record.get("to_us", 0), "no header")
        self.origin, self.size, self.root = self.open_head(record["checkpoint"], "the checkpoint")
        need((record["origin"], record["tree_size"]) == (self.origin, self.size), "origin or tree_size is not the checkpoint's")
    def take_consistency(self, record):
        old, root, proof = record["size"], bytes.fromhex(record["root"]), record["proof"]
        self.older = [(old, root)]
        need(root == sha(b"") and not proof if old == 0 else old <= self.size and consistent_roots(
            old, self.size, proof, root) == (root, self.root), "the consistency proof does not verify")
    def take_range(self, record):
        self.range, self.at, levels = record, record["first"], list(levels_between(0, record["first"]))
        need(record["first"] <= record["end"] <= self.size and len(levels) == len(record["left"]) and len(list(
            levels_between(record["end"], self.size))) == len(record["right"]), "a wrong range")
        self.stack = list(zip(levels, map(bytes.fromhex, record["left"])))
    def take_entry(self, record):
        seq, leaf, gap, self.gap = record["seq"], sha(b"\0" + record["entry"].encode()), self.gap, True
        entry = read_entry(record["entry"], seq)
        self.newest, self.gap = max(self.newest, entry["time_us"]), gap
        (self.range_entry if self.range else self.promotion_entry)(entry, seq, entry["subject"], leaf, record)
    def promotion_entry(self, entry, seq, subject, leaf, record):
        need(seq < self.size and path_root(leaf, seq, self.size, record["proof"]) == self.root, f"entry {seq}: its proof fails")
        need(subject.get("promotion") == self.header["promotion"], f"entry {seq}: subject/promotion is another")
        need(self.last is None or seq > self.last, f"entry {seq} stands after entry {self.last}")
        contract, last, self.last = self.blobs.get(subject.get("contract")), self.last, seq
        if subject.get("prior") != last or last is None and entry["kind"] != "promotion_requested":
            self.find(INCOMPLETE, f"entry {seq}: subject/prior is {subject.get('prior')}, the entry before it here is {last}")
        last is None and contract is None and self.find(INCOMPLETE, "the contract is not in front of the entries")
        if last is None and contract is not None:
            try:
                self.promotion.contract = Contract(contract)
            except BROKEN as error:
                self.find(UNDERIVABLE, f"the contract cannot be read: {error.args[0]}")
        self.promotion.follow(entry)
    def range_entry(self, entry, seq, subject, leaf, _):
        self.gap |= seq != self.at
        need(self.at <= seq < self.range["end"], f"entry {seq} stands where entry {self.at} should")
        seq == self.at or self.find(INCOMPLETE, f"entries {self.at} to {seq - 1} are missing")
        self.times = [entry["time_us"] if self.at == self.range["first"] else self.times[0], entry["time_us"]]
        self.at, name = seq + 1, subject.get("promotion")
        push(self.stack, 0, leaf)
        if name is not None:
            first = seq if entry["kind"] == "promotion_requested" else self.range["first"]
            self.open.setdefault(name, Promotion(self.find, first)).follow(entry)
            if self.open[name].state in TERMINAL: del self.open[name]
    def take_attestation(self, record):
        kind, (mark,), payload = *map(record["envelope"].pop, ("payloadType", "signatures")), unbase64(record["envelope"].pop("payload"))
        need(not record["envelope"] and set(mark) == {"keyid", "sig"} and (type(mark["keyid"]), kind) == (
            str, "application/vnd.in-toto+json"), "no in-toto envelope")
        keys = [k for k in self.trust if k["use"] == "attestation" and mark["keyid"] in (
            k["digest"].hex(), f"{k['name']}+{k['id'].hex()}")][:1]  # the second is that of older envelopes
        self.payloads.append(payload)
        self.signers += keys
        message = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
        need(keys and is_signed(keys[0]["raw"], message, unbase64(mark["sig"])),
             f"attestation {len(self.payloads)} has no good signature by a trusted key", TAMPERED if keys else UNTRUSTED)
    def take_blob(self, record):
        digest, data = record["digest"], unbase64(record["bytes"])
        need("sha256:" + sha(data).hex() == digest and digest not in self.blobs, f"blob {digest}: other bytes, or twice")
        need("e" not in self.kinds and "a" not in self.kinds or digest < self.last_blob, "blobs are not sorted by falling digest")
        self.blobs[digest], self.last_blob = data, digest if "e" in self.kinds or "a" in self.kinds else "~"
    def take_end(self, record):
        need(all(record[name] == self.kinds.count(name[0]) for name in ("entries", "attestations", "blobs")), "other lines", INCOMPLETE)
        need(record["digest"] == "sha256:" + self.digest.hexdigest(), "the end has the digest of other lines")
    def check_older(self):
        signers, (origin, size, root) = self.signers[:], self.open_head(self.older_head, "the older head")
        self.signers, known = signers, {**dict(self.older), 0: sha(b""), self.size: self.root}  # its key may be retired by now
        need(origin == self.origin and size <= self.size, f"the older head has {size} entries of {origin}", FORKED)
        need(size in known, f"no consistency proof from {size} entries: export it with that older head", INCOMPLETE)
        need(known[size] == root, f"the first {size} entries are not those of the older head", FORKED)
    def check_range(self):
        need(self.range, "the range is missing", INCOMPLETE)
        first, end, right = (self.range[name] for name in ("first", "end", "right"))
        self.gap |= self.at < end
        self.at >= end and (first < end or not self.size) or self.find(INCOMPLETE, "entries at the end of the range are missing")
        (first == 0 or self.times[0] < self.header["from_us"]) and (end == self.size or self.times[1] >= self.header["to_us"]) or (
            self.find(INCOMPLETE, "the range does not reach beyond the times asked for"))
        for level, hash_ in zip(levels_between(end, self.size), map(bytes.fromhex, right)):
            push(self.stack, level, hash_)
        *higher, root = [hash_ for _, hash_ in self.stack] or [sha(b"")]
        root = functools.reduce(lambda low, high: node(high, low), reversed(higher), root)
        need(self.gap or root == self.root, "the entries do not make the root of the checkpoint")
    def check_promotion(self):
        need(self.last is not None, "there is no entry about the promotion", INCOMPLETE)
        set(self.blobs) <= self.promotion.named or self.find(INCOMPLETE, "a blob is named by no entry that is here")
        self.running or self.promotion.state in TERMINAL or self.find(INCOMPLETE, (
            f"the promotion has not ended in this bundle: it is {self.promotion.state}. With --running that is accepted"))
        expected = [made.encode() for made in self.promotion.statements(self.origin)] if self.promotion.request else []
        need(len(self.payloads) >= len(expected), f"there are {len(self.payloads)} of {len(expected)} attestations", INCOMPLETE)
        for i, payload in enumerate(self.payloads):
            need(expected[i:i + 1] == [payload], f"attestation {i + 1} does not follow from the entries",
                 TAMPERED if payload in expected else UNDERIVABLE)
    def finish(self):
        self.kinds.endswith("x") or self.find(INCOMPLETE, "the bundle has no end: it was cut off")
        order = "(hc?b?(e+a*b*|a+b*)?x?)?" if "promotion" in self.header else "(hc?(re*)?x?)?"
        re.fullmatch(order, self.kinds) or self.find(TAMPERED, "lines are out of order")
        if self.header:
            self.older_head is None or self.attempt("the older head", self.check_older)
            self.attempt("the bundle", self.check_promotion if "promotion" in self.header else self.check_range)
            retired = any(self.newest >= key.get("until_us", self.newest + 1) for key in self.signers)
            retired and self.find(UNTRUSTED, "a key was retired before the newest entry of the bundle")
        codes = {code for code, _ in self.findings}
        return next((c for c in (TAMPERED, UNTRUSTED, FORKED, INCOMPLETE, UNDERIVABLE) if c in codes), OK), self.findings
def verify(file, trust, older_head=None, running=False):  # of a bundle as a binary file: its code, and [(code, what was found)]
    bundle = Bundle(trust, older_head, running)
    for source in file:
        if len(source) - source.endswith(b"\n") > 48 << 20:
            bundle.find(TAMPERED, "a line of more than 48 MiB")
            break
        if not source.endswith(b"\n"):
            bundle.find(INCOMPLETE, "the last line is cut off")
            break
        bundle.attempt("a line", bundle.take, source[:-1])
    return bundle.finish()
def kept_head(path): return pathlib.Path(path).read_bytes().decode(errors="surrogateescape")  # what is no UTF-8 is refused later
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trust", required=True, help="file with the keys that you trust")
    parser.add_argument("--older-head", help="a head that you kept: the bundle must continue it")
    parser.add_argument("--running", action="store_true", help="accept a promotion that has not ended in its bundle")
    parser.add_argument("bundles", nargs="+")
    arguments, result = parser.parse_args(), OK
    trust = read_trust(pathlib.Path(arguments.trust).read_text(encoding="utf-8"))
    older = kept_head(arguments.older_head) if arguments.older_head else None
    for path in arguments.bundles:
        with open(path, "rb") as file:
            code, findings = verify(file, trust, older, arguments.running)
        result = result or code
        print(f"{path}: {NAMES[code]}", *(f"  {NAMES[found]}: {what}" for found, what in findings[:20]), sep="\n")
    return result
if __name__ == "__main__":
    sys.exit(main())
