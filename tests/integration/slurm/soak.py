"""Many jobs on a private Slurm cluster while faults are injected at random from a seed: each ends as the same measurement
as without Slurm, to the bit, or as an error with the true reason; none is lost and none is done twice.

CTest runs a short form. By hand, with DRIFTGATE_ROOT, DRIFTGATE_BIN and TINYLM_BIN set as CONTRIBUTING.md says:
    python3 tests/integration/slurm/soak.py --jobs 200 [--seed 7]"""
import argparse
import collections
import json
import os
import random
import re
import signal
import sys
import threading
import time

from slurm_world import SlurmWorld, finished_jobs, measured
from harness import Failure, check, wait_for
from world import TERMINAL, World, run

KERNEL = "int8-static"  # refused in statistical-slice, after every kind of offline job
STAGES = ("offline-numeric", "statistical-slice")
RANKS = (1, 3)  # the daemon is started again with the other number in between

# What a job's error may say, and what must then have happened to the job at Slurm that it names.
REASONS = (
    ("cancelled", r"Slurm's job (\d+) was cancelled", ("cancel",)),
    ("time limit", r"Slurm's job (\d+) reached its time limit", ("time limit",)),
    ("began too often", r"Slurm's job (\d+) ended with .* measured nothing more",
     ("worker killed", "node", "requeue", "preempt", "controller killed", "time limit")),
    ("began too often", r"Slurm began the job (\d+) \d+ times", ("node", "requeue", "preempt", "controller killed")),
    ("killed", r"Slurm's job (\d+) (?:was ended by signal 9|failed with exit status 137)",
     ("worker killed", "node", "requeue", "preempt")),
    ("a rank was lost", r"Slurm's job (\d+) (?:was ended by signal|failed with exit status)",
     ("worker killed", "node", "requeue", "preempt", "cancel", "time limit", "controller killed")),
    # Slurm holds what a node could not launch, as when the job or its node ended in that moment.
    ("its launch failed", r"Slurm holds its job (\d+) back: launch failed requeued held",
     ("node", "requeue", "preempt", "controller killed")),
    ("forgotten", r"Slurm knows the job (\d+) no more", ("controller killed",)),
    ("its step was lost", r"Slurm's job (\d+) ended with success and left no result",
     ("node", "requeue", "preempt", "cancel", "time limit", "controller killed")),
    ("a rank was lost", r"its process \d+ has ended", ("worker killed", "node", "requeue", "preempt", "cancel")),
    ("its adapter was killed", r"adapter \S+ ended with signal (?:9|15)", ("node", "requeue", "preempt", "cancel", "time limit")),
    ("a rank was lost", r"rank \d+", ("worker killed", "node", "requeue", "preempt")),
)


