"""The independent verifier derives every recorded verdict as it always did, of every version of the rules, and knows which
roles and severities a contract gives (tests/daemon/evidence/clause_verdict_of_test.cpp has the same cases)."""
import importlib.util
import json
import pathlib
import sys

root = pathlib.Path(sys.argv[1])
spec = importlib.util.spec_from_file_location("verify_bundle", root / "scripts" / "verify_bundle.py")
verifier = importlib.util.module_from_spec(spec)
spec.loader.exec_module(verifier)


def cases(name):
    return [json.loads(line) for line in (root / "tests" / "vectors" / name).read_text(encoding="utf-8").splitlines()]


def follows(case):
    try:
        return verifier.Clause(case["body"]).derived
    except verifier.BROKEN:
        return "refused"


def accepted(case):
    clause = verifier.Clause(case["body"])
    try:
        verifier.Contract(case["contract"].encode()).check(clause, case["stage"])
        return True
    except verifier.BROKEN:
        return False


wrong, count = [], 0
for version in verifier.RULES:
    for name, derive, member in ((f"rules_{version}.jsonl", follows, "follows"),
                                 (f"contract_terms_{version}.jsonl", accepted, "accepted")):
        for case in cases(name):
            count += 1
            got = derive(case)
            if got != case[member]:
                wrong.append(f"{name}: {case['name']}: {got}, wanted {case[member]}")
print(f"{count} cases of versions {sorted(verifier.RULES)}", *wrong, sep="\n")
sys.exit(bool(wrong))
