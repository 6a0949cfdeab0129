"""The independent verifier derives verdicts on figures that are known by bounds as driftgate does
(tests/schema/verdict_rule_test.cpp has the same cases)."""
import importlib.util
import pathlib
import struct
import sys

root = pathlib.Path(sys.argv[1])
spec = importlib.util.spec_from_file_location("verify_bundle", root / "scripts" / "verify_bundle.py")
verifier = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verifier)


def number(value):
    return {"dec": repr(value), "hex": struct.pack(">d", value).hex()}


def derived(rule, details, clusters=10, limit_kind="max", no_harm_only=False, **members):
    body = {"clause": "numerical.x", "seed": "1", "limit_kind": limit_kind, "method": "", "message": "", "rule": rule,
            "severity": "hard", "verdict": "pass", "approximate": False, "no_harm_only": no_harm_only, "role": "corpus",
            "n": 1, "clusters": clusters, "where": {}, "slice": "", "alpha": number(0.05), "threshold": number(0.01),
            "details": {name: number(value) for name, value in details.items()}}
    body |= {name: number(value) for name, value in members.items()}
    try:
        return verifier.Clause(body).derived
    except verifier.BROKEN:
        return "fault"


def census(clusters=10, limit_kind="max", **estimates):
    return derived("bounded_census", {"least_units": 10.0} | estimates, clusters, limit_kind)


cases = [
    (census(harm_estimate=0.005), "inconclusive"),  # no upper bound exists
    (census(harm_estimate=0.005, proof_estimate=0.03), "inconclusive"),
    (census(harm_estimate=0.005, proof_estimate=0.01), "pass"),
    (census(9, harm_estimate=0.005, proof_estimate=0.01), "inconclusive"),
    (census(harm_estimate=0.02, proof_estimate=0.01), "violated"),
    (census(limit_kind="min", harm_estimate=0.02, proof_estimate=0.01), "pass"),
    (census(limit_kind="min", harm_estimate=0.005), "violated"),
    (derived("bounded_census", {"harm_estimate": 0.005}), "fault"),
    (derived("bounded_test", {"p_proof": 0.2}, p_value=1.0), "inconclusive"),
    (derived("bounded_test", {"p_proof": 0.2}, p_value=1.0, no_harm_only=True), "pass"),
    (derived("bounded_test", {"p_proof": 0.001}, p_value=1.0), "pass"),
    (derived("bounded_test", {"p_proof": 1.0}, p_value=0.001), "violated"),
    (derived("bounded_test", {}, p_value=0.001), "fault"),
    (derived("census", {"least_units": 10.0}, estimate=0.005), "pass"),
    (derived("census", {"least_units": 10.0}, estimate=0.02), "violated"),
    (derived("census", {"least_units": 10.0}), "fault"),
]
wrong = [(place, got, wanted) for place, (got, wanted) in enumerate(cases) if got != wanted]
for place, got, wanted in wrong:
    print(f"case {place}: {got}, wanted {wanted}")
sys.exit(bool(wrong))
