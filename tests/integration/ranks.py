"""driftgate drift and the jobs' worker over the processes of an MPI job: both ways of sharing the work against one
process, a rank that is killed and one that stalls, a worker that is killed or told to stop and started again. Every
process started here is ended here."""
import contextlib
import errno
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

DRIFTGATE = os.environ["DRIFTGATE_BIN"]
MPIRUN = os.environ.get("DRIFTGATE_MPIRUN", "mpirun")
RANKS = 4
ROWS, COLUMNS = 240, 700
TIMEOUT_S = 8.0  # of a rank's waits, where one stalls; longer than any rank is late that has not stalled
PATIENCE_S = 240.0


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def capture(path, seed, noise, rows=ROWS, columns=COLUMNS, of_sequence=9):
    """A capture of pseudo-random logits; the same seed gives the same ones, `noise` scales a second stream."""
    header = {"__metadata__": {"capture.version": "1", "kernel": f"k{noise}", "temperature": "1.0"}}
    state, offset = seed, 0
    tensors = {"logits": ("F32", [rows, columns], 4 * rows * columns), "token_ids": ("I32", [rows], 4 * rows),
               "sequence_ids": ("I32", [rows], 4 * rows), "positions": ("I32", [rows], 4 * rows)}
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    logits = []
    for _ in range(rows * columns):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        base = ((state >> 40) & 0xFFFF) / 8192.0 - 4
        logits.append(base + noise * (((state >> 20) & 0xFFF) / 2048.0 - 1))
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.write(struct.pack(f"<{len(logits)}f", *logits))
        for column in ([row * 31 % columns for row in range(rows)], [row // of_sequence for row in range(rows)],
                       [row % of_sequence for row in range(rows)]):
            file.write(struct.pack(f"<{rows}i", *column))


class World:
    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="driftgate-ranks-")
        self.train, self.inf = os.path.join(self.folder, "a"), os.path.join(self.folder, "b")
        capture(self.train, 7, 0.0)
        capture(self.inf, 7, 0.02)
        self.job = None
        return self

    def __exit__(self, *_):
        if self.job and self.job.poll() is None:
            self.job.kill()
            self.job.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def single(self, *arguments):
        command = [DRIFTGATE, "drift", self.train, self.inf, "--json", self.path("one.json"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        check(done.returncode == 0, f"one process: {done.returncode} {done.stderr}")
        with open(self.path("one.json")) as file:
            return json.load(file)

    def start(self, arguments, program=(DRIFTGATE,)):
        command = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS), *program, "drift", self.train,
                   self.inf, *arguments]
        # In a session of its own, so that the test finds what it would leave behind.
        self.job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    start_new_session=True)

    def finish(self):
        """Exit status, standard output, standard error; within the patience."""
        out, err = self.job.communicate(timeout=PATIENCE_S)
        return self.job.returncode, out, err

    def start_blocked(self, rank):
        """A job whose rank waits for its corpus, a pipe, while the others wait for it. Returns its process."""
        pipe, pids = self.path("pipe"), self.path("pid")
        os.mkfifo(pipe)
        script = (f'echo $$ > {pids}.$OMPI_COMM_WORLD_RANK; if [ $OMPI_COMM_WORLD_RANK = {rank} ]; then '
                  f'exec {DRIFTGATE} "$@" --corpus {pipe}; else exec {DRIFTGATE} "$@"; fi')
        self.start(["--timeout", str(TIMEOUT_S)], ("sh", "-c", script, "sh"))
        end = time.monotonic() + PATIENCE_S
        self.pids = []
        while len(self.pids) < RANKS:
            with contextlib.suppress(FileNotFoundError, ValueError):
                self.pids.append(int(open(f"{pids}.{len(self.pids)}").read()))
                continue
            check(time.monotonic() < end, "a rank never began")
            time.sleep(0.02)
        while True:
            try:
                self.pipe = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError as error:
                check(error.errno == errno.ENXIO and time.monotonic() < end, f"the rank never opened: {error}")
                time.sleep(0.02)
        return self.pids[rank]

    def check_nothing_left(self):
        end = time.monotonic() + PATIENCE_S
        while any(running(pid) for pid in self.pids):
            check(time.monotonic() < end, f"still running: {[pid for pid in self.pids if running(pid)]}")
            time.sleep(0.02)


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def compare(one, many, where=""):
    """Every number of the reports agrees to 1e-6; a quantile may be one bin of 1% away
    (docs/design/measurement.md, "Error bounds")."""
    check(type(one) is type(many) or {type(one), type(many)} == {int, float}, f"{where}: {one} and {many}")
    if isinstance(one, dict):
        check(one.keys() == many.keys(), f"{where}: {sorted(one)} and {sorted(many)}")
        for key in one:
            if key != "device":
                compare(one[key], many[key], f"{where}/{key}")
    elif isinstance(one, list):
        check(len(one) == len(many), f"{where}: {len(one)} and {len(many)} entries")
        for i, (a, b) in enumerate(zip(one, many)):
            compare(a, b, f"{where}/{i}")
    elif isinstance(one, (int, float)) and not isinstance(one, bool):
        name = where.rsplit("/", 1)[-1]
        quantile = name.startswith("p") and name[1:].replace("_", "").isdigit()
        part = 0.021 if quantile else 1e-6
        check(abs(one - many) <= max(part * abs(one), 1e-9), f"{where}: {one} and {many}")
    else:
        check(one == many, f"{where}: {one} and {many}")


