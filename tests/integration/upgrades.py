"""What an earlier revision left behind: this program opens it, goes on, and all of its evidence verifies."""
import os
import shutil
import subprocess

from harness import ROOT, check, verified, wait_for
from world import TERMINAL, run

FOLDER = os.path.join(ROOT, "tests", "vectors", "folder_44abce1.tar.xz")  # see the README beside it


def is_hexadecimal(value):
    return isinstance(value, str) and len(value) == 16 and set(value) <= set("0123456789abcdef")


def numbers_of(entry):
    body = entry["body"]
    members = [body.get(name) for name in ("estimate", "lower", "upper", "e_value", "p_value", "threshold")]
    return [*members, *body.get("details", {}).values()]


def a_folder_of_revision_44abce1_goes_on_and_its_evidence_verifies(world):
    os.mkdir(f"{world.folder}/data", 0o700)
    subprocess.run(["tar", "-xJf", FOLDER, "-C", f"{world.folder}/data"], check=True)
    kept = shutil.copy(f"{world.folder}/data/head.note", f"{world.folder}/kept.note")
    world.start_daemon()
    with open(kept, encoding="utf-8") as file:
        size = int(file.read().split("\n")[1])
    old = [entry for entry in world.entries(kind="verdict_reached") if entry["seq"] < size]
    check(all("rules" not in entry["body"] for entry in old), "a verdict of that revision states a version")
    written = [entry["seq"] for entry in old if any(map(is_hexadecimal, numbers_of(entry)))]
    check(written, "no number is written as hexadecimal text")
    discovered = {entry["body"]["severity"] for entry in old if entry["body"].get("role") == "discovered"}
    check(discovered == {"soft"}, f"discovered slices are {discovered}")

    promotions = {entry["body"]["engine"]: entry["subject"]["promotion"] for entry in world.entries(kind="promotion_requested")}
    states = {engine: world.promotion(name)["state"] for engine, name in promotions.items()}
    open_one = promotions["f32"]  # waits for an approval; its engine is gone, so that the canary may end by itself
    check({**states, "f32": ""} == {"bf16": "succeeded", "int8-static": "rejected", "int8": "rejected", "f32": ""}, f"{states}")
    if states["f32"] not in TERMINAL:
        world.api("POST", f"/v1/promotions/{open_one}/abort", {"reason": "the engine is gone"}, who="operator")
    wait_for("the open promotion to end", lambda: world.promotion(open_one)["state"] in TERMINAL)
    world.api("POST", "/v1/kernels", {"name": "later", "engine": "e", "dtype": "f32"}, who="promoter", expect=201)
    check(max(entry["seq"] for entry in world.entries(promotion=open_one)) >= size, "the log does not go on")

    trust = world.trust_file()
    bundles = [world.export(f"{name}.bundle", "--promotion", name, "--with-tables", "--older-head", kept) for name in promotions.values()]
    bundles.append(world.export("whole.bundle", "--from", "2020-01-01", "--to", "2100-01-01", "--older-head", kept))
    verified(bundles, trust, older=kept)
    verified(bundles, trust)


TESTS = [
    a_folder_of_revision_44abce1_goes_on_and_its_evidence_verifies,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
