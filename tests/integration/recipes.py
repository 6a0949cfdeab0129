"""Recipes of models and `driftgate apply`: a daemon is set up by one file, and promotions need nothing but an engine."""
import json
import os
import pty
import select
import subprocess
import time

from harness import call, check, wait_for
from world import CONTRACT, DATA, DRIFTGATE, MODEL_DIR, PATIENCE_S, run


def setup_of(world, **changed):
    """A setup file of a bf16 candidate; paths of captures are relative to it."""
    data = os.path.relpath(DATA, world.folder)
    stage = lambda corpus: {"train": f"{data}/captures/{corpus}_train.safetensors", "inf": {"adapter": "tinylm-bf16"},
                            "corpus": f"{data}/{corpus}.jsonl"}
    engine = lambda name: {"name": name, "url": world.engines[name].url + "/v1", "kernel": f"tinylm-{name}",
                           "checkpoint": os.path.relpath(MODEL_DIR, world.folder)}
    return {"apiVersion": "driftgate/v1", "kind": "Setup",
            "kernels": ["f32.json", {"document": {"name": "tinylm-bf16", "engine": "tinylm", "dtype": "bf16"}}],
            "contracts": [{"file": "contract.yaml"}], "engines": [engine("f32"), engine("bf16")],
            "models": [{"name": "tinylm", "engine": "f32"}],
            "recipes": [{"model": "tinylm", "contract": "test-bf16", "captures": {
                "numeric": stage("numeric"), "slice": stage("slice")}}], **changed}