def both_ways_of_sharing_agree_with_one_process():
    with World() as world:
        one = world.single()
        for shard in ("rows", "vocab"):
            world.start(["--shard", shard, "--json", world.path("many.json")])
            code, out, err = world.finish()
            check(code == 0, f"{shard}: {code} {err}")
            check(out.count("vocabulary 700") == 1, f"one rank prints the report, once: {out}")
            check(err == "", f"the ranks have nothing to complain of: {err}")
            with open(world.path("many.json")) as file:
                many = json.load(file)
            check(f"{RANKS} ranks over mpi, {shard}" in many["device"], many["device"])
            check(many.pop("shard") == {"mode": shard, "reason": "as asked"}, "the report says what was asked for")
            compare(one, many)
            # The same layout gives the same bits, however the ranks exchange.
            threads = world.single("--shard", shard, "--ranks", str(RANKS), "--exchange", "threads")
            del many["device"], threads["device"], threads["shard"]
            check(threads == many, f"{shard}: threads and processes report different bits")


def a_violated_contract_is_the_exit_status_of_the_job():
    with World() as world:
        with open(world.path("contract.yaml"), "w") as file:
            file.write("apiVersion: driftgate/v1\nkind: KernelContract\nmetadata: {name: t}\n"
                       "kernels: {train: {ref: k0.0}, inf: {ref: k0.02}}\n"
                       "numerical:\n  - {id: tv, metric: tv, aggregate: sequence_mean, max: 1.0e-6}\n")
        world.start(["--contract", world.path("contract.yaml")])
        code, out, err = world.finish()
        check(code == 1, f"violated is 1, not {code}: {err}")
        check("VIOLATED" in out, out)


def an_error_of_one_rank_is_the_job_s():
    with World() as world:
        script = (f'if [ $OMPI_COMM_WORLD_RANK = 1 ]; then exec {DRIFTGATE} drift {world.train} '
                  f'{world.path("absent")}; else exec {DRIFTGATE} "$@"; fi')
        world.start([], ("sh", "-c", script, "sh"))
        code, out, err = world.finish()
        check(code == 74, f"the exit status of a missing file, not {code}: {err}")
        check("absent" in err and "rank 1 of 4" in err, err)
        check(out == "", out)


def a_killed_rank_is_named():
    with World() as world:
        pid = world.start_blocked(2)
        os.kill(pid, signal.SIGKILL)
        code, _, err = world.finish()
        check(code != 0, "a job that lost a rank can not succeed")
        check("rank 2" in err and "comparing captures and options" in err, err)
        world.check_nothing_left()


def a_stalled_rank_is_named():
    with World() as world:
        pid = world.start_blocked(1)
        os.kill(pid, signal.SIGSTOP)
        code, out, err = world.finish()
        check(code == 4, f"an error is 4, not {code}: {err}")
        check("rank 1 of 4" in err and "comparing captures and options" in err and f"within {TIMEOUT_S:.3g} s" in err, err)
        check(out == "", out)
        world.check_nothing_left()


def a_rank_that_does_not_end_is_noticed():
    with World() as world:
        pids = world.path("pid")
        script = (f'echo $$ > {pids}.$OMPI_COMM_WORLD_RANK; '
                  f'STALLING_RANK=2 LD_PRELOAD={os.environ["STALLING_END"]} exec {DRIFTGATE} "$@"')
        world.start(["--timeout", str(TIMEOUT_S)], ("sh", "-c", script, "sh"))
        code, out, err = world.finish()
        check(code == 4, f"an error is 4, not {code}: {err}")
        check("MPI_Finalize did not return within" in err, err)
        check("kl_train_inf" in out, f"what was measured was not said: {out}")
        world.pids = [int(open(f"{pids}.{i}").read()) for i in range(RANKS)]
        world.check_nothing_left()


