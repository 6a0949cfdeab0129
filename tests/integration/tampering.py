"""What somebody with sqlite3 and this source changes in a stopped daemon's database, without the log's key: it is named
by the check of the folder, refused at the start, or found by the running daemon."""
import json
import os
import shutil
import sqlite3

from auditing import command, data, something_happens, stop
from harness import DRIFTGATE, call, check, wait_for
from world import run

FILES = ("driftgate.db", "head.note", "head.note.signed-commits", "log.key", "attestation.key", "trust.json")


def change(folder, *statements):
    """Runs the statements on the folder's database, its guards off."""
    database = sqlite3.connect(os.path.join(folder, "driftgate.db"))
    guards = database.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for (name,) in guards:
        database.execute(f"DROP TRIGGER {name}")
    for statement, *values in statements:
        database.execute(statement, *values)
    database.commit()
    database.close()


def renamed(old, new, where):
    """The statement that changes the bytes of entries."""
    return (f"UPDATE entries SET bytes = CAST(replace(CAST(bytes AS TEXT), '{old}', '{new}') AS BLOB) WHERE {where}",)


def forged_entry(folder):
    """The statement that appends an entry as the daemon would, in its canonical form."""
    database = sqlite3.connect(os.path.join(folder, "driftgate.db"))
    newest = json.loads(database.execute("SELECT bytes FROM entries ORDER BY seq DESC LIMIT 1").fetchone()[0])
    database.close()
    seq, time_us = newest["seq"] + 1, newest["time_us"] + 1
    entry = {"v": 1, "seq": seq, "time_us": time_us, "kind": "evidence_read", "actor": "eve", "subject": {},
             "body": {"what": "nothing"}}
    text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
    return ("INSERT INTO entries(seq, bytes) VALUES(?, ?)", (seq, text.encode()))


def each_change_of_a_stopped_database_is_named(world):
    world.start_daemon()
    for number in range(70):
        something_happens(world, f"kernel-{number}")
    said = command(world, "audit", "verify", *data(world), expect=4)
    check("another driftgate" in said, f"beside a running daemon: {said}")
    stop(world)
    whole = f"{world.folder}/data"
    report = json.loads(command(world, "audit", "verify", *data(world), "--json"))
    check(report["code"] == 0 and report["findings"] == [] and report["entries"] > 70, f"an untouched folder: {report}")
    trust = f"{world.folder}/trust.json"
    with open(trust, "w", encoding="ascii") as file:
        file.write(command(world, "key", "trust", *data(world)))
    command(world, "audit", "verify", *data(world), "--trust", trust)

    # What the check of the folder says, the change, and what the start says, where it is refused.
    unsigned, emptied, gone = "have no signature", "somebody emptied the table", "the signed head of the evidence log is gone"
    changes = [
        (unsigned, forged_entry(whole), unsigned),
        (emptied, ("UPDATE log_head SET size = 0, note = ''",), emptied),
        (gone, ("DELETE FROM log_head",), gone),
        ("evidence entries 0 to 63", renamed("kernel-7", "kernel-8", "seq < 64"), None),
        ("entry 5: not a canonical evidence entry", ("UPDATE entries SET bytes = x'00' WHERE seq = 5",), None),
        ("is not the one that was signed", renamed("kernel-69", "kernel-96", "seq >= 64"), "rollback detected"),
    ]
    for number, (named, statement, refusal) in enumerate(changes):
        folder = f"{world.folder}/changed-{number}"
        os.mkdir(folder)
        for name in FILES:
            shutil.copy(os.path.join(whole, name), folder)
        change(folder, statement)
        said = command(world, "audit", "verify", "--data-dir", folder, "--trust", trust, expect=1)
        check(named in said, f"{named!r} is not in:\n{said}")
        if refusal:
            started = world.process(f"changed-{number}", [DRIFTGATE, "serve", "--listen", "127.0.0.1:0", "--data-dir",
                                                          folder])
            wait_for("the daemon to end", lambda: not started.alive())
            check(started.child.returncode == 4 and refusal in started.tail(), f"the start says:\n{started.tail()}")
            again = command(world, "audit", "verify", "--data-dir", folder, "--trust", trust, expect=1)
            check(named in again, f"after the start {named!r} is not in:\n{again}")


def a_running_daemon_names_what_was_changed_before_its_start(world):
    world.keeps_its_folder_whole = False
    world.start_daemon()
    for number in range(70):
        something_happens(world, f"kernel-{number}")
    ready = lambda: call(world.url + "/readyz")
    record = lambda: next(item for item in json.loads(ready().body)["checks"] if item["name"] == "record")
    wait_for("the record to be checked", lambda: "verified" in record()["detail"] and ready().status == 200)
    stop(world)
    change(f"{world.folder}/data", renamed("kernel-7", "kernel-8", "seq < 64"))
    world.start_daemon(ready=False)
    wait_for("the difference to be found", lambda: ready().status == 503)
    check("evidence entries 0 to 63" in record()["detail"], f"what is not ready: {record()}")
    metrics = call(world.url + "/metrics", headers={"Authorization": "Bearer " + world.tokens["viewer"]}).body
    check("\ndriftgate_record_differences 0\n" not in metrics, "the metric does not count the difference")
    wait_for("the log to name it", lambda: "evidence entries 0 to 63" in world.daemon.tail())
    stop(world)


TESTS = [
    each_change_of_a_stopped_database_is_named,
    a_running_daemon_names_what_was_changed_before_its_start,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