class Faults(threading.Thread):
    """Does something to the cluster, a job or the daemon every few seconds, until it is stopped; then mends everything."""
    killed_share = 0.5  # of the times that the controller is started again

    def __init__(self, world, seed):
        super().__init__(daemon=True)
        self.world, self.random = world, random.Random(seed)
        self.done = threading.Event()
        self.lock = threading.Lock()  # held while the daemon is down
        self.dead, self.drained = {}, {}
        self.counts = collections.Counter()
        self.struck = collections.defaultdict(set)  # kind of fault: ids of jobs at Slurm that it may have hit
        self.trouble = None

    def run(self):
        try:
            while not self.done.wait(self.random.uniform(1, 4)):
                self.mend(time.monotonic())
                self.strike()
        except BaseException as error:  # shown by who waits for the end
            self.trouble = error

    def finish(self):
        self.done.set()
        self.join(120)
        self.mend(float("inf"))

    def ours(self, *states):
        return [job for job in self.world.cluster.jobs()
                if job["comment"].startswith("driftgate/") and (not states or job["state"] in states)]

    def strike(self):
        faults = {self.node: 4, self.requeue: 4, self.cancel: 2, self.preempt: 2, self.drain: 1, self.pause_controller: 2,
                  self.restart_controller: 1, self.kill_daemon: 2, self.kill_worker: 2, self.time_limit: 2}
        fault = self.random.choices(list(faults), list(faults.values()))[0]
        name = fault()
        if name:
            self.counts[name] += 1

    def mend(self, now):
        cluster = self.world.cluster
        for name in [name for name, until in self.dead.items() if until <= now]:
            cluster.start_node(name)
            del self.dead[name]
        for name in [name for name, until in self.drained.items() if until <= now]:
            cluster.undrain(name)
            del self.drained[name]
        for job in self.ours("PENDING"):
            if job["reason"] == "BeginTime":
                cluster.run("scontrol", "update", f"JobId={job['id']}", "StartTime=now", check=False)

    # --- one of each kind; its name, or nothing when there was nothing to do it to ----------------
    def one(self, *states):
        jobs = self.ours(*states)
        return self.random.choice(jobs)["id"] if jobs else None

    def note(self, name, *ids):
        self.struck[name].update(ids)
        return name

    def node(self):
        up = [name for name in self.world.cluster.nodes if name not in self.dead and name not in self.drained]
        if len(up) < 2:
            return None
        name = self.random.choice(up)
        # Everything that might have been there: a job begins and ends between two looks.
        self.note("node", *(job["id"] for job in self.ours()))
        self.world.cluster.kill_node(name)
        if self.random.random() < 0.7:
            self.world.cluster.declare_down(name)
        self.dead[name] = time.monotonic() + self.random.uniform(1, 6)
        return self.note("node", *(job["id"] for job in self.ours()))

    def requeue(self):
        job = self.one("RUNNING")
        if job:
            self.world.cluster.run("scontrol", "requeue", job, check=False)
        return self.note("requeue", job) if job else None

    def cancel(self):
        job = self.one("RUNNING", "PENDING")
        if job:
            self.world.cluster.run("scancel", job, check=False)
        return self.note("cancel", job) if job else None

    def preempt(self):
        self.world.cluster.preempt(1)
        return self.note("preempt", *(job["id"] for job in self.ours()))

    def drain(self):
        up = [name for name in self.world.cluster.nodes if name not in self.dead and name not in self.drained]
        if len(up) < 2:
            return None
        self.drained[up[0]] = time.monotonic() + self.random.uniform(1, 4)
        self.world.cluster.drain(up[0])
        return "drain"

    def pause_controller(self):
        self.world.cluster.stop_controller()
        self.done.wait(self.random.uniform(1, 8))
        self.world.cluster.continue_controller()
        return "controller away"

    def restart_controller(self):
        self.note("controller killed", *(job["id"] for job in self.ours()))
        # Ended in order it saves its state; killed, it may forget its newest jobs and give their numbers again.
        if self.random.random() < self.killed_share:
            self.world.cluster.kill_controller()
        else:
            self.world.cluster.end_controller()
        self.done.wait(self.random.uniform(0, 3))
        self.world.cluster.start_controller()
        return self.note("controller killed", *(job["id"] for job in self.ours()))

    def kill_daemon(self):
        with self.lock:
            self.world.daemon.kill()
            self.world.settings["jobs.ranks"] = self.random.choice(RANKS)
            self.world.start_daemon()
        return "daemon killed"

    def kill_worker(self):
        running = {job["id"] for job in self.ours("RUNNING")}
        starts = [start for start in self.world.starts() if start["id"] in running]
        if not starts:
            return None
        start = self.random.choice(starts)
        try:
            with open(f"/proc/{start['pid']}/cmdline", encoding="utf-8", errors="replace") as file:
                if start["folder"] not in file.read():
                    return None
            self.note("worker killed", start["id"])
            os.kill(int(start["pid"]), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            return None
        return "worker killed"

    def time_limit(self):
        job = self.one("RUNNING")
        if job:
            self.world.cluster.run("scontrol", "update", f"JobId={job}", "EndTime=now", check=False)
        return self.note("time limit", job) if job else None


def make_models(world, count):
    world.install_incumbent()
    world.start_engine(KERNEL, KERNEL)
    world.register_engine(KERNEL, KERNEL)
    names = [f"m{i}" for i in range(count)]
    for name in names:
        world.api("POST", "/v1/models", {"name": name, "engine": "f32", "reason": "first version"}, who="operator", expect=201)
    return names


def references(world):
    """What a daemon without Slurm measures, by number of ranks."""
    found = {}
    for ranks in RANKS:
        other = World("local", {"jobs.ranks": ranks})
        other.engines = world.engines
        try:
            other.start_daemon()
            other.register_engine("f32", "f32")
            other.api("POST", "/v1/models", {"name": "tinylm", "engine": "f32", "reason": "first version"},
                      who="operator", expect=201)
            other.register_engine(KERNEL, KERNEL)
            promotion = other.promote(KERNEL, KERNEL)
            other.reach(promotion, "rejected")
            found[ranks] = measured(other, promotion)
        finally:
            other.close()
    return found


def asked(world, faults, *arguments, **options):
    """A request that waits while the daemon is down on purpose, and comes again when it fell in between."""
    for _ in range(50):
        try:
            with faults.lock:
                return world.api(*arguments, **options)
        except (OSError, Failure) as error:
            last = error
            time.sleep(0.05)
    raise last


def drive(world, faults, models, target):
    """One promotion of each model at a time, until so many jobs have ended and all promotions too; the promotions."""
    contract = world.contract(KERNEL)
    body = {"engine": KERNEL, "contract": contract, "captures": world.captures(KERNEL)}
    promotions, busy, ended, jobs = [], {}, set(), {}
    while True:
        check(faults.trouble is None, f"the injector of faults failed: {faults.trouble!r}")
        for model in models:
            if model not in busy and sum(jobs.values()) + 4 * len(busy) < target:
                made = asked(world, faults, "POST", "/v1/promotions", {"model": model, **body}, who="promoter", expect=201,
                             headers={"Idempotency-Key": f"{model}-{len(promotions)}"})
                busy[model] = made["id"]
                promotions.append(made["id"])
        for model, promotion in list(busy.items()):
            seen = asked(world, faults, "GET", f"/v1/promotions/{promotion}", expect=200)
            if seen["state"] in TERMINAL:
                entries = asked(world, faults, "GET", f"/v1/evidence?limit=500&promotion={promotion}&kind=job_finished",
                                who="auditor", expect=200)["items"]
                jobs[promotion] = len(entries)
                ended.add(promotion)
                del busy[model]
        if not busy and sum(jobs.values()) >= target:
            return promotions
        time.sleep(0.05)


def why(faults, message):
    """Which reason an error gives; the reason must be true of the job that it names."""
    for name, pattern, kinds in REASONS:
        found = re.search(pattern, message)
        if found:
            ids = set().union(*(faults.struck[kind] for kind in kinds))
            named = found.group(1) if found.groups() else None
            check(named is None or named in ids, f"nothing was done to job {named} that explains: {message}")
            return name
    raise Failure(f"an error without a reason that anybody caused: {message}")


def account(world, faults, promotions, reference):
    """Every job of every promotion, held against the measurement without Slurm and against Slurm's own records."""
    outcomes, keys = collections.Counter(), set()
    for promotion in promotions:
        state = world.promotion(promotion)
        check(state["state"] in ("rejected", "errored"), f"{promotion} ended as {state['state']}: {state['reason']}")
        for entry in world.entries(promotion=promotion, kind="job_finished"):
            body, subject = entry["body"], entry["subject"]
            keys.add(f"{promotion}/{subject['stage']}/{subject['attempt']}/{body['name']}")
            if body["ok"]:
                digests = sorted((one["name"], one["digest"]) for one in body["digests"])
                here = [table[(subject["stage"], body["name"])] for table in reference.values()]
                check(digests in here, f"{promotion} {subject} {body['name']}: {digests}, without Slurm {here}")
                outcomes["measured, equal to the bit"] += 1
            else:
                outcomes[f"error: {why(faults, body['error']['message'])}"] += 1
        finished_jobs(world, promotion)
    at_slurm = world.nothing_is_left()
    comments = {job["comment"].removeprefix("driftgate/") for job in at_slurm}
    check(comments <= keys, f"at Slurm, but not in the record: {comments - keys}")
    folders = {os.path.basename(start["folder"]) for start in world.starts()}
    known = {re.sub("[^A-Za-z0-9-]", ".", key) for key in keys}
    check(folders <= known, f"ran, but not in the record: {folders - known}")
    # By its folder: a controller that is killed before it has saved forgets jobs and gives their numbers to others. It may also
    # record a run's end again; that run has begun once.
    runs = {(one["WorkDir"], one["JobId"], one["StartTime"]) for one in world.cluster.completions()
            if one["JobState"] == "COMPLETED" and one["Name"].startswith("driftgate-")}
    twice = [folder for folder, count in collections.Counter(folder for folder, _, _ in runs).items() if count > 1]
    check(not twice, f"completed twice: {sorted(run for run in runs if run[0] in twice)}")
    return outcomes, len(keys), len(at_slurm)


def soak(world, target, seed, models):
    print(f"seed {seed}", flush=True)
    world.settings["slurm.queue_limit"] = 64
    world.start_daemon()
    names = make_models(world, models)
    reference = references(world)
    began = time.monotonic()
    faults = Faults(world, seed)
    faults.start()
    try:
        promotions = drive(world, faults, names, target)
    finally:
        faults.finish()
    wait_for("Slurm's queue to be empty of ours", lambda: faults.mend(0) or not world.cluster.unfinished())
    outcomes, count, at_slurm = account(world, faults, promotions, reference)
    print(json.dumps({"seed": seed, "jobs": count, "promotions": len(promotions), "submissions": at_slurm,
                      "starts": len(world.starts()), "seconds": round(time.monotonic() - began),
                      "outcomes": dict(outcomes), "faults": dict(faults.counts)}, indent=1))
    check(count >= target, f"{count} jobs, fewer than {target}")


def some_jobs_under_random_faults_end_once_and_truly(world):
    soak(world, 12, int(os.environ.get("DRIFTGATE_TEST_SEED") or random.randrange(1 << 32)), 3)


TESTS = (
    some_jobs_under_random_faults_end_once_and_truly,
)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--models", type=int, default=10)
    options = parser.parse_args()
    sys.argv = [sys.argv[0], "soak"]
    run({"soak": lambda world: soak(world, options.jobs, options.seed, options.models)},
        lambda name: SlurmWorld(name, min_job_age=36_000))


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("--"):
        main()
    else:
        run({test.__name__: test for test in TESTS}, lambda name: SlurmWorld(name, min_job_age=36_000))