def ranks_choose_how_to_share_the_work_and_say_why():
    with World() as world:
        for arguments, mode, reason in (([], "rows", "whole sequences for each of 4 ranks; a row pair of 0.0 MiB fits"),
                                        (["--rows-out", world.path("rows")], "vocab", "figures of single rows"),
                                        (["--shard", "vocab"], "vocab", "as asked")):
            world.start([*arguments, "--json", world.path("many.json")])
            code, out, err = world.finish()
            check(code == 0, f"{arguments}: {code} {err}")
            check(f"shard: {mode} (" in out and reason in out, out)
            with open(world.path("many.json")) as file:
                shard = json.load(file)["shard"]
            check(shard["mode"] == mode and reason in shard["reason"], shard)
        few = world.single("--ranks", "30", "--exchange", "threads")["shard"]
        check(few["mode"] == "vocab" and "27 parts of whole sequences, fewer than 30 ranks" in few["reason"], few)
        check("shard" not in world.single(), "one rank shares nothing")


class Job:
    """A folder of a drift job, and the worker in it: alone, or as the processes of an MPI job."""

    def __init__(self, world, name, ranks=1, train=None, inf=None, **payload):
        self.world, self.folder = world, world.path(name)
        os.mkdir(self.folder)
        contract = {"apiVersion": "driftgate/v1", "kind": "KernelContract", "metadata": {"name": "t"},
                    "kernels": {"train": {"ref": "a"}, "inf": {"ref": "b"}},
                    "numerical": [{"id": "tv", "metric": "tv", "aggregate": "sequence_mean", "max": 0.5}]}
        spec = {"key": "p/offline/1/drift", "kind": "drift",
                "limits": {"address_space_bytes": 0, "cpu_seconds": 0, "wall_ms": 60_000, "output_bytes": 65_536},
                "payload": {"train": train or world.train, "inf": inf or world.inf, "corpus": "", "threads": 0,
                            "contract": json.dumps(contract), "roots": [world.folder], "worst_rows": 10, **payload}}
        if ranks != 1:
            spec["ranks"] = ranks
        with open(self.path("spec.json"), "w") as file:
            json.dump(spec, file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def result(self):
        return json.loads(self.read("result.json"))

    def chunks(self):
        """Name and inode of each chunk that is kept: one that is written again has another."""
        with contextlib.suppress(FileNotFoundError):
            return {entry.name: entry.inode() for entry in os.scandir(self.path("chunks")) if ".tmp" not in entry.name}
        return {}

    def run(self):
        done = subprocess.run([DRIFTGATE, "worker", self.folder], capture_output=True, text=True, timeout=PATIENCE_S)
        return done.returncode, done.stderr

    def start(self, processes=1):
        """The pids of its ranks are in the world's `pids` once each has begun."""
        script = f'echo $$ > {self.path("rank")}.${{OMPI_COMM_WORLD_RANK:-0}}; exec {DRIFTGATE} worker {self.folder}'
        command = ["sh", "-c", script]
        if processes > 1:
            command = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", str(processes), *command]
        self.world.job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                          start_new_session=True)
        self.processes = processes

    def wait_for_chunks(self, count, written_again=None):
        """Until there are so many, and those that are given with their inodes were written again, whichever rank has them."""
        before, end = written_again or {}, time.monotonic() + PATIENCE_S
        while len(now := self.chunks()) < count or any(now.get(name) == inode for name, inode in before.items()):
            check(self.world.job.poll() is None, "the job ended before it was to be disturbed")
            check(time.monotonic() < end, "no chunks")
            time.sleep(0.001)
        self.world.pids = [int(self.read(f"rank.{rank}")) for rank in range(self.processes)]
        return self.world.pids

    def forget_progress(self):
        """Ranks that share rows tell each other their progress once a batch, which here is all they have."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path("progress.jsonl"))

    def first_progress(self):
        return json.loads(self.read("progress.jsonl").splitlines()[0])


MANY = 600  # sequences of one row, and each a chunk


@contextlib.contextmanager
def many_chunks():
    with World() as world:
        world.many = {"train": world.path("c"), "inf": world.path("d"), "chunk_bytes": 1}
        capture(world.many["train"], 11, 0.0, MANY, 40, 1)
        capture(world.many["inf"], 11, 0.02, MANY, 40, 1)
        yield world


def a_worker_of_several_processes_has_the_bits_of_its_threads():
    with World() as world:
        for shard in ("auto", "vocab"):
            threads, processes = Job(world, f"t{shard}", RANKS, shard=shard), Job(world, f"p{shard}", RANKS, shard=shard)
            code, err = threads.run()
            check(code == 0, f"threads: {code} {err}")
            processes.start(RANKS)
            code, _, err = world.finish()
            check(code == 0, f"processes: {code} {err}")
            check(processes.result()["ok"], processes.result())
            check(processes.read("table.bin") == threads.read("table.bin"), f"{shard}: other bits")
            summary = processes.result()["summary"]
            check(summary["ranks"] == RANKS and summary["shard"] == ("rows" if shard == "auto" else shard), summary)
            before = processes.read("result.json")
            processes.start(RANKS)  # a requeued job that had finished
            code, _, err = world.finish()
            check(code == 0 and processes.read("result.json") == before, f"{code} {err}")


def a_killed_worker_goes_on_where_it_was():
    with many_chunks() as world:
        for ranks, shard in ((1, "auto"), (RANKS, "rows"), (RANKS, "vocab")):
            whole = Job(world, f"w{ranks}{shard}", ranks, shard=shard, **{**world.many, "chunk_bytes": 1 << 30})
            code, err = whole.run()
            check(code == 0, f"{code} {err}")
            job = Job(world, f"j{ranks}{shard}", ranks, shard=shard, **world.many)
            job.start(ranks)
            for pid in job.wait_for_chunks(20):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            world.finish()
            world.check_nothing_left()
            check(not os.path.exists(job.path("result.json")), "a killed worker writes no result")
            kept = job.chunks()
            job.forget_progress()
            # Damaged, and of another chunk: both are measured again.
            names = sorted(kept)
            with open(job.path("chunks/" + names[1]), "r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(b"\xff")
            shutil.copyfile(job.path("chunks/" + names[3]), job.path("chunks/" + names[4]))
            job.start(ranks)
            for pid in job.wait_for_chunks(len(kept) + 20, {name: kept[name] for name in (names[1], names[4])}):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            code, _, err = world.finish()
            check(code == 75, f"{ranks} {shard}: told to stop is 75, not {code}: {err}")
            world.check_nothing_left()
            check(not os.path.exists(job.path("result.json")), "a stopped worker writes no result")
            now = job.chunks()
            again = [name for name in names if now.get(name) != kept[name]]
            check(again == [names[1], names[4]], f"measured again: {again}, expected {names[1]} and {names[4]}")
            job.forget_progress()
            job.start(ranks)
            code, _, err = world.finish()
            check(code == 0, f"{ranks} {shard}: {code} {err}")
            check(job.read("table.bin") == whole.read("table.bin"), f"{ranks} {shard}: other bits")
            check(job.first_progress()["done"] >= 20, job.first_progress())
            check(not os.path.exists(job.path("chunks")), "chunks of a finished job are not kept")


def a_worker_s_error_names_the_rank_and_what_to_change():
    with many_chunks() as world:
        job = Job(world, "size", 3)
        job.start(RANKS)
        world.finish()
        error = job.result()["error"]["message"]
        check("3 ranks were requested, but the MPI job has 4 processes: set jobs.ranks" in error, error)
        alone = Job(world, "alone")
        alone.start(2)
        world.finish()
        error = alone.result()["error"]["message"]
        check("1 ranks were requested, but the MPI job has 2 processes" in error, error)
        absent = Job(world, "absent", RANKS, train=world.path("nothing"))
        absent.start(RANKS)
        world.finish()
        error = absent.result()["error"]["message"]
        check("does not exist" in error or "No such file" in error, error)
        job = Job(world, "dead", RANKS, **world.many)
        job.start(RANKS)
        os.kill(job.wait_for_chunks(20)[2], signal.SIGKILL)
        code, _, err = world.finish()
        check(code != 0, "a job that lost a rank can not succeed")
        result = job.result()
        check(not result["ok"] and result["error"]["where"] == "rank 2 of 4", f"{result} {err}")
        check("has ended" in result["error"]["message"], result)
        world.check_nothing_left()


TESTS = [
    both_ways_of_sharing_agree_with_one_process,
    a_violated_contract_is_the_exit_status_of_the_job,
    an_error_of_one_rank_is_the_job_s,
    a_killed_rank_is_named,
    a_stalled_rank_is_named,
    a_rank_that_does_not_end_is_noticed,
    ranks_choose_how_to_share_the_work_and_say_why,
    a_worker_of_several_processes_has_the_bits_of_its_threads,
    a_killed_worker_goes_on_where_it_was,
    a_worker_s_error_names_the_rank_and_what_to_change,
]

if __name__ == "__main__":
    for test in TESTS:
        if len(sys.argv) < 2 or test.__name__ in sys.argv[1:]:
            test()
            print("passed:", test.__name__.replace("_", " "))
