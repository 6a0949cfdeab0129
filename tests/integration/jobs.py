"""Jobs as people see them, against the running daemon: an adapter that waits on a pipe is listed, shown, followed and
cancelled, also by a daemon that died between the request and the end."""
import json
import os
import sqlite3
import subprocess

from harness import DRIFTGATE, PATIENCE_S, call, check, wait_for
from ranks import running
from world import World, run

# Prints each line that it reads, and ends when nobody writes to the pipe any more.
SCRIPT = 'echo begun; while read -r line; do echo "got $line"; done < "$1"; echo over; exit 3'


class Waiting:
    """A promotion whose capture waits on a pipe, of which this holds the other end."""

    def __init__(self, world):
        self.world = world
        self.pipe = os.path.join(world.folder, "pipe")
        os.mkfifo(self.pipe)
        plain = World.settings_text

        def settings_text():
            tree = json.loads(plain(world))
            tree["adapters"]["waits"] = ["/bin/sh", "-c", SCRIPT, "sh", self.pipe]
            return json.dumps(tree)
        world.settings_text = settings_text
        world.start_daemon()
        world.install_incumbent()
        world.start_engine("bf16", "bf16")
        world.register_engine("bf16", "bf16")
        captures = world.captures("bf16")
        captures["numeric"]["inf"] = {"adapter": "waits"}
        self.promotion = world.promote("bf16", "bf16", captures=captures)
        self.end = wait_for("the adapter to open the pipe", self.open_pipe)
        self.job = self.world.api("GET", f"/v1/jobs?promotion={self.promotion}", expect=200)["items"][0]["id"]

    def open_pipe(self):
        try:
            return os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return None

    def say(self, line):
        os.write(self.end, f"{line}\n".encode())

    def shown(self, who="viewer"):
        return self.world.api("GET", f"/v1/jobs/{self.job}", who=who, expect=200)

    def seen_running(self):
        """The job, once the daemon has seen where it runs, and its worker has said how far it is."""
        return wait_for("the job to be seen running",
                        lambda: (seen := self.shown())["place"] and seen["place"]["state"] == "running" and seen["progress"] and seen)

    def command(self, *words, who="operator"):
        return [DRIFTGATE, "jobs", *words, "--url", self.world.url, "--token-file", self.world.token_file(who)]

    def run(self, *words, who="operator", expect=0):
        done = subprocess.run(self.command(*words, who=who), capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S)
        check(done.returncode == expect, f"jobs {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def check_ended(self, reason):
        """The job and its promotion ended with the operator's name, and no process is left."""
        job = wait_for("the job to end", lambda: (seen := self.shown())["ended_us"] and seen)
        said = f"cancelled by operator: {reason}"
        check(job["state"] == "cancelled" and job["error"] == {"code": "conflict", "message": said}, f"{job}")
        check(job["cancel"]["by"] == "operator" and job["cancel"]["reason"] == reason, f"{job['cancel']}")
        check(job["place"]["runner"] == "local" and job["place"]["state"] == "ended", f"{job['place']}")
        ended = self.world.reach(self.promotion, "errored")
        check(said in ended["reason"], ended["reason"])
        entries = self.world.entries(kind="job_finished", promotion=self.promotion)
        check([(entry["actor"], entry["body"]["error"]["message"]) for entry in entries] == [("operator", said)],
              f"{entries}")


def a_job_is_listed_shown_followed_and_cancelled(world):
    waiting = Waiting(world)
    job = waiting.seen_running()
    check(job["state"] == "running" and job["kind"] == "capture" and job["name"] == "capture-inf", f"{job}")
    check(job["place"]["runner"] == "local" and job["place"]["state"] == "running", f"{job['place']}")
    check(running(int(job["place"]["remote"])), f"{job['place']}")
    check(job["progress"] == {"done": 0, "total": 1, "unit": "capture", "text": "adapter waits runs"}, f"{job}")
    check("folder" not in job and job["logs"] == ["log"], f"{job}")
    folder = waiting.shown("operator")["folder"]
    check(folder.startswith(f"{world.folder}/data/jobs/"), folder)
    progress = world.promotion(waiting.promotion)["stages"][0]["progress"]
    check(progress["job"] == waiting.job and progress["text"] == "capture-inf: adapter waits runs", f"{progress}")
    table = waiting.run("list", "--state", "running", who="viewer")
    check(waiting.job in table and "capture-inf" in table and "0% (0 of 1 capture), adapter waits runs" in table, table)
    check(f'driftgate_jobs{{runner="local",state="running"}} 1\n' in call(world.url + "/metrics").body, "metrics")
    waiting.run("logs", waiting.job, who="viewer", expect=77)
    check(waiting.run("logs", waiting.job) == "begun\n", "the log")

    printed = os.path.join(world.folder, "followed")
    with open(printed, "wb") as out:
        follower = subprocess.Popen(waiting.command("logs", waiting.job, "--follow"), stdout=out)
    try:
        said = lambda: open(printed, encoding="utf-8").read()
        for line in ("one", "two"):
            waiting.say(line)
            wait_for(f"'{line}' to be followed", lambda line=line: f"got {line}\n" in said())
        part = world.api("GET", f"/v1/jobs/{waiting.job}/log?offset=6&limit=8", who="operator", expect=200)
        check((part["text"], part["next"], part["ended"]) == ("got one\n", 14, False), f"{part}")

        waiting.run("cancel", waiting.job, "--reason", "no", who="viewer", expect=77)
        check(waiting.run("cancel", waiting.job, "--reason", "the corpus is the wrong one").startswith(
            f"job {waiting.job} is cancelled by operator"), "cancel")
        waiting.check_ended("the corpus is the wrong one")
        check(follower.wait(timeout=PATIENCE_S) == 0, "the follower ends with the job")
        check(said() == "begun\ngot one\ngot two\n", said())
    finally:
        if follower.poll() is None:
            follower.kill()
            follower.wait()
    check(not running(int(job["place"]["remote"])), "the worker is still there")
    waiting.run("cancel", waiting.job, "--reason", "again", expect=4)
    check("cancelled by operator: the corpus is the wrong one" in waiting.run("show", waiting.job), "show")
    os.close(waiting.end)


def a_daemon_that_died_after_a_cancelling_was_stored_ends_the_job(world):
    waiting = Waiting(world)
    worker = int(waiting.seen_running()["place"]["remote"])
    world.daemon.kill()
    check(running(worker), "a job outlives its daemon")
    # What the request commits, before the runner is told of it.
    with sqlite3.connect(f"{world.folder}/data/driftgate.db") as database:
        database.execute("UPDATE jobs SET cancelled_by = 'operator', cancel_reason = 'enough', cancelled_us = 1 "
                         "WHERE id = ?", (waiting.job,))
    database.close()
    world.start_daemon()
    waiting.check_ended("enough")
    wait_for("the worker to go", lambda: not running(worker))
    os.close(waiting.end)


TESTS = [
    a_job_is_listed_shown_followed_and_cancelled,
    a_daemon_that_died_after_a_cancelling_was_stored_ends_the_job,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
