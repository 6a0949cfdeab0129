"""The independent verifier lets neither who asked for a promotion nor who set the schedule that asked decide on it
(tests/daemon/pipeline/evidence_walk_test.cpp has the same case)."""
import importlib.util
import pathlib
import sys

spec = importlib.util.spec_from_file_location("verify_bundle", pathlib.Path(sys.argv[1]) / "scripts" / "verify_bundle.py")
verifier = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verifier)


def is_refused(actor):
    faults = []
    promotion = verifier.Promotion(lambda code, what: faults.append(code))
    entries = [("promotion_requested", "schedule/nightly", {}), ("schedule_fired", "schedule/nightly", {"owner": "sam"}),
               ("approval_given", actor, {"decision": "approve"})]
    for seq, (kind, who, body) in enumerate(entries):
        promotion.follow({"body": body, "kind": kind, "seq": seq, "subject": {}, "actor": who})
    return faults == [verifier.UNDERIVABLE]


found = [is_refused(actor) for actor in ("schedule/nightly", "sam", "anna")]
print(found)
sys.exit(found != [True, True, False])
