"""Both verifiers judge every mutated bundle alike, and accept none that means something else.

usage: mutated_bundles.py FOLDER [COUNT] [SEED] [KIND]
FOLDER has bundles, log.key, attestation.key, trust.json and older.note, as the pipeline's tests leave them
(DRIFTGATE_BUNDLES=FOLDER driftgate_pipeline_tests). DRIFTGATE_BIN is the program; KIND: only this kind of mutation.
"""
import collections
import concurrent.futures
import functools
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ed25519  # noqa: E402
import mutate  # noqa: E402
import verify_bundle  # noqa: E402
from bundles import Bundle, Case, World  # noqa: E402

BATCH = 200
BY_COMMAND = 50  # every so many bundles, Python's verifier calls the openssl command, as it does for people
with_command = verify_bundle.is_signed
verify_bundle.read_entry = functools.lru_cache(maxsize=4096)(verify_bundle.read_entry)  # most entries are those of other cases


def native(folder, names, trust, older, running, recorded_only=True):
    """Code and findings of the program for each bundle; `recorded_only`: by what Python's verifier judges by too."""
    command = [os.environ["DRIFTGATE_BIN"], "audit", "verify", "--json", "--trust", trust]
    command += (["--older-head", older] if older else []) + ["--running"] * running + ["--recorded-only"] * recorded_only
    done = subprocess.run(command + [os.path.join(folder, name) for name in names], capture_output=True, check=False)
    if not done.stdout:
        sys.exit(f"audit verify ended with {done.returncode} and said nothing: {done.stderr.decode(errors='replace')}")
    reports = json.loads(done.stdout)
    reports = reports if isinstance(reports, list) else [reports]
    return {os.path.basename(report["bundle"]): (report["code"], report["findings"]) for report in reports}


def compare(cases, folder):
    """Runs both verifiers on (name, case); gives (name, case, of the program, of Python)."""
    trust, older = os.path.join(folder, "trust.json"), os.path.join(folder, "older.note")
    with open(trust, encoding="utf-8") as file:
        keys = verify_bundle.read_trust(file.read())
    with open(older, encoding="utf-8", newline="") as file:
        note = file.read()
    with tempfile.TemporaryDirectory() as place:
        for name, case in cases:
            with open(os.path.join(place, name), "wb") as file:
                file.write(case.data)
        codes, again = {}, {}
        for options in itertools.product((False, True), repeat=2):
            names = [name for name, case in cases if (case.older, bool(case.running)) == options]
            arguments = trust, older if options[0] else None, options[1]
            codes |= native(place, names, *arguments) if names else {}
            names = [name for name, case in cases if name in names and case.tables and codes[name][0] in (0, 5)]
            again |= native(place, names, *arguments, recorded_only=False) if names else {}
    judged = []
    for number, (name, case) in enumerate(cases):
        verify_bundle.is_signed = with_command if number % BY_COMMAND == 0 else ed25519.verifies
        code, findings = verify_bundle.verify(io.BytesIO(case.data), keys, note if case.older else None, bool(case.running))
        stricter = again.get(name, codes[name])[0] in (codes[name][0], 5)  # tables can only add what does not follow
        judged.append((name, case, codes[name] if stricter else again[name], (code, findings)))
    return judged


def judge(folder, seed, count, only):
    """Judges `count` mutations: counted codes, counted reasons of acceptance, and what was judged wrongly."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".bundle"):
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = file.read()
    bundles = {name: Bundle(data, name.startswith("running")) for name, data in found.items()}
    world = World(folder, found["range.bundle"])
    world.bytes_of = found
    codes, meanings, wrong = collections.Counter(), collections.Counter(), []
    every = ((name, Case(data, {0}, "unchanged", "unchanged", running=bundles[name].running)) for name, data in found.items())
    every = itertools.chain(every, mutate.mutations(seed, count, world, bundles, only))
    while cases := list(itertools.islice(every, BATCH)):
        for name, case, (code, findings), (other, others) in compare(cases, folder):
            codes[code] += 1
            meanings[case.meaning] += code == 0
            if code not in case.allowed or other != code or code == 0 and case.meaning not in mutate.MEANINGS:
                wrong.append((code != other, f"{name}: {case.what} (older head {case.older}, running {case.running}): program {code} "
                              f"{findings[:3]}, python {other} {others[:3]}, allowed {case.allowed}"))
    return codes, meanings, wrong


def main():
    folder = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    only = sys.argv[4] if len(sys.argv) > 4 else None
    print(f"seed {seed}, {count} mutations", flush=True)
    parts = min(os.cpu_count() or 1, 4, max(1, count // BATCH))
    seeds = [seed * 1000 + part for part in range(parts)]
    with concurrent.futures.ProcessPoolExecutor(parts) as pool:
        shares = [count // parts + (part < count % parts) for part in range(parts)]
        results = list(pool.map(judge, [folder] * parts, seeds, shares, [only] * parts))
    codes, meanings = (sum((result[i] for result in results), collections.Counter()) for i in (0, 1))
    wrong = [text for result in results for text in result[2]]
    print(f"codes {dict(sorted(codes.items()))}; accepted: {dict(sorted(meanings.items()))}")
    print(f"fault: mutated bundles: {count} against both verifiers, seed {seed}, "
          f"{sum(not differs for differs, _ in wrong)} judged wrongly, {sum(differs for differs, _ in wrong)} with different codes")
    for _, text in wrong[:int(os.environ.get("DRIFTGATE_SHOWN", "20"))]:
        print(text)
    if wrong:
        sys.exit(f"{len(wrong)} of {sum(codes.values())} bundles were not judged as they should be")


if __name__ == "__main__":
    main()
