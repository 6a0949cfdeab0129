"""Changes of the database beside the program, by SQLite alone, in copies of a folder that a daemon left: each is named
before a daemon is ready, or by the check of the whole folder."""
import shutil
import sqlite3
import subprocess

from harness import DRIFTGATE, PATIENCE_S, check, wait_for
from world import run

OPEN = "state = 'awaiting_approval'"
ENDED = "state = 'superseded'"
UNLOCK = "DROP TRIGGER entries_no_update;"

# What a daemon acts on: a start is refused.
LIVE = [
    ("UPDATE desired_routes SET route = replace(route, '\"candidate_bp\":', '\"candidate_bp\":9')",
     "the desired route of model 'tinylm'"),
    ("UPDATE applied_routes SET epoch = epoch + 1", "the applied route of model 'tinylm': epoch"),
    ("UPDATE models SET incumbent = (SELECT candidate FROM promotions LIMIT 1)", "model 'tinylm': the incumbent"),
    ("UPDATE models SET hold = 'by nobody'", "model 'tinylm': the table has a hold"),
    ("UPDATE versions SET base_url = 'http://127.0.0.1:9'", "the URL is 'http://127.0.0.1:9' in the table"),
    (f"UPDATE promotions SET state = 'running' WHERE {OPEN}", "the state is 'running' in the table"),
    (f"UPDATE promotions SET state = 'succeeded' WHERE {OPEN}", "the state is 'succeeded' in the table"),
    (f"UPDATE promotions SET requester = 'eve' WHERE {OPEN}", "the requester is 'eve' in the table"),
    ("UPDATE tokens SET revoked_us = NULL WHERE name = 'former'", "of 'former': it is not revoked in the table"),
    ("UPDATE tokens SET scopes = 'admin' WHERE name = 'viewer'", "of 'viewer': the scopes"),
    ("UPDATE tokens SET hash = zeroblob(32) WHERE name = 'viewer'", "of 'viewer': the digest of its hash"),
    ("INSERT INTO tokens VALUES('tok-eve', zeroblob(32), 'eve', 'admin', 'admin', 1, NULL, NULL)",
     "token tok-eve of 'eve': it is in the table"),
    ("DELETE FROM tokens", "it is not in the table"),
]

# The rest: by the check of the whole folder.
REST = [
    (f"UPDATE promotions SET state = 'rejected' WHERE {ENDED}", "the state is 'rejected' in the table"),
    ("UPDATE verdicts SET detail = replace(detail, '\"verdict\"', '\"other\"')", "of its detail in the table"),
    ("UPDATE stage_runs SET state = 'violated' WHERE stage = 'offline-numeric'", "the state is 'violated'"),
    ("UPDATE kernels SET canonical = X'7b7d' WHERE name = 'tinylm-bf16'", "kernel 'tinylm-bf16': the digest"),
    ("UPDATE engines SET base_url = 'http://127.0.0.1:9' WHERE name = 'bf16'", "engine 'bf16': the URL"),
    ("UPDATE blobs SET bytes = zeroblob(3)", "its bytes are those of"),
    (f"{UNLOCK} UPDATE entries SET bytes = x'00' WHERE seq = 1", "evidence entry 1: not a canonical evidence entry"),
]


def copy_of(world, script):
    """A copy of the folder with the change; other programs need no lock to make it."""
    folder = f"{world.folder}/copy"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(f"{world.folder}/data", folder, ignore=shutil.ignore_patterns("*.sock", "jobs", "spool"))
    database = sqlite3.connect(f"{folder}/driftgate.db")
    database.executescript(script)
    database.commit()
    database.close()
    return folder


def whole_check(folder, expect):
    done = subprocess.run([DRIFTGATE, "audit", "verify", "--data-dir", folder], capture_output=True, text=True,
                          check=False, timeout=PATIENCE_S)
    check((done.returncode == 0) == (expect == 0), f"audit verify --data-dir: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def refused_start(world, folder):
    config = f"{world.folder}/copy.yaml"
    with open(config, "w", encoding="utf-8") as file:
        file.write(world.settings_text().replace(f"{world.folder}/data", folder))
    done = subprocess.run([DRIFTGATE, "serve", "--config", config], capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S)
    check(done.returncode != 0, f"a daemon started: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def each_changed_table_is_named_at_the_start_or_by_the_whole_check(world):
    world.start_daemon()
    former = world.api("POST", "/v1/tokens", {"name": "former", "scopes": ["viewer"]}, who="admin", expect=201)
    world.api("DELETE", f"/v1/tokens/{former['id']}", who="admin")
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    load = world.load()
    promotion = world.promote("bf16", "bf16")
    superseded = world.promote("bf16", "bf16")
    world.promote("bf16", "bf16")
    wait_for("a superseded promotion", lambda: world.promotion(superseded)["state"] == "superseded")
    world.reach(promotion, "awaiting_approval")
    world.daemon.kill()
    load.stop()
    whole_check(copy_of(world, ""), 0)
    for script, named in LIVE:
        folder = copy_of(world, script)
        said = refused_start(world, folder)
        check(named in said, f"{script}: the start says nothing of '{named}':\n{said}")
        check("restore" in said, f"no way out is named:\n{said}")
        said = whole_check(folder, 1)
        check(named in said, f"{script}: the whole check says nothing of '{named}':\n{said}")
    for script, named in REST:
        said = whole_check(copy_of(world, script), 1)
        check(named in said, f"{script}: the whole check says nothing of '{named}':\n{said}")
    print(f"{len(LIVE)} changes named at the start and offline, {len(REST)} offline")


TESTS = [
    each_changed_table_is_named_at_the_start_or_by_the_whole_check,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
