"""Faults of the running daemon: it is killed, started twice, its disk fills, its clock jumps, its adapters
misbehave; what its clients do is in clients.py. Counts are those of the CI column in docs/reliability.md, or of the
nightly one when DRIFTGATE_FAULT_COLUMN is "nightly". The seed is printed; DRIFTGATE_TEST_SEED repeats a run."""
import contextlib
import http.client
import json
import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.environ["DRIFTGATE_ROOT"], "tests", "integration"))
if os.access("/dev/shm", os.W_OK):
    os.environ.setdefault("TMPDIR", "/dev/shm")  # processes are ended here, not machines

from harness import DRIFTGATE, PATIENCE_S, Failure, Process, call, check, wait_for  # noqa: E402
from record import Record  # noqa: E402
from world import TERMINAL, run  # noqa: E402

NIGHTLY = os.environ.get("DRIFTGATE_FAULT_COLUMN") == "nightly"
SEED = int(os.environ.get("DRIFTGATE_TEST_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
SHIM = os.environ.get("DRIFTGATE_SHIM_LIB", "")
EIO, ENOSPC = 5, 28
KILL_BEFORE, FAIL_ON = 1, 4  # ShimPlan::Mode


def rounds(ci, nightly):
    return int(os.environ.get("DRIFTGATE_FAULT_ROUNDS", nightly if NIGHTLY else ci))


def tell(name, result):
    print(f"fault: {name}: {result} (seed {SEED})", flush=True)


def launch(world, environment=None, config=None):
    """Starts the daemon and does not wait for anything."""
    path = f"{world.folder}/driftgate.yaml"
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(config or world.settings_text())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{world.folder}/api.port")
    forget(world)
    world.daemon = Process("daemon", ["/usr/bin/env", *(environment or []), DRIFTGATE, "serve", "--config", path],
                           f"{world.folder}/daemon.log")
    world.processes.append(world.daemon)


def forget(world):
    """A daemon that has ended leaves no open file behind in this process."""
    if world.daemon is not None and not world.daemon.alive():
        world.daemon.handle.close()
        world.processes.remove(world.daemon)
        world.daemon = None


def ready(world):
    def lives():
        check(world.daemon.alive(), f"the daemon ended at its start:\n{world.daemon.tail()}")
        return True

    def port():
        lives()
        with contextlib.suppress(OSError, ValueError):
            return int(open(f"{world.folder}/api.port", encoding="ascii").read())
    world.url = f"http://127.0.0.1:{wait_for('the port of the daemon', port)}"
    wait_for("the daemon to be ready", lambda: lives() and answers(world))
    world.router = f"http://127.0.0.1:{world.user_port}"
    if not world.tokens:
        world.issue_tokens()


def answers(world):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return call(world.url + "/readyz").status == 200


# --- kill -9 -------------------------------------------------------------------------------------------------
class Client(threading.Thread):
    """Registers kernels and asks for promotions, each with an idempotency key of its own, and repeats what it
    got no answer to until there is one."""

    def __init__(self, world, number, contract):
        super().__init__(daemon=True)
        self.world, self.number, self.contract = world, number, contract
        self.ended = threading.Event()
        self.kernels, self.promotions, self.repeated = {}, {}, 0
        self.lock = threading.Lock()
        self.failure = None

    def run(self):
        try:
            count = 0
            while not self.ended.is_set():
                count += 1
                self.once(f"{self.number}-{count}", promotion=self.number == 0 and count % 8 == 0)
        except Failure as failure:
            self.failure = failure

    def once(self, key, promotion):
        if promotion:
            path, body = "/v1/promotions", {"model": "tinylm", "engine": "bf16", "contract": self.contract,
                                            "captures": self.world.captures("bf16"), "note": key}
        else:
            path, body = "/v1/kernels", {"name": f"load-{key}", "engine": "tinylm", "dtype": "f32"}
        tries = 0
        while not self.ended.is_set():
            tries += 1
            answer = self.ask(path, body, key)
            if answer is None:
                time.sleep(0.005)
                continue
            # 409: the daemon that took the request is gone and the next one has not forgotten it yet.
            if answer.status in (409, 429, 503):
                time.sleep(0.01)
                continue
            check(answer.status in (200, 201), f"{path} {key}, try {tries}: {answer.status} {answer.body[:300]}")
            with self.lock:
                self.repeated += tries > 1
                (self.promotions if promotion else self.kernels)[key] = answer.json().get("id") or body["name"]
            return

    def ask(self, path, body, key):
        try:
            return call(self.world.url + path, "POST", body, {
                "Authorization": "Bearer " + self.world.tokens["promoter"], "Idempotency-Key": key}, timeout=30)
        except (OSError, http.client.HTTPException):
            return None

    def acknowledged(self):
        with self.lock:
            return dict(self.kernels), dict(self.promotions)


def approve_what_waits(world, promotion):
    """Approves when an approval is asked for."""
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        seen = call(f"{world.url}/v1/promotions/{promotion}", headers={
            "Authorization": "Bearer " + world.tokens["viewer"]}).json()
        if seen["state"] == "awaiting_approval":
            call(f"{world.url}/v1/promotions/{promotion}/approve", "POST",
                 {"evidence_digest": seen["approval"]["evidence_digest"], "reason": "figures read"},
                 {"Authorization": "Bearer " + world.tokens["approver"]})


def check_record(world, clients, ends, tables=True):
    """Nothing acknowledged before the kill is missing from what lies on the disk, and each key acted once."""
    before = [client.acknowledged() for client in clients]
    record = Record(f"{world.folder}/data")
    record.verify()
    kernels = set(record.kernels)
    for names, promotions in before:
        lost = set(names.values()) - kernels
        check(not lost, f"acknowledged and lost: {sorted(lost)[:5]}")
        lost = set(promotions.values()) - set(record.promotions)
        check(not lost, f"acknowledged promotions and lost: {lost}")
    check(len(record.kernels) == len(kernels), "a kernel was registered twice")
    registered = [entry["body"]["name"] for entry in record.decoded("kernel_registered")]
    check(sorted(registered) == sorted(kernels), "kernels and their entries differ")
    notes = [note for note in record.notes if note]
    check(len(notes) == len(set(notes)), f"a key asked for two promotions: {notes}")
    for promotion, state in ends.items():
        check(record.promotions[promotion] == state, f"{promotion} was {state}, is {record.promotions[promotion]}")
    ends.update({p: s for p, s in record.promotions.items() if s in TERMINAL})
    if tables:
        check_tables(world)
    return record


def check_tables(world):
    """In a copy of what the kill left, every table says what the log says."""
    copy = f"{world.folder}/left"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(f"{world.folder}/data", copy, ignore=shutil.ignore_patterns("*.sock", "jobs", "spool", "backups"))
    done = subprocess.run([DRIFTGATE, "audit", "verify", "--data-dir", copy], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    check(done.returncode == 0, f"what the kill left: {done.returncode}\n{done.stdout}{done.stderr}")


def kill_9_at_random_instants(world):
    count = 50
    chance = random.Random(SEED)
    world.settings = {"log.level": "warn", "http.requests_per_second": 100_000}
    launch(world)
    ready(world)
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    load = world.load(rate=60, seconds=3600)
    first = world.promote("bf16", "bf16")
    clients = [Client(world, number, world.contract("bf16")) for number in range(4)]
    for client in clients:
        client.start()
    ends, starts_killed = {}, 0
    for kill in range(count):
        if chance.random() < 0.25:
            starts_killed += 1
            time.sleep(chance.random() * 0.25)  # while it starts, wherever that is
        else:
            ready(world)
            approve_what_waits(world, first)
            time.sleep(chance.random() * 0.35)
        world.daemon.kill()
        check_record(world, clients, ends, tables=not NIGHTLY or kill % 10 == 0)
        launch(world)
    ready(world)
    for client in clients:
        client.ended.set()
        client.join(timeout=PATIENCE_S)
        check(not client.is_alive(), "a client does not end")
        check(client.failure is None, str(client.failure))
    wait_for("the promotion to end", lambda: approve_what_waits(world, first) or world.promotion(first)["state"]
             in TERMINAL)
    end = world.promotion(first)
    check(end["state"] == "succeeded", f"the promotion ended as {end['state']}: {end['reason']}")
    world.daemon.kill()
    record = check_record(world, clients, ends)
    jobs = [(e["subject"]["promotion"], e["body"]["job"]) for e in record.decoded("job_finished")]
    check(len(jobs) == len(set(jobs)), "a job's end was recorded twice")
    check(load.stop()["failed"] == 0, "users noticed")
    acknowledged = sum(len(c.kernels) + len(c.promotions) for c in clients)
    tell("kill -9 at random instants under load",
         f"{count} kills, {starts_killed} of them during the start; {acknowledged} requests acknowledged and kept, "
         f"{sum(c.repeated for c in clients)} repeated with their key; {len(record.entries)} entries verify; "
         f"the promotion resumed and succeeded")


# --- two daemons ---------------------------------------------------------------------------------------------
def a_second_daemon_is_refused_and_names_the_first(world):
    launch(world)
    ready(world)
    count, slowest = 20, 0.0
    for i in range(count):
        began = time.monotonic()
        second = subprocess.run([DRIFTGATE, "serve", "--config", f"{world.folder}/driftgate.yaml"],
                                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        slowest = max(slowest, time.monotonic() - began)
        check(second.returncode != 0, f"start {i} went well")
        check(str(world.daemon.pid) in second.stderr, f"the message does not name the holder: {second.stderr}")
        check(answers(world), "the first daemon does not serve any more")
    check(slowest < 1.0 or not NIGHTLY, f"the slowest took {slowest:.2f} s")
    check(len(world.entries(kind="daemon_started")) == 1, "a second daemon wrote to the log")
    tell("second daemon on the same data", f"{count} starts, all refused, the slowest after {slowest * 1000:.0f} ms")


# --- the disk ------------------------------------------------------------------------------------------------
def shim(mode, at, error, folder):
    return [f"LD_PRELOAD={SHIM}", f"DRIFTGATE_SHIM={mode} {at} {error} {folder}"]


def register(world, name):
    return call(world.url + "/v1/kernels", "POST", {"name": name, "engine": "tinylm", "dtype": "f32"},
                {"Authorization": "Bearer " + world.tokens["promoter"], "Idempotency-Key": name}, timeout=PATIENCE_S)


def a_full_disk_answers_507_and_serves_reads(world):
    launch(world)
    ready(world)
    check(register(world, "before").status == 201, "the kernel before")
    world.daemon.kill()
    full, sites = 0, 0
    # After so many calls of a healthy start and more, the disk is full for good.
    for at in range(20, 20 + 12 * rounds(12, 60), 12):
        launch(world, shim(FAIL_ON, at, ENOSPC, f"{world.folder}/data"))
        try:
            ready(world)
        except Failure:
            check(not world.daemon.alive(), "neither ready nor ended")
            check("space" in world.daemon.tail() or "full" in world.daemon.tail(), world.daemon.tail())
            continue
        sites += 1
        for i in range(at):
            try:
                answer = register(world, f"during-{at}-{i}")
            except (OSError, http.client.HTTPException):
                raise Failure(f"the daemon fell over a full disk:\n{world.daemon.tail()}") from None
            if answer.status == 507:
                full += 1
                check(answer.json()["code"] == "storage_full", answer.body)
                break
            check(answer.status == 201, f"{answer.status} {answer.body}")
        else:
            raise Failure("the disk did not fill up")
        names = [k["name"] for k in world.api("GET", "/v1/kernels?limit=500", expect=200)["items"]]
        check("before" in names, "a read was not served on a full disk")
        for path in ("/v1/evidence?limit=5", "/v1/evidence?kind=kernel_registered", "/v1/audit/sample?seed=dice"):
            world.api("GET", path, who="auditor", expect=200)
        check("the entry will be written once there is space" in world.daemon.tail(60_000), "the log does not say that a read could not be recorded")
        check(call(world.url + "/healthz").status == 200, "not healthy")
        world.daemon.kill()
    launch(world)
    ready(world)
    check(register(world, "after").status == 201, "a write after there was space again")
    world.daemon.kill()
    Record(f"{world.folder}/data").verify()
    check(full == sites and sites > 0, f"{full} of {sites}")
    tell("disk full", f"{sites} points, each 507 for writes and reads served; writes again with space")


def a_failed_sync_ends_the_daemon_with_74(world):
    launch(world)
    ready(world)
    world.daemon.kill()
    ended, kept = 0, 0
    for at in range(rounds(8, 40)):
        launch(world, shim(FAIL_ON, at * 3, EIO, f"{world.folder}/data"))
        acknowledged = []
        try:
            ready(world)
            for i in range(60):
                name = f"sync-{at}-{i}"
                if register(world, name).status == 201:
                    acknowledged.append(name)
        except (Failure, OSError, http.client.HTTPException):
            pass
        code = world.daemon.child.wait(timeout=PATIENCE_S)
        check(code in (74, 4), f"ended with {code}: {world.daemon.tail()}")
        check("I/O" in world.daemon.tail() or "sync" in world.daemon.tail() or "disk" in world.daemon.tail(),
              world.daemon.tail())
        ended += code == 74
        record = Record(f"{world.folder}/data")
        record.verify()
        check(set(acknowledged) <= set(record.kernels), "an acknowledged kernel is lost")
        kept += len(acknowledged)
    check(ended > 0, "no start got as far as a COMMIT")
    launch(world)
    ready(world)
    tell("failed syncs and writes of the daemon", f"{at + 1} points, {ended} ended with 74, the others refused to "
         f"start; {kept} acknowledged requests kept")


# --- time ----------------------------------------------------------------------------------------------------
def clock_jumps_and_stands_still(world):
    count = rounds(20, 20)  # the daemon notes 120 steps an hour
    chance = random.Random(SEED)
    path = f"{world.folder}/clock"
    open(path, "wb").write(bytes(16))
    handle = open(path, "r+b")
    clock = mmap.mmap(handle.fileno(), 16)
    world.settings = {"jobs.wall_limit_s": 3600}
    launch(world, [f"LD_PRELOAD={SHIM}", f"DRIFTGATE_SHIM_CLOCK={path}"])
    ready(world)
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    load = world.load(rate=60, seconds=3600)
    promotion = world.promote("bf16", "bf16")
    year = 365 * 86_400 * 10 ** 9
    steps, frozen = 0, 0
    offset = 0
    for _ in range(count):
        before = len(world.entries(kind="clock_stepped"))
        if chance.random() < 0.25:
            frozen += 1
            clock[:16] = struct.pack("<qq", offset, time.time_ns() + offset)
            time.sleep(0.2)
            check(answers(world), "not ready while the clock stands still")
        else:
            steps += 1
            offset = 0 if offset else chance.choice((-year, year))
            clock[:16] = struct.pack("<qq", offset, 0)
            wait_for("the step in the log", lambda: len(world.entries(kind="clock_stepped")) > before)
        approve_what_waits(world, promotion)
        check(answers(world), "not ready after the step")
    clock[:16] = bytes(16)
    wait_for("the promotion to end", lambda: approve_what_waits(world, promotion)
             or world.promotion(promotion)["state"] in TERMINAL)
    end = world.promotion(promotion)
    check(end["state"] == "succeeded", f"the promotion ended as {end['state']}: {end['reason']}")
    check(load.stop()["failed"] == 0, "users noticed")
    entries = world.entries(promotion=promotion)
    back = [f"{e['seq']} ({e['kind']}) is {a['time_us'] - e['time_us']} us before {a['seq']} ({a['kind']})"
            for a, e in zip(entries, entries[1:]) if e["time_us"] < a["time_us"]]
    check(not back, f"entries of the promotion go back in time: {back}")
    tell("clock jumps", f"{count}: {steps} of a year, {frozen} of a clock that stands still; each step logged, the "
         f"promotion succeeded on the monotonic clock")


# --- adapters ------------------------------------------------------------------------------------------------
def adapters_that_misbehave_end_at_their_limit(world):
    scripts = {
        "hangs": "trap '' TERM INT; while :; do sleep 1000; done",
        "floods": "while :; do echo 0123456789012345678901234567890123456789012345678901234567890123; done",
        "forks": "for i in 1 2 3 4 5 6 7 8; do (setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000') & done; sleep 1000",
    }
    world.settings = {"jobs.wall_limit_s": 1, "jobs.output_cap_bytes": 4096}
    mark = f"DRIFTGATE-{os.getpid()}-{SEED}"
    config = json.loads(world.settings_text())
    config["adapters"] = {name: ["/bin/sh", "-c", f": {mark}; {script}"] for name, script in scripts.items()}
    launch(world, config=json.dumps(config))
    ready(world)
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    count = rounds(1, 10)
    for name in scripts:
        for _ in range(count):
            captures = world.captures("bf16")
            captures["numeric"]["inf"] = captures["slice"]["inf"] = {"adapter": name}
            promotion = world.promote("bf16", "bf16", captures=captures)
            done = world.reach(promotion, ("errored", "running"))
            wait_for("the adapter to be killed", lambda: world.promotion(promotion)["state"] == "errored"
                     or "limit" in json.dumps(world.entries(promotion=promotion, kind="job_finished")))
            world.api("POST", f"/v1/promotions/{promotion}/abort", {"reason": "next"}, who="operator")
            wait_for("every process of the adapter to be gone", lambda: not processes_with(mark))
    tell("misbehaving adapters under the daemon", f"{count} each that hang, flood and fork; killed at the limit, no "
         "process left")


def processes_with(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if mark.encode() in open(f"/proc/{pid}/cmdline", "rb").read() and int(pid) != os.getpid():
                found.append(int(pid))
    return found


TESTS = [
    kill_9_at_random_instants,
    a_second_daemon_is_refused_and_names_the_first,
    a_full_disk_answers_507_and_serves_reads,
    a_failed_sync_ends_the_daemon_with_74,
    clock_jumps_and_stands_still,
    adapters_that_misbehave_end_at_their_limit,
]

if __name__ == "__main__":
    print(f"seed {SEED}", flush=True)
    run({test.__name__: test for test in TESTS})
