"""The independent verifier lets neither who asked for a promotion nor who set the schedule or the recipe that it came from
decide on it, and tells people apart as the entry says (tests/daemon/pipeline/evidence_walk_test.cpp has the same cases)."""
import importlib.util
import pathlib
import sys

spec = importlib.util.spec_from_file_location("verify_bundle", pathlib.Path(sys.argv[1]) / "scripts" / "verify_bundle.py")
verifier = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verifier)


def is_refused(actor, **rule):
    faults = []
    promotion = verifier.Promotion(lambda code, what: faults.append(code))
    request = {"request": {"model": "m", "recipe": {"revision": 3, "set_by": "rita"}}}
    entries = [("promotion_requested", "schedule/nightly", request), ("schedule_fired", "schedule/nightly", {"owner": "sam"}),
               ("approval_given", actor, {"decision": "approve", **rule})]
    for seq, (kind, who, body) in enumerate(entries):
        promotion.follow({"body": body, "kind": kind, "seq": seq, "subject": {}, "actor": who})
    return faults == [verifier.UNDERIVABLE]


def waivers_suffice(*given):
    """Whether waivers by (actor, members of the body) let an inconclusive stage pass."""
    promotion = verifier.Promotion(lambda code, what: None)
    for seq, (who, rule) in enumerate(given):
        promotion.follow({"kind": "waiver_given", "seq": seq, "subject": {}, "actor": who, "body": {
            "decision": "waive", "evidence_digest": "sha256:r", "clause": "numerical.kl", **rule}})
    clause = type("Clause", (), {"open": True, "body": {"clause": "numerical.kl"}})
    promotion.decided = [(9, ("offline-numeric", 1), {"verdict": "inconclusive", "report_digest": "sha256:r"}, [clause])]
    return promotion.passed("offline-numeric")


found = [is_refused(actor) for actor in ("schedule/nightly", "sam", "rita", "anna")]
by_identity = {"people_rule": 2}
found += [is_refused("Sam"), is_refused("Sam", **by_identity), is_refused("5am", **by_identity), is_refused("anna", **by_identity),
          is_refused("R1ta"), is_refused("R1ta", **by_identity)]
found += [is_refused("Sam", people_rule=True), is_refused("Sam", people_rule="2"), is_refused("Sam", people_rule=1)]
found += [waivers_suffice(("Both", {}), ("both", {})), waivers_suffice(("Both", by_identity), ("b0th", by_identity)),
          waivers_suffice(("Both", {}), ("both", by_identity)), waivers_suffice(("anna", by_identity), ("bob", by_identity))]
print(found)
sys.exit(found != [True, True, True, False, False, True, False, False, False, True, False, False, False,
                   True, False, False, True])
