"""Promotions from end to end: the outcomes of the demo and what can go wrong on the way."""
import base64
import json
import os
import struct
import subprocess
import sys

from harness import ROOT, call, check, verified, wait_for
from world import DATA, MODEL_DIR, TERMINAL, run

sys.path.insert(0, os.path.join(ROOT, "tests", "evidence"))
import harness  # noqa: E402
import other_tools  # noqa: E402

CANDIDATE_ENTRY_KINDS = {"promotion_requested", "state_changed", "job_finished", "verdict_reached",
                         "route_desired", "route_applied", "approval_given"}


def entry_kinds(world, promotion):
    return {entry["kind"] for entry in world.entries(promotion=promotion)}


def trust_of(world):
    """The keys as an auditor keeps them, from the API and from the key's file."""
    name, _, key = world.api("GET", "/v1/log/key").strip().split("+", 2)
    public = subprocess.run(["openssl", "pkey", "-in", f"{world.folder}/data/attestation.key", "-pubout", "-outform",
                             "DER"], check=True, capture_output=True).stdout[-32:]
    keys = [{"use": "head", "name": name, "key": base64.b64encode(base64.b64decode(key)[1:]).decode(), "from_us": 0},
            {"use": "attestation", "name": name, "key": base64.b64encode(public).decode(), "from_us": 0}]
    path = os.path.join(world.folder, "trust.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"v": 1, "keys": keys}, file)
    return path


def bundles_verify(world, promotion, older_head):
    """The promotion's bundle, with its tables, and that of all entries, in both verifiers and by code that is not ours,
    against a head kept before."""
    kept = os.path.join(world.folder, "older.note")
    with open(kept, "w", encoding="utf-8", newline="") as file:
        file.write(older_head)
    bundles = [world.export("promotion.bundle", "--promotion", promotion, "--with-tables", "--older-head", kept),
               world.export("range.bundle", "--from", "2020-01-01", "--to", "2100-01-01", "--older-head", kept)]
    trust = trust_of(world)
    printed = verified(bundles, trust, older=kept)
    for stage in ("offline-numeric", "statistical-slice"):
        check(f"{stage} (attempt 1): decided again" in printed, f"{stage} was not decided again:\n{printed}")
    print(other_tools.check(trust, kept, bundles))


def a_bundle_of_a_running_promotion_needs_the_flag(world, promotion):
    """The export says so, and both verifiers call the bundle incomplete without --running."""
    token, path, trust = (os.path.join(world.folder, name) for name in ("running.token", "running.bundle", "running-trust.json"))
    with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write(world.tokens["auditor"])
    os.replace(trust_of(world), trust)
    run_program = lambda *argv: subprocess.run(argv, capture_output=True, text=True, check=False)
    said = run_program(harness.DRIFTGATE, "audit", "export", "--promotion", promotion, "--out", path, "--url", world.url, "--token-file", token)
    check(said.returncode == 0 and "--running" in said.stdout, f"audit export: {said.returncode}\n{said.stdout}{said.stderr}")
    for flags, code in ([], 4), (["--running"], 0):
        for verifier in ([harness.DRIFTGATE, "audit", "verify"], [sys.executable, os.path.join(ROOT, "scripts", "verify_bundle.py")]):
            done = run_program(*verifier, "--trust", trust, *flags, path)
            check(done.returncode == code, f"{verifier[-1]} {flags}: {done.returncode}, expected {code}\n{done.stdout}{done.stderr}")


def bf16_is_promoted(world):
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    load = world.load()
    older_head = world.api("GET", "/v1/log/checkpoint")
    promotion = world.promote("bf16", "bf16")
    a_bundle_of_a_running_promotion_needs_the_flag(world, promotion)
    waiting = world.reach(promotion, "awaiting_approval")
    refused = world.api("POST", f"/v1/promotions/{promotion}/approve",
                        {"evidence_digest": waiting["approval"]["evidence_digest"], "reason": "mine"}, who="admin")
    check(refused["code"] == "forbidden", f"an admin approved: {refused}")
    stale = world.api("POST", f"/v1/promotions/{promotion}/approve",
                      {"evidence_digest": "sha256:" + "0" * 64, "reason": "unread"}, who="approver")
    check(stale["code"] == "conflict", f"an approval of other evidence counted: {stale}")
    world.approve(promotion)
    done = world.reach(promotion, "succeeded")
    check(done["traffic"] == "live", f"traffic is {done['traffic']}")
    figures = load.stop()
    check(figures["failed"] == 0, f"users saw failures: {figures}")
    model = world.api("GET", "/v1/models/tinylm", expect=200)
    check(model["incumbent"]["kernel"] == "tinylm-bf16", f"the incumbent is {model['incumbent']}")
    missing = CANDIDATE_ENTRY_KINDS - entry_kinds(world, promotion)
    check(not missing, f"no evidence of kinds {missing}")
    for stage in ("offline-numeric", "statistical-slice", "shadow-runtime", "canary"):
        check(world.report(promotion, stage)["verdict"] == "pass", f"{stage} has no pass in its report")
    bundles_verify(world, promotion, older_head)


def int8_static_is_rejected_and_the_language_is_named(world):
    world.install_incumbent()
    world.start_engine("int8-static", "int8-static")
    world.register_engine("int8-static", "int8-static")
    older_head = world.api("GET", "/v1/log/checkpoint")
    promotion = world.promote("int8-static", "int8-static")
    done = world.reach(promotion, "rejected")
    check(done["stage"] == "statistical-slice", f"rejected in {done['stage']}: {done['reason']}")
    check(done["traffic"] == "never_exposed", f"traffic is {done['traffic']}")
    report = world.report(promotion, "statistical-slice")
    violated = [v for v in report["verdicts"] if v["verdict"] == "violated"]
    check(any(v["where"].get("language") == "fr" for v in violated), f"French is not named: {violated}")
    corpus = [v for v in report["verdicts"] if v["clause"] == "statistical.corpus-tv"]
    check(corpus and corpus[0]["verdict"] == "pass", f"the corpus mean is not within its limit: {corpus}")
    check("language=fr" in done["reason"], f"the reason does not name the language: {done['reason']}")
    bundles_verify(world, promotion, older_head)


def promote_failing(world, *flags):
    world.install_incumbent()
    world.start_engine("int8", "int8", "--fail-share", "0.4", *flags)
    world.register_engine("int8", "int8")
    return world.load(), world.promote("int8", "int8")


def int8_that_fails_later_is_rolled_back_in_canary(world):
    later = os.path.join(world.folder, "fail")
    load, promotion = promote_failing(world, "--fail-file", later)
    world.reach(promotion, ("running", "awaiting_approval"), "canary")
    wait_for("a share in canary", world.observed_share)
    open(later, "w", encoding="ascii").close()  # nobody approves more than the first share
    done = world.reach(promotion, "rejected")
    check(done["stage"] == "canary", f"rejected in {done['stage']}: {done['reason']}")
    check(done["traffic"] == "reverted", f"traffic is {done['traffic']}")
    check(world.observed_share() == 0, "the candidate still has a share")
    figures = world.report(promotion, "canary")
    harm = [v for v in figures["verdicts"] if v["verdict"] == "violated"]
    check(harm and harm[0]["e_value"] is not None, f"no e-value with the violated verdict: {figures['verdicts']}")
    check(world.api("GET", "/v1/models/tinylm")["hold"] is not None, "no hold after the rollback")
    again = world.api("POST", "/v1/promotions", {"model": "tinylm", "engine": "int8",
                      "contract": world.contract("int8"), "captures": world.captures("int8")}, who="promoter")
    check(again.get("code") == "conflict" and "hold" in again["detail"], f"promoted on hold: {again}")
    world.api("POST", "/v1/models/tinylm/lift-hold", {"reason": "engine repaired"}, who="operator", expect=200)
    check(load.stop()["failed"] == 0, "users saw the candidate's failures in spite of the retry")


def int8_that_fails_from_the_start_is_stopped_in_shadow(world):
    load, promotion = promote_failing(world, "--fail-after-requests", "12")
    done = world.reach(promotion, "rejected")
    check(done["stage"] == "shadow-runtime", f"rejected in {done['stage']}: {done['reason']}")
    check(done["traffic"] == "never_exposed", f"traffic is {done['traffic']}")
    check(load.stop()["failed"] == 0, "users saw failures")


def restarts_in_every_stage_change_nothing(world):
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    load = world.load()
    promotion = world.promote("bf16", "bf16")
    stages = ("offline-numeric", "statistical-slice", "shadow-runtime", "canary")
    for i, stage in enumerate(stages):
        seen = world.reach(promotion, ("running", "awaiting_approval"), stages[i:])  # some stages are short
        world.daemon.stop()
        world.start_daemon()
        after = world.promotion(promotion)
        check(after["state"] not in TERMINAL, f"the restart in {stage} ended it: {after}")
        check(seen["id"] == after["id"], "another promotion")
    world.approve(promotion)
    world.reach(promotion, "succeeded")
    check(load.stop()["failed"] == 0, "users noticed a restart")
    started = [e for e in world.entries(kind="daemon_started")]
    check(len(started) == 5, f"{len(started)} daemon_started entries, expected 5")


def kill_9_in_canary_never_exposes_more(world):
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    load = world.load()
    promotion = world.promote("bf16", "bf16")
    for _ in range(3):
        world.reach(promotion, ("running", "awaiting_approval"), "canary")
        before = wait_for("a route in canary", lambda: world.route()["desired"]["candidate_bp"])
        world.daemon.kill()
        world.start_daemon()
        after = world.route()
        check(after["observed"]["candidate_bp"] <= before,
              f"exposed {after['observed']['route']['candidate_bp']} bp after kill -9, {before} before")
        wait_for("desired and observed route to agree", lambda: world.route()["agree"])
    world.approve(promotion)
    world.reach(promotion, "succeeded")
    check(load.stop()["failed"] == 0, "users noticed kill -9")


def abort_in_canary_takes_the_share_to_zero(world):
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    load = world.load()
    promotion = world.promote("bf16", "bf16")
    world.reach(promotion, ("running", "awaiting_approval"), "canary")
    wait_for("a share in canary", world.observed_share)
    done = world.api("POST", f"/v1/promotions/{promotion}/abort", {"reason": "changed our minds"},
                     who="operator", expect=200)
    check(done["state"] == "aborted" and done["traffic"] == "reverted", f"{done['state']}, {done['traffic']}")
    check(world.observed_share() == 0, "abort answered before weight 0 was read back")
    check(load.stop()["failed"] == 0, "users saw failures")


def a_candidate_that_dies_is_rolled_back(world):
    world.install_incumbent()
    engine = world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    load = world.load()
    promotion = world.promote("bf16", "bf16")
    world.reach(promotion, ("running", "awaiting_approval"), "canary")
    wait_for("a share in canary", world.observed_share)
    engine.kill()
    done = world.reach(promotion, "rejected")
    check(done["traffic"] == "reverted" and world.observed_share() == 0, f"{done['traffic']}: {done['reason']}")
    check(load.stop()["failed"] == 0, "users saw the dead candidate in spite of the retry")


def traffic_survives_the_daemon_and_the_expired_lease_reverts(world):
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    load = world.load()
    promotion = world.promote("bf16", "bf16")
    world.reach(promotion, ("running", "awaiting_approval"), "canary")
    wait_for("a share in canary", world.observed_share)
    world.daemon.kill()
    check(world.complete().status == 200, "the router stopped with the daemon")
    served_by = lambda: {call(world.router + "/v1/completions", "POST",
                              {"model": "tinylm", "prompt": "x", "max_tokens": 1},
                              {"driftgate-key": f"probe-{i}"}).headers.get("driftgate-version") for i in range(60)}
    wait_for("the lease to expire and leave one version", lambda: len(served_by()) == 1)
    world.start_daemon()
    wait_for("the route to agree again", lambda: world.route()["agree"])
    world.approve(promotion)
    world.reach(promotion, "succeeded")
    check(load.stop()["failed"] == 0, "users noticed")


def an_engine_that_answers_garbage_is_refused_at_registration(world):
    world.start_engine("garbage", "bf16", "--garbage-share", "1.0")
    world.api("POST", "/v1/kernels", {"name": "tinylm-bf16", "engine": "tinylm", "dtype": "bf16"},
              who="promoter", expect=201)
    refused = world.api("POST", "/v1/engines", {"name": "garbage", "url": world.engines["garbage"].url,
                                                "kernel": "tinylm-bf16", "checkpoint": {"uri": MODEL_DIR}},
                        who="promoter")
    check(refused.get("code") == "unavailable" and "completions" in refused["detail"],
          f"an engine that answers garbage was not refused for that: {refused}")
    check(not world.api("GET", "/v1/engines", expect=200)["items"], "it was registered")


def an_engine_that_answers_garbage_later_is_stopped_in_shadow(world):
    world.install_incumbent()
    world.start_engine("bf16", "bf16", "--garbage-share", "0.5", "--garbage-after-requests", "12")
    world.register_engine("bf16", "bf16")
    load = world.load()
    done = world.reach(world.promote("bf16", "bf16"), "rejected")
    check(done["stage"] == "shadow-runtime" and done["traffic"] == "never_exposed",
          f"rejected in {done['stage']}, traffic {done['traffic']}: {done['reason']}")
    check(load.stop()["failed"] == 0, "users saw garbage")


def write_capture(path, source, change):
    """A copy of a capture with `change(header, data)` applied."""
    raw = open(source, "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + size]), bytearray(raw[8 + size:])
    result = change(header, data)
    if isinstance(result, bytes):
        open(path, "wb").write(result)
        return path
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
    return path


def a_capture_with_nan_is_rejected_by_position(world):
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    train = f"{DATA}/captures/numeric_train.safetensors"

    def poison(header, data):
        start = header["logits"]["data_offsets"][0]
        row_bytes = header["logits"]["shape"][1] * 4
        data[start + 5 * row_bytes + 8:start + 5 * row_bytes + 12] = struct.pack("<f", float("nan"))
        header["__metadata__"]["kernel"] = "tinylm-bf16"

    bad = write_capture(f"{world.folder}/nan.safetensors", train, poison)
    captures = world.captures("bf16")
    captures["numeric"]["inf"] = bad
    done = world.reach(world.promote("bf16", "bf16", captures=captures), "rejected")
    check(done["stage"] == "offline-numeric", f"rejected in {done['stage']}")
    check("nonfinite" in done["reason"] or "finite" in done["reason"], f"the reason hides it: {done['reason']}")


def a_hostile_capture_is_refused_with_the_rule_that_it_breaks(world):
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    train = f"{DATA}/captures/numeric_train.safetensors"
    contract = world.contract("bf16")
    raw = open(train, "rb").read()
    hostile = {
        "cut": raw[: len(raw) // 2],
        "huge-header": struct.pack("<Q", 1 << 62) + raw[8:],
        "no-json": raw[:8] + b"x" + raw[9:],
        "empty": b"",
    }
    for name, content in hostile.items():
        path = f"{world.folder}/{name}.safetensors"
        open(path, "wb").write(content)
        captures = world.captures("bf16")
        captures["numeric"]["inf"] = path
        body = {"model": "tinylm", "engine": "bf16", "contract": contract, "captures": captures}
        for query in ("?dry_run=true", ""):
            answer = world.api("POST", "/v1/promotions" + query, body, who="promoter", expect=422)
            check(answer["code"] == "invalid_capture", f"{name}{query}: {answer}")
            check(f"{name}.safetensors" in json.dumps(answer), f"{name}{query}: the answer does not say which file: {answer}")
    check(not world.api("GET", "/v1/promotions", expect=200)["items"], "a promotion began")


def requests_without_a_token_change_nothing(world):
    world.install_incumbent()
    for method, path in (("GET", "/v1/promotions"), ("POST", "/v1/promotions"), ("POST", "/v1/contracts"),
                         ("GET", "/v1/evidence"), ("POST", "/v1/tokens")):
        for headers in ({}, {"Authorization": "Bearer dg_" + "0" * 64}, {"Authorization": "Basic eDp5"}):
            answer = call(world.url + path, method, "{}" if method == "POST" else None, headers)
            check(answer.status == 401 and answer.json()["code"] == "unauthenticated",
                  f"{method} {path} with {headers}: {answer.status} {answer.body[:200]}")
    check(not world.api("GET", "/v1/promotions", expect=200)["items"], "something was created")


def every_kind_of_contract_error_is_refused_by_name(world):
    text = world.contract_text.replace("@KERNEL@", "tinylm-bf16")
    broken = {
        "kl_inf_train": ("metric: kl_inf_train", "metric: kl_inf_trian"),
        "range": ("metric: tv, aggregate: sequence_mean, clip: 0.25, max: ", "metric: tv, aggregate: sequence_mean, clip: 0.25, max: 7"),
        "dimension": ("{language: de}", "{lingo: de}"),
        "increase": ("{share: 0.25}", "{share: 0.9}"),
        "more than one": ("id: finite", "id: kl"),
        "alias": ("name: ", "name: &anchor "),
        "max": ("max: 0}", "maximum: 0}"),
        "matches no clause": ("runtime.errors", "runtime.erors"),
        "yaml": ("kind: KernelContract", "kind: [KernelContract"),
    }
    for name, (old, new) in broken.items():
        check(old in text, f"the sample lost {old!r}")
        answer = world.api("POST", "/v1/contracts", text.replace(old, new, 1), who="promoter",
                           headers={"Content-Type": "application/yaml"})
        check(answer.get("code") == "invalid_document", f"{name}: {answer}")
        check(":" in answer["detail"], f"{name}: no position in {answer['detail']!r}")
    check(not world.api("GET", "/v1/contracts", expect=200)["items"], "a broken contract was registered")


TESTS = [
    bf16_is_promoted,
    int8_static_is_rejected_and_the_language_is_named,
    int8_that_fails_later_is_rolled_back_in_canary,
    int8_that_fails_from_the_start_is_stopped_in_shadow,
    restarts_in_every_stage_change_nothing,
    kill_9_in_canary_never_exposes_more,
    abort_in_canary_takes_the_share_to_zero,
    a_candidate_that_dies_is_rolled_back,
    traffic_survives_the_daemon_and_the_expired_lease_reverts,
    an_engine_that_answers_garbage_is_refused_at_registration,
    an_engine_that_answers_garbage_later_is_stopped_in_shadow,
    a_capture_with_nan_is_rejected_by_position,
    a_hostile_capture_is_refused_with_the_rule_that_it_breaks,
    requests_without_a_token_change_nothing,
    every_kind_of_contract_error_is_refused_by_name,
]


def started(test):
    def with_daemon(world):
        world.start_daemon()
        test(world)
    return with_daemon


if __name__ == "__main__":
    run({test.__name__: started(test) for test in TESTS})
