"""The tools around contracts on tinylm's captures, and the commands that explain a promotion."""
import array
import json
import os
import re
import sqlite3
import struct
import subprocess
import sys

from harness import DRIFTGATE, ROOT, TINYLM, check
from world import CAPTURED, DATA, MODEL_DIR, run

DEMO = os.path.join(ROOT, "configs", "demo", "contract.yaml")
CAPTURES = os.path.join(DATA, "captures")
SLICE = os.path.join(DATA, "slice.jsonl")
SLICE_TRAIN = os.path.join(CAPTURES, "slice_train.safetensors")
NUMERIC = os.path.join(DATA, "numeric.jsonl")
NUMERIC_TRAIN = os.path.join(CAPTURES, "numeric_train.safetensors")


def cli(*words, expect=0):
    done = subprocess.run([DRIFTGATE, *map(str, words)], capture_output=True, text=True, check=False)
    check(done.returncode == expect,
          f"driftgate {' '.join(map(str, words))}: exit {done.returncode}, expected {expect}\n{done.stdout}{done.stderr}")
    return done.stdout


def client(world, who, *words, expect=0):
    """A command that talks to the daemon, with the token of a role."""
    path = os.path.join(world.folder, f"{who}.token")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write(world.tokens[who])
    return cli(*words, "--url", world.url, "--token-file", path, expect=expect)


def capture(world, name, kernel, corpus, *flags, like=None):
    out = os.path.join(world.folder, f"{name}.safetensors")
    command = [sys.executable, CAPTURED, out, TINYLM, "capture", "--model", MODEL_DIR, "--kernel", kernel, "--corpus", corpus, *flags]
    subprocess.run(command + (["--like", like] if like else []), check=True, capture_output=True)
    return out


