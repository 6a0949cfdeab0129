"""Both verifiers refuse every mutated bundle, with the same code and for the right reason, and accept the unchanged ones.

usage: mutated_bundles.py FOLDER [COUNT] [SEED]
FOLDER has bundles, log.key, attestation.key, trust.json and older.note, as the pipeline's tests leave them
(DRIFTGATE_BUNDLES=FOLDER driftgate_pipeline_tests). DRIFTGATE_BIN is the program.
"""
import collections
import io
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mutate  # noqa: E402
import verify_bundle  # noqa: E402

BATCH = 200


def native(folder, names, trust, older):
    """Code and findings of the program for each bundle."""
    command = [os.environ["DRIFTGATE_BIN"], "audit", "verify", "--json", "--trust", trust, "--older-head", older]
    done = subprocess.run(command + [os.path.join(folder, name) for name in names], capture_output=True, check=False)
    if not done.stdout:
        sys.exit(f"audit verify ended with {done.returncode} and said nothing: {done.stderr.decode(errors='replace')}")
    reports = json.loads(done.stdout)
    reports = reports if isinstance(reports, list) else [reports]
    return {os.path.basename(report["bundle"]): (report["code"], report["findings"]) for report in reports}


def compare(cases, trust, older):
    """Writes the cases out, runs both verifiers; (name, allowed, what, code of the program, code of Python)."""
    keys = verify_bundle.read_trust(open(trust, encoding="utf-8").read())
    note = open(older, encoding="utf-8", newline="").read()
    with tempfile.TemporaryDirectory() as folder:
        for name, data, _, _ in cases:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
        codes = native(folder, [name for name, _, _, _ in cases], trust, older)
        for name, data, allowed, what in cases:
            code, findings = verify_bundle.verify(io.BytesIO(data), keys, note)
            yield name, allowed, what, codes[name], (code, findings)


def main():
    folder = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    print(f"seed {seed}, {count} mutations")
    trust, older = os.path.join(folder, "trust.json"), os.path.join(folder, "older.note")
    bundles = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".bundle"):
            with open(os.path.join(folder, name), "rb") as file:
                bundles[name] = file.read()
    # Only bundles of the log that the older head is of.
    origin = open(older, encoding="utf-8").read().splitlines()[0]
    world = mutate.World(folder, bundles["range.bundle"])
    cases = [(name, data, {0}, "unchanged") for name, data in bundles.items()]
    wrong, counted = [], collections.Counter()

    def judge():
        for name, allowed, what, (code, findings), (other, others) in compare(cases, trust, older):
            counted[code] += 1
            if code not in allowed or other != code:
                wrong.append(f"{name}: {what}: program {code} {findings[:3]}, python {other} {others[:3]}, expected {allowed}")
        cases.clear()
    for case in mutate.mutations(seed, count, world, bundles):
        cases.append(case)
        if len(cases) >= BATCH:
            judge()
    if cases:
        judge()
    print(f"log {origin}: codes {dict(sorted(counted.items()))}")
    accepted = counted[0] - len(bundles)
    print(f"fault: mutated bundles: {sum(counted.values()) - len(bundles)} against both verifiers, seed {seed}, {accepted} accepted")
    for text in wrong[:20]:
        print(text)
    if wrong:
        sys.exit(f"{len(wrong)} of {sum(counted.values())} bundles were not judged as they should be")


if __name__ == "__main__":
    main()