def write_setup(world, setup):
    with open(os.path.join(world.folder, "f32.json"), "w", encoding="utf-8") as file:
        json.dump({"name": "tinylm-f32", "engine": "tinylm", "dtype": "f32"}, file)
    with open(os.path.join(world.folder, "contract.yaml"), "w", encoding="utf-8") as file:
        text = world.contract_text.replace("@KERNEL@", "tinylm-bf16")
        name = next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.strip().startswith("name:"))
        file.write(text)
    for recipe in setup["recipes"]:
        recipe["contract"] = name
    path = os.path.join(world.folder, "setup.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(setup, file)  # YAML is a superset of JSON
    return path


def token_of(world, *scopes):
    """The file of a token with these scopes."""
    name = "-".join(scopes)
    if name not in world.tokens:
        world.tokens[name] = world.api("POST", "/v1/tokens", {"name": name, "scopes": list(scopes)}, who="admin",
                                       expect=201)["bearer"]
    return world.token_file(name)


def command(world, *argv, scopes=("promoter", "operator"), expect=0):
    """Runs the program against the daemon; what it printed, and with another exit status than 0 what it complained of."""
    done = subprocess.run([DRIFTGATE, *argv, "--url", world.url, "--token-file", token_of(world, *scopes)],
                          capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    check(done.returncode == expect, f"{' '.join(argv)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout if expect == 0 else done.stdout + done.stderr


def on_a_terminal(world, answer, *argv, who, expect):
    """Runs the program on a terminal, answers its question, and returns what it showed."""
    terminal, inside = pty.openpty()
    child = subprocess.Popen([DRIFTGATE, *argv, "--url", world.url, "--token-file", world.token_file(who)],
                             stdin=inside, stdout=inside, stderr=inside)
    os.close(inside)
    shown, answered, until = b"", False, time.monotonic() + PATIENCE_S
    while time.monotonic() < until and select.select([terminal], [], [], until - time.monotonic())[0]:
        try:
            some = os.read(terminal, 65_536)
        except OSError:  # the program has ended
            break
        shown += some
        if not answered and b"[y/N] " in shown:
            os.write(terminal, answer.encode() + b"\n")
            answered = True
    code = child.wait(timeout=PATIENCE_S)
    os.close(terminal)
    shown = shown.decode(errors="replace")
    check(answered and code == expect, f"{' '.join(argv)}: {code}\n{shown}")
    return shown


def begin(world):
    """Two engines and a daemon that knows nothing yet; the path of its setup file."""
    world.start_engine("f32", "f32")
    world.start_engine("bf16", "bf16")
    world.start_daemon()
    return write_setup(world, setup_of(world))


def request_of(world, promotion):
    return world.entries(kind="promotion_requested", promotion=promotion)[0]["body"]["request"]


def a_daemon_is_set_up_by_one_file_and_promotes_by_the_recipe_alone(world):
    path = begin(world)
    would = command(world, "apply", "-f", path, "--dry-run", expect=1)
    check("would create  engine bf16" in would and "7 to create, 0 to change, 0 unchanged" in would, would)
    check(call(world.url + "/v1/models/tinylm", headers={"Authorization": f"Bearer {world.tokens['viewer']}"}).status == 404,
          "a dry run made the model")
    refused = command(world, "apply", "-f", path, scopes=("promoter",), expect=77)
    check("the scope operator is needed for model tinylm" in refused, refused)
    done = command(world, "apply", "-f", path)
    check("7 created, 0 changed, 0 unchanged" in done, done)
    before = len(world.entries(order="newest"))
    again = command(world, "apply", "-f", path, scopes=("viewer",))
    check("0 created, 0 changed, 7 unchanged" in again, again)
    command(world, "apply", "-f", path, "--dry-run")
    made = [entry["kind"] for entry in world.entries(order="newest")[:-before]]
    check(set(made) <= {"evidence_read", "token_granted", "route_applied"}, f"a second apply wrote {made}")

    plan = command(world, "promote", "tinylm", "--engine", "bf16", "--dry-run", scopes=("promoter",))
    check("From the recipe of tinylm, revision 1 by promoter-operator (sha256:" in plan, plan)
    check('/captures/numeric/inf: {"adapter":"tinylm-bf16"}' in plan and "/captures/slice/corpus: /" in plan, plan)
    world.load()
    promotion = json.loads(command(world, "promote", "tinylm", "--engine", "bf16", "--json", scopes=("promoter",)))["id"]
    asked = request_of(world, promotion)
    parts = [f"/captures/{stage}/{part}" for stage in ("numeric", "slice") for part in ("corpus", "inf", "train")]
    check(asked["recipe"]["revision"] == 1 and asked["recipe"]["parts"] == [*parts, "/contract"], f"{asked}")
    check(asked["recipe"]["set_by"] == "promoter-operator", f"{asked}")
    check(asked["captures"] == world.captures("bf16"), f"{asked['captures']}")
    # Another recipe, and another daemon, while the promotion waits for a person: it keeps what it took.
    world.reach(promotion, "awaiting_approval")
    recipe = os.path.join(world.folder, "recipe.yaml")
    with open(recipe, "w", encoding="utf-8") as file:
        file.write("contract: test-none\n")
    unknown = command(world, "recipe", "set", "tinylm", "--file", recipe, expect=4)
    check("there is no contract test-none" in unknown, unknown)
    with open(recipe, "w", encoding="utf-8") as file:
        file.write("fallback_engine: f32\n")
    command(world, "recipe", "set", "tinylm", "--file", recipe)
    world.daemon.kill()
    world.start_daemon()
    check("revision 2" in command(world, "recipe", "show", "tinylm", scopes=("viewer",)), "the recipe was lost")
    # Who set the recipe stands behind it; a model's name says what was read only where one is asked.
    digest = world.reach(promotion, "awaiting_approval")["approval"]["evidence_digest"]
    both = world.api("POST", "/v1/tokens", {"name": "promoter-operator", "scopes": ["approver"]}, who="admin",
                     expect=201)["bearer"]
    world.tokens["own"] = both
    own = world.api("POST", f"/v1/promotions/{promotion}/approve", {"evidence_digest": digest, "reason": "mine"},
                    who="own", expect=403)
    check("set revision 1 of the recipe" in own["detail"], f"{own}")
    queued = world.api("POST", "/v1/promotions", {
        "model": "tinylm", "engine": "bf16", "contract": asked["contract"], "captures": asked["captures"],
        "recipe": False}, who="promoter", expect=201)["id"]
    unread = command(world, "approve", "tinylm", "--reason", "read", scopes=("approver",), expect=4)
    check(f"of promotion {promotion} it is --evidence {digest} now" in unread, unread)
    shown = on_a_terminal(world, "n", "approve", "tinylm", "--reason", "read", who="approver", expect=4)
    check("recipe      revision 1 by promoter-operator: captures.numeric.corpus" in shown, shown)
    check(world.promotion(promotion)["state"] == "awaiting_approval", "it was approved")
    on_a_terminal(world, "y", "approve", "tinylm", "--reason", "read", who="approver", expect=0)
    world.api("POST", f"/v1/promotions/{queued}/abort", {"reason": "seen"}, who="operator", expect=200)
    world.reach(promotion, "succeeded")
    check(request_of(world, promotion) == asked, "the request changed")
    differences = command(world, "apply", "-f", path, "--dry-run", expect=1)
    check("would change  recipe tinylm" in differences and 'fallback_engine: "f32" is removed' in differences, differences)
    check("model tinylm: it is served by engine bf16 now" in differences, differences)
    world.evidence_verifies()


def a_recipe_changes_only_at_the_revision_that_was_read(world):
    path = begin(world)
    command(world, "apply", "-f", path)
    put = lambda body, **headers: call(world.url + "/v1/models/tinylm/recipe", "PUT", body, {
        "Authorization": f"Bearer {world.tokens['promoter']}", **headers})
    read = world.api("GET", "/v1/models/tinylm/recipe", expect=200)
    whole = read["recipe"]
    other = {**whole, "fallback_engine": "f32"}
    check(put(other).status == 428, "a change named no revision")
    first = put(other, **{"If-Match": '"1"'})
    check(first.status == 200 and first.headers["ETag"] == '"2"', f"{first.status} {first.body}")
    late = put(whole, **{"If-Match": '"1"'})
    check(late.status == 412, f"a change was lost: {late.status} {late.body}")
    gone = world.api("POST", "/v1/promotions", {"model": "tinylm", "engine": "bf16", "recipe": {"digest": read["digest"]}},
                     who="promoter", expect=409)
    check("recipe" in gone["detail"], f"{gone}")
    for who in ("viewer", "operator", "approver", "auditor"):
        world.api("DELETE", "/v1/models/tinylm/recipe", who=who, expect=403, headers={"If-Match": "*"})
    command(world, "recipe", "delete", "tinylm")
    gone = call(world.url + "/v1/models/tinylm/recipe", "DELETE", headers={
        "Authorization": f"Bearer {world.tokens['promoter']}", "If-Match": '"2"'})
    check(gone.status == 412, f"a deleted recipe was deleted: {gone.status} {gone.body}")
    check(put(whole, **{"If-Match": '"2"'}).status == 412, "a deleted recipe was changed")
    check(put(whole).headers["ETag"] == '"4"', "the revisions did not go on")
    kinds = [entry["kind"] for entry in world.entries(model="tinylm") if entry["kind"].startswith("recipe_")]
    check(kinds == ["recipe_set", "recipe_set", "recipe_deleted", "recipe_set"], f"{kinds}")
    missing = world.api("POST", "/v1/promotions", {"model": "tinylm", "engine": "bf16", "recipe": False}, who="promoter",
                        expect=422)
    check("'contract' is missing" in missing["detail"], f"{missing}")


def a_schedule_takes_the_recipe_as_it_is_when_it_fires(world):
    path = begin(world)
    command(world, "apply", "-f", path)
    setup = setup_of(world, schedules=[{"name": "each-minute", "cron": "* * * * *", "if_running": "queue",
                                        "promotion": {"model": "tinylm", "engine": "bf16"}}])
    setup["recipes"][0]["kernels"] = {"tinylm-bf16": {"captures": {"slice": {"floor": None}}}}
    command(world, "apply", "-f", write_setup(world, setup))
    fired = wait_for("the schedule to fire", lambda: world.entries(kind="schedule_fired"), 90)[0]
    asked = request_of(world, fired["subject"]["promotion"])
    check(asked["recipe"]["revision"] == 2, f"{asked}")
    deleted = subprocess.run([DRIFTGATE, "recipe", "delete", "tinylm", "--url", world.url, "--token-file",
                              token_of(world, "promoter", "operator")], capture_output=True, text=True, check=False,
                             timeout=PATIENCE_S)
    check(deleted.returncode == 0 and "schedule each-minute would be refused: 'contract' is missing" in deleted.stderr,
          deleted.stdout + deleted.stderr)
    command(world, "schedule", "delete", "each-minute")
    world.api("POST", f"/v1/promotions/{fired['subject']['promotion']}/abort", {"reason": "seen"}, who="operator", expect=200)


def apply_stops_at_the_first_failure_and_goes_on_the_next_time(world):
    path = begin(world)
    world.engines["bf16"].kill()
    with open(path, encoding="utf-8") as file:
        piped = subprocess.run([DRIFTGATE, "apply", "-f", "-", "--dry-run", "--url", world.url, "--token-file",
                                token_of(world, "promoter", "operator")], stdin=file, cwd=world.folder,
                               capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    check(piped.returncode == 1 and "7 to create" in piped.stdout, piped.stdout + piped.stderr)
    stopped = command(world, "apply", "-f", path, expect=69)
    check("failed        engine bf16" in stopped and "not done      model tinylm" in stopped
          and "not done      recipe tinylm" in stopped, stopped)
    world.start_engine("bf16", "bf16")
    command(world, "apply", "-f", write_setup(world, setup_of(world)))
    with open(os.path.join(world.folder, "f32.json"), encoding="utf-8") as file:
        kernel = json.load(file)
    setup = setup_of(world, kernels=[{"document": {**kernel, "dtype": "f16"}}])
    refused = command(world, "apply", "-f", write_setup(world, setup), expect=4)
    check("kernel tinylm-f32 is registered with other contents" in refused, refused)
    setup = setup_of(world, engnies=[])
    check('did you mean "engines"?' in command(world, "apply", "-f", write_setup(world, setup), expect=4), "no nearest name")


TESTS = [
    a_daemon_is_set_up_by_one_file_and_promotes_by_the_recipe_alone,
    a_recipe_changes_only_at_the_revision_that_was_read,
    a_schedule_takes_the_recipe_as_it_is_when_it_fires,
    apply_stops_at_the_first_failure_and_goes_on_the_next_time,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