def contract_file(world, edit=None, name="contract.yaml"):
    path = os.path.join(world.folder, name)
    with open(DEMO, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(edit(text) if edit else text)
    return path


def blinded(text):
    """The contract with limits so loose that it sees no drift."""
    text = re.sub(r"clip: [0-9.]+, max: [0-9.]+", "clip: 0.99, max: 0.9", text).replace("floor_cap: 0.06", "floor_cap: 0.95")
    text = text.replace("over: sequences, max: 0.25", "over: sequences, max: 0.99").replace("p90, max: 0.02}", "p90, max: 0.9}")
    return text.replace("max: 1.5}", "max: 50}").replace("max: 3}", "max: 50}").replace("max: 0.05}", "max: 1}")


def every_fault_is_caught_by_the_demo_contract_and_good_kernels_pass(world):
    of = lambda name, kernel, *flags: capture(world, name, kernel, SLICE, *flags, like=SLICE_TRAIN)
    bf16 = of("bf16", "bf16")
    given = ["--train", SLICE_TRAIN, "--inf", bf16, "--corpus", SLICE, "--floor-inf", of("bf16-batch8", "bf16", "--batch", "8"),
             "--good", of("int8", "int8"), "--good", of("f32", "f32"),
             "--fault", "swapped layers=" + of("swapped", "bf16", "--weight-fault", "swapped-layers"),
             "--fault", "stale weights=" + of("stale", "bf16", "--weight-fault", "stale-weights"),
             "--fault", "clipped activations=" + of("static", "int8-static"), "--work-dir", world.folder]
    matrix = {row["case"].split("/")[0]: row for row in json.loads(cli("contract", "test", DEMO, *given, "--json"))["cases"]}
    wanted = {"as given": "pass", "swapped layers": "violated", "stale weights": "violated", "clipped activations": "violated",
              "scaled-rows": "violated", "permuted-head": "violated", "corrupted-slice language=de": "violated",
              "nan": "violated", "off-by-one": "violated"}
    for case, verdict in wanted.items():
        check(case in matrix and matrix[case]["verdict"] == verdict and matrix[case]["holds"],
              f"{case}: {matrix.get(case)}, expected {verdict}")
    check(sum(row["expected"] == "pass" for row in matrix.values()) >= 2, f"the further good captures are missing: {list(matrix)}")
    named = matrix["corrupted-slice language=de"]["deciding"]
    check(any("language=de" in clause for clause in named), f"the corrupted slice is not named: {named}")
    check("numerical.finite" in matrix["nan"]["deciding"], f"NaN is not named: {matrix['nan']['deciding']}")
    text = cli("contract", "test", DEMO, *given).splitlines()
    check(text[-1] == "The contract holds.", f"the last line is {text[-1]!r}")
    check(sum(line.startswith("ok ") for line in text) == len(wanted) + 2, "not one line for each case:\n" + "\n".join(text))

    blind = contract_file(world, blinded)
    text = cli("contract", "test", blind, *given, expect=1)
    check("a broken kernel is not caught" in text and "The contract fails its test." in text, f"a blind contract passed:\n{text}")


def drift_stands_beside_its_noise_floors(world):
    of = lambda name, *flags: capture(world, name, "bf16", NUMERIC, *flags, like=NUMERIC_TRAIN)
    report = os.path.join(world.folder, "report.json")
    text = cli("drift", NUMERIC_TRAIN, of("bf16"), "--corpus", NUMERIC, "--contract", DEMO, "--json", report,
               "--floor-train", os.path.join(CAPTURES, "numeric_train_batch8.safetensors"),
               "--floor-inf", of("bf16-batch8", "--batch", "8"), expect=3)  # the slices want more sequences
    for words in ("Drift beside the noise floor", "train floor: tinylm-train against itself", "inf floor: tinylm-bf16 against itself",
                  "The noise floor of K_inf is", "prompts change their greedy tokens with the batch size"):
        check(words in text, f"'{words}' is not in the report:\n{text}")
    with open(report, encoding="utf-8") as file:
        figures = json.load(file)
    tv = [floor["metrics"]["tv"]["mean"] for floor in figures["floors"]]
    check([floor["side"] for floor in figures["floors"]] == ["train", "inf"], f"floors: {figures['floors']}")
    check(0 < tv[0] < 1e-6 < tv[1] < figures["metrics"]["tv"]["mean"], f"tv of the floors {tv}, of the drift {figures['metrics']['tv']}")
    refused = subprocess.run([DRIFTGATE, "drift", NUMERIC_TRAIN, of("again"), "--floor-inf", NUMERIC_TRAIN],
                             capture_output=True, text=True, check=False)
    check(refused.returncode == 4 and "a floor is the same kernel run twice" in refused.stderr, f"another kernel's floor: {refused}")


def with_teams(world):
    """The slice corpus with an attribute that says nothing of the text: 13% are of the team red."""
    path = os.path.join(world.folder, "teams.jsonl")
    with open(SLICE, encoding="utf-8") as source, open(path, "w", encoding="utf-8") as out:
        for line in source:
            row = json.loads(line)
            row["slices"] = {"team": "red" if row["sequence"] % 100 < 13 else ("blue" if row["sequence"] % 2 else "green"),
                             "shift": "day" if row["sequence"] % 3 else "night"}
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    return path


def broken_for_red(path, out, factor):
    """A copy of a capture whose logits are scaled for the sequences of the team red."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    at = lambda name: (8 + size + header[name]["data_offsets"][0], 8 + size + header[name]["data_offsets"][1])
    sequences = array.array("i", data[slice(*at("sequence_ids"))])
    begin, end = at("logits")
    logits = array.array("f", data[begin:end])
    width = header["logits"]["shape"][1]
    for row, sequence in enumerate(sequences):
        if sequence % 100 >= 13:
            continue
        for i in range(row * width, (row + 1) * width):
            logits[i] *= factor
    data[begin:end] = logits.tobytes()
    with open(out, "wb") as file:
        file.write(data)
    return out


TEAMS_CONTRACT = """
apiVersion: driftgate/v1
kind: KernelContract
metadata: {{name: teams, description: One team must not be worse than the average says, owners: [release@example.org]}}
kernels: {{train: {{ref: tinylm-f32}}, inf: {{ref: tinylm-bf16}}}}
slices:
  dimensions: [team, shift]
  min_sequences: 50
  {slices}
statistical:
  - {{id: tv, metric: tv, aggregate: sequence_mean, clip: 0.25, max: 0.03{roles}}}
stages:
  shadow-runtime: {{mirror_share: 0.5, min_duration: 4s, max_duration: 60s}}
  canary: {{steps: [{{share: 1.0}}], soak: 1s, bake: 1s, min_keys: 20}}
"""
CRITICAL = TEAMS_CONTRACT.format(slices="critical: [{team: red}]", roles=", slices: [critical]")
AS_CORPUS = TEAMS_CONTRACT.format(slices="critical: []", roles="")
SEARCHED = TEAMS_CONTRACT.format(slices="discover: {depth: 2, action: block}", roles="")


def a_slice_that_the_mean_hides_is_caught_and_named(world):
    corpus = with_teams(world)
    train = capture(world, "train", "f32", corpus)
    good = capture(world, "good", "bf16", corpus, like=train)
    broken = broken_for_red(good, os.path.join(world.folder, "broken.safetensors"), 1.35)
    files = {}
    for name, text in (("critical", CRITICAL), ("corpus", AS_CORPUS), ("searched", SEARCHED)):
        files[name] = os.path.join(world.folder, f"{name}.yaml")
        with open(files[name], "w", encoding="utf-8") as file:
            file.write(text)
    for name, path in files.items():
        text = cli("drift", train, good, "--corpus", corpus, "--contract", path)
        check("VIOLATED" not in text, f"the unbroken corpus under {name}:\n{text}")
    mean = cli("drift", train, broken, "--corpus", corpus, "--contract", files["corpus"])
    check("PASS" in mean, f"the mean alone does not pass:\n{mean}")
    for name in ("critical", "searched"):
        text = cli("drift", train, broken, "--corpus", corpus, "--contract", files[name], expect=1)
        check("the average hides team=red" in text, f"{name} does not name the slice:\n{text}")
        check("team=red" in text and "hidden" in text, f"{name} does not rank the slice as hidden:\n{text}")

    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    for name in ("critical", "searched"):
        digest = world.api("POST", "/v1/contracts", open(files[name], encoding="utf-8").read(), who="promoter",
                           headers={"Content-Type": "application/yaml"})["digest"]
        for inf, ended in ((good, False), (broken, True)):  # the second fresh run has a quarter of the α
            body = {"model": "tinylm", "engine": "bf16", "contract": digest,
                    "captures": {"slice": {"train": train, "inf": inf, "corpus": corpus}}}
            promotion = world.api("POST", "/v1/promotions", body, who="promoter", expect=201)["id"]
            if ended:
                done = world.reach(promotion, "rejected")
                check(done["stage"] == "statistical-slice" and "team=red" in done["reason"],
                      f"{name}: {done['stage']}: {done['reason']}")
            else:
                world.reach(promotion, "running", "shadow-runtime")
                check(world.report(promotion, "statistical-slice")["verdict"] == "pass", f"{name}: the unbroken corpus does not pass")
                world.api("POST", f"/v1/promotions/{promotion}/abort", {"reason": "seen enough"}, who="operator", expect=200)
                world.reach(promotion, "aborted")


def a_plan_has_the_alpha_of_the_run_and_captures_of_another_kernel_spend_nothing(world):
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    digests = json.loads(cli("capture", "digest", "--checkpoint", MODEL_DIR, "--corpus", NUMERIC, "--json"))
    check(digests["checkpoint.digest"] == world.api("GET", "/v1/engines/bf16", expect=200)["checkpoint"],
          f"the digest is not that of the registered engine: {digests}")
    contract = world.contract("bf16")
    body = lambda captures: {"model": "tinylm", "engine": "bf16", "contract": contract, "captures": captures}

    def planned():
        plan = world.api("POST", "/v1/promotions?dry_run=true", body(world.captures("bf16")), who="promoter", expect=200)
        stage = plan["stages"][0]
        return stage["run"], max(need["alpha"] for clause in stage["clauses"] for need in clause["needs"])

    first = planned()
    check(first[0] == 1, f"the first run is {first[0]}")
    wrong = world.captures("bf16")
    wrong["numeric"]["inf"] = capture(world, "other", "int8-static", NUMERIC, like=NUMERIC_TRAIN)
    for query in ("?dry_run=true", ""):
        answer = world.api("POST", "/v1/promotions" + query, body(wrong), who="promoter", expect=422)
        check(answer["code"] == "not_comparable" and "states the kernel 'tinylm-int8-static'" in json.dumps(answer),
              f"a capture of another kernel{query}: {answer}")
    wrong["numeric"]["inf"] = {"adapter": "tinylm-int8-static"}  # what it will make is not known yet
    done = world.reach(world.promote("bf16", "bf16", captures=wrong), "errored")
    check("states the kernel 'tinylm-int8-static'" in done["reason"], f"the reason hides it: {done['reason']}")
    check(planned() == first, f"an attempt without a verdict has spent: {planned()} after {first}")
    promotion = world.promote("bf16", "bf16")
    world.reach(promotion, "running", "shadow-runtime")
    spent = world.report(promotion, "offline-numeric")["alpha"]
    check(abs(spent - first[1]) < 1e-12, f"planned at {first[1]}, spent {spent}")
    world.api("POST", f"/v1/promotions/{promotion}/abort", {"reason": "seen enough"}, who="operator", expect=200)
    world.reach(promotion, "aborted")
    second = planned()
    check(second[0] == 2 and abs(second[1] - first[1] / 4) < 1e-12, f"the second run: {second}, the first {first}")


def a_promotion_is_explained_and_decided_again_under_another_contract(world):
    world.install_incumbent()
    world.start_engine("int8-static", "int8-static")
    world.register_engine("int8-static", "int8-static")
    demo = lambda text: text.replace("tinylm-bf16", "tinylm-int8-static")
    contract = contract_file(world, demo)
    client(world, "promoter", "contract", "register", contract)
    asked = ["promote", "tinylm", "--engine", "int8-static", "--contract", "tinylm-int8-static-demo",
             "--numeric-train", NUMERIC_TRAIN, "--numeric-adapter", "tinylm-int8-static", "--numeric-corpus", NUMERIC,
             "--numeric-floor-train", os.path.join(CAPTURES, "numeric_train_batch8.safetensors"),
             "--numeric-floor-inf-adapter", "tinylm-int8-static-batch8",
             "--slice-train", SLICE_TRAIN, "--slice-adapter", "tinylm-int8-static", "--slice-corpus", SLICE]
    plan = client(world, "promoter", *asked, "--dry-run")
    check("cannot conclude" not in plan, f"the plan of a corpus that suffices:\n{plan}")
    short = contract_file(world, lambda text: demo(text).replace("aggregate: p90, max: 0.02}", "aggregate: p99_9, max: 0.02}")
                          .replace("tinylm-int8-static-demo", "short"), "short.yaml")
    client(world, "promoter", "contract", "register", short)
    plan = client(world, "promoter", *[word if word != "tinylm-int8-static-demo" else "short" for word in asked], "--dry-run")
    check("numerical.kl" in plan and "cannot" in plan, f"the plan does not name the clause that cannot conclude:\n{plan}")

    promotion = json.loads(client(world, "promoter", *asked, "--json"))["id"]
    world.reach(promotion, "rejected")
    numeric = world.report(promotion, "offline-numeric")
    check([floor["side"] for floor in numeric["floors"]] == ["train", "inf"], f"floors of the stage: {numeric['floors']}")
    text = client(world, "auditor", "explain", promotion)
    for words in ("asks whether int8-static may serve tinylm", "It is rejected", "No user was served by it",
                  "violated statistical.slice-tv on language=fr", "decided by", "to pass:"):
        check(words in text, f"'{words}' is not in the explanation:\n{text}")
    looser = contract_file(world, lambda text: demo(text).replace("clip: 0.25, max: 0.02, slices", "clip: 0.25, max: 0.1, slices"), "looser.yaml")
    text = client(world, "auditor", "what-if", "--promotion", promotion, "--contract", looser, expect=3)
    for words in ("statistical-slice (attempt 1): violated → pass", "statistical.slice-tv on language=fr: violated → pass",
                  "Under this contract: inconclusive. Nothing was run and nothing has changed.", "shadow-runtime"):
        check(words in text, f"'{words}' is not in what-if:\n{text}")
    text = client(world, "auditor", "what-if", "--promotion", promotion, "--contract", contract, expect=1)
    check("→ violated" in text and "is the same" not in text, f"the same contract decides otherwise:\n{text}")
    differs = cli("contract", "diff", contract, looser, expect=1)
    check("statistical.slice-tv" in differs and "ooser" in differs, f"diff: {differs}")


def greedy_tokens_at_two_batch_sizes_are_compared_in_shadow(world):
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    load = world.load()
    clause = "  - {id: batch-invariant, metric: batch_variant_rate, max: 0.1}\n"
    promotion = world.promote("bf16", "bf16", edit=lambda text: text.replace("runtime:\n", "runtime:\n" + clause, 1))
    world.reach(promotion, stage="canary")
    report = world.report(promotion, "shadow-runtime")
    verdict = next(v for v in report["verdicts"] if v["clause"] == "runtime.batch-invariant")
    check(verdict["verdict"] == "pass" and verdict["n"] >= 100, f"batch invariance in shadow: {verdict}")
    check("generated alone and in a batch" in verdict["message"], verdict["message"])
    check(not any("batch invariance" in note for note in report["notes"]), f"answers are missing: {report['notes']}")
    world.api("POST", f"/v1/promotions/{promotion}/abort", {"reason": "seen enough"}, who="operator", expect=200)
    world.reach(promotion, "aborted")
    load.stop()


GREEDY = """  - {id: prefix, metric: prefix_agreement, min: 0.3}
  - {id: first, metric: first_divergence, min: 4}
  - {id: sooner, metric: first_divergence, aggregate: p50, min: 2}
  - {id: diverging, metric: divergence_rate, max: 0.9, floor_multiple: 2, floor_cap: 0.95}
"""
HORIZON = 32


def pair_records(world, digest):
    database = sqlite3.connect(f"file:{world.folder}/data/driftgate.db?mode=ro", uri=True)
    (data,) = database.execute("SELECT bytes FROM blobs WHERE digest = ?", (digest,)).fetchone()
    database.close()
    return [record for record in map(json.loads, bytes(data).decode().splitlines()) if "key" in record]


def mean_over_keys(pairs, member, value):
    """Each sticky key counts once, by the mean of its prompts."""
    keys = {}
    for pair in pairs:
        if member in pair:
            keys.setdefault(pair["key"], []).append(value(*pair[member]))
    return sum(sum(values) / len(values) for values in keys.values()) / len(keys), len(keys)


def figures_of_greedy_answers_follow_from_the_pairs_in_the_evidence(world):
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    load = world.load()
    promotion = world.promote("bf16", "bf16", edit=lambda text: text.replace("runtime:\n", "runtime:\n" + GREEDY, 1))
    world.reach(promotion, stage="canary")
    report = world.report(promotion, "shadow-runtime")
    pairs = pair_records(world, report["pairs_digest"])
    rate = lambda equal, longest: float(equal < longest)
    expected = {"prefix": lambda equal, longest: equal / longest if equal < longest else 1.0,
                "first": lambda equal, longest: equal if equal < longest else HORIZON,
                "sooner": lambda equal, longest: float(equal < longest and equal < 2), "diverging": rate}
    for name, value in expected.items():
        verdict = next(v for v in report["verdicts"] if v["clause"] == f"runtime.{name}")
        estimate, keys = mean_over_keys(pairs, "greedy", value)
        check(verdict["verdict"] == "pass" and verdict["clusters"] == keys >= 100, f"greedy answers in shadow: {verdict}")
        check(abs(verdict["estimate"] - estimate) <= 1e-9, f"{name}: {verdict['estimate']}, computed here {estimate}")
        check(verdict["lower"] <= estimate <= verdict["upper"], f"limits of {name}: {verdict}")
    floor, keys = mean_over_keys(pairs, "greedy_floor", rate)
    check(keys >= 100 and abs(verdict["details"]["floor_inf"] - floor) <= 1e-9, f"floor {floor} of {keys} keys: {verdict}")
    world.api("POST", f"/v1/promotions/{promotion}/abort", {"reason": "seen enough"}, who="operator", expect=200)
    world.reach(promotion, "aborted")
    load.stop()


TESTS = [
    every_fault_is_caught_by_the_demo_contract_and_good_kernels_pass,
    drift_stands_beside_its_noise_floors,
    a_slice_that_the_mean_hides_is_caught_and_named,
    a_plan_has_the_alpha_of_the_run_and_captures_of_another_kernel_spend_nothing,
    a_promotion_is_explained_and_decided_again_under_another_contract,
    greedy_tokens_at_two_batch_sizes_are_compared_in_shadow,
    figures_of_greedy_answers_follow_from_the_pairs_in_the_evidence,
]

OFFLINE = TESTS[:2]


def started(test):
    def with_daemon(world):
        if test not in OFFLINE:
            world.start_daemon()
        test(world)
    return with_daemon


if __name__ == "__main__":
    run({test.__name__: started(test) for test in TESTS})
