"""What plots are made of, after a promotion: the ramp with its marks and every clause's figures, the distribution of tv
beside its noise floor, and contracts in words."""
import subprocess

from harness import DRIFTGATE, PATIENCE_S, check, wait_for
from world import run


def course(points, member):
    values = [point[member] for point in points]
    return [value for i, value in enumerate(values) if i == 0 or value != values[i - 1]]


def the_ramp_is_shown(world, promotion):
    series = world.api("GET", f"/v1/promotions/{promotion}/series", expect=200)
    check(series["stage"] == "canary", f"the series is of {series['stage']}")
    shares = course(series["points"], "share_bp")
    check(shares == [2500, 5000, 9900], f"the ramp went through {shares}")
    check(series["points"][-1]["action"] == "finish", f"the last point: {series['points'][-1]}")
    planned = [(step["share_bp"], step["approval"], step["bake"]) for step in series["planned"]]
    check(planned == [(2500, False, False), (5000, True, False), (9900, False, False), (9900, False, True)],
          f"planned is {planned}")
    kinds = {mark["kind"] for mark in series["marks"]}
    check({"route_applied", "approval_given", "state_changed"} <= kinds, f"marks of kinds {kinds}")
    check(all(mark["actor"] is None for mark in series["marks"]), "a viewer sees who did what")
    applied = [mark["text"] for mark in series["marks"] if mark["kind"] == "route_applied"]
    check(applied[:3] == ["share 0% → 25%", "share 25% → 50%", "share 50% → 99%"], f"shares in force: {applied}")
    latencies = [point["latency"]["total_ms"][arm] for point in series["points"] for arm in ("candidate", "incumbent")]
    check(any(latencies) and all(q is None or q == sorted(q) for q in latencies), f"latencies: {latencies[:8]}")
    errors = [c for c in series["clauses"] if (c["clause"], c["limit_kind"]) == ("runtime.errors", "max")]
    check(len(errors) == 1 and len(errors[0]["points"]) == len(series["points"]), "no whole series of runtime.errors")
    last = errors[0]["points"][-1]
    check(last["e_proof"] >= errors[0]["e_proof_needed"], f"the proof of runtime.errors ends at {last}")
    keys = [point["n"] for point in errors[0]["points"]]
    check(keys == sorted(keys) and keys[-1] >= 113, f"keys that were counted: {keys}")
    seen = world.api("GET", f"/v1/promotions/{promotion}/series?stage=canary&points=5", who="auditor", expect=200)
    check(len(seen["points"]) <= 5, f"{len(seen['points'])} points instead of 5")
    return series


def a_promotion_leaves_its_ramp_its_distributions_and_its_words(world):
    world.start_daemon()
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    load = world.load()
    captures = world.captures("bf16")
    captures["slice"]["floor"] = {"inf": {"adapter": "tinylm-bf16-batch8"}}
    promotion = world.promote("bf16", "bf16", captures=captures)
    world.reach(promotion, ("running", "awaiting_approval"), "canary")
    live = wait_for("points of a running canary",
                    lambda: world.api("GET", f"/v1/promotions/{promotion}/series?stage=canary", expect=200)["points"])
    world.approve(promotion)
    world.reach(promotion, "succeeded")
    load.stop()
    series = the_ramp_is_shown(world, promotion)
    check(series["points"][0] == live[0], f"the first point has changed: {live[0]} and {series['points'][0]}")
    shadow = world.api("GET", f"/v1/promotions/{promotion}/series?stage=shadow-runtime", expect=200)
    check(shadow["points"] and shadow["points"][-1]["pairs"] >= 120, f"the shadow stage: {shadow['points'][-1:]}")
    world.daemon.kill()
    world.start_daemon()
    after = world.api("GET", f"/v1/promotions/{promotion}/series?stage=canary", expect=200)
    check(after == series, "the series is another one after a restart")
    distributions_are_shown(world, promotion)
    contracts_are_explained(world)


def distributions_are_shown(world, promotion):
    path = f"/v1/promotions/{promotion}/stages/statistical-slice/distribution"
    report = world.report(promotion, "statistical-slice")
    corpus = world.api("GET", path, expect=200)
    curve = corpus["candidate"]
    check(curve["unit"] == "rows" and curve["n"] == report["rows"], f"{curve['n']} rows, {report['rows']} in the report")
    check(curve["edges"] == sorted(curve["edges"]) and curve["cdf"] == sorted(curve["cdf"]) and curve["cdf"][-1] == 1,
          "the distribution does not rise to 1")
    check(0 < curve["quantiles"]["0.5"] <= curve["quantiles"]["0.99"] <= curve["max"], f"quantiles {curve['quantiles']}")
    check(corpus["floors"]["inf"]["mean"] is not None and corpus["floors"]["train"] is None, "the floor is not shown")
    check(sum(b["rows"] for b in corpus["by"]["position"]) == report["rows"], "rows are missing in the buckets")
    values = [row["value"] for row in corpus["worst"]]
    check(values and values == sorted(values, reverse=True), f"worst rows: {values}")
    french = world.api("GET", path + "?metric=kl_inf_train&slice=language%3Dfr", expect=200)
    check(0 < french["rows"] < corpus["rows"], f"{french['rows']} French rows of {corpus['rows']}")
    check(all("language=fr" in row["slice"] for row in french["worst"]), "a worst row is of another slice")
    world.api("GET", f"/v1/promotions/{promotion}/stages/canary/distribution", expect=404)


def contracts_are_explained(world):
    edited = world.contract("bf16", lambda text: text.replace("max: 0.05, max_ratio: 1.5", "max: 0.04, max_ratio: 1.5"))
    first = world.contract("bf16")
    explained = world.api("GET", f"/v1/contracts/{first}/explain", expect=200)
    path = f"{world.folder}/printed.yaml"
    with open(path, "w", encoding="utf-8") as file:
        file.write(explained["yaml"])
    printed = world.program("contract", "explain", path)
    check(printed == explained["text"], f"the program says:\n{printed}\nthe API says:\n{explained['text']}")
    lines = explained["yaml"].split("\n")
    for clause in explained["clauses"]:
        name = clause["clause"].split(".", 1)[1]
        check(f"id: {name}" in lines[clause["line"] - 1], f"{clause['clause']} is not on line {clause['line']}")
    compared = world.api("GET", f"/v1/contracts/{first}/diff?with={edited}", expect=200)
    check([(c["change"], c["where"]) for c in compared["changes"]] == [("stricter", "runtime.errors max")],
          f"changes: {compared['changes']}")
    other = f"{world.folder}/other.yaml"
    with open(other, "w", encoding="utf-8") as file:
        file.write(world.api("GET", f"/v1/contracts/{edited}/explain", expect=200)["yaml"])
    said = subprocess.run([DRIFTGATE, "contract", "diff", path, other], capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S)
    check(said.stdout == compared["text"], f"the program says:\n{said.stdout}\nthe API says:\n{compared['text']}")


TESTS = [
    a_promotion_leaves_its_ramp_its_distributions_and_its_words,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
