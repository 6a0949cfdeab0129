"""A world whose daemon gives its jobs to a private Slurm cluster, a gate in front of each worker, and the same promotion
measured without Slurm."""
import contextlib
import os
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from cluster import Cluster  # noqa: E402
from harness import DRIFTGATE, check, wait_for  # noqa: E402
from world import MODEL_DIR, World  # noqa: E402

# What Slurm starts as driftgate. It notes that it was started, and waits while the gate is shut for its folder, so that a
# test can do what it wants to a job that runs.
WORKER = """\
#!/bin/sh
echo "$SLURM_JOB_ID ${{SLURM_PROCID:-0}} $SLURMD_NODENAME $$ ${{CUDA_VISIBLE_DEVICES:--}} $2" >>{folder}/started
while [ -e {folder}/gate ]; do
  case $2 in *$(cat {folder}/gate)*) sleep 0.05 ;; *) break ;; esac
done
exec {driftgate} "$@"
"""


def finished_jobs(world, promotion):
    """The body of each entry job_finished, of which there is one for each job."""
    entries = world.entries(promotion=promotion, kind="job_finished")
    jobs = [entry["body"]["job"] for entry in entries]
    check(len(jobs) == len(set(jobs)), f"a job has two entries job_finished: {jobs}")
    return [{**entry["body"], "stage": entry["subject"].get("stage")} for entry in entries]


def measured(world, promotion):
    """What jobs that succeeded left, by stage and name: the digests of what they read and made."""
    return {(job["stage"], job["name"]): sorted((one["name"], one["digest"]) for one in job["digests"])
            for job in finished_jobs(world, promotion) if job["ok"]}


def figures(world, promotion, stage):
    """Of each clause and slice what follows from the tables alone. Confidence limits, and so a verdict near its limit, also
    follow from the promotion's seed, which no two promotions share; that a verdict follows from table and seed is what the
    bundles' verification at the end of each test shows."""
    return [[verdict.get(key) for key in ("clause", "where", "estimate", "n", "clusters", "threshold")]
            for verdict in world.report(promotion, stage)["verdicts"]]


class SlurmWorld(World):
    def __init__(self, name, settings=None, **cluster):
        super().__init__(name, settings)
        # A short path: below it are sockets of PMIx.
        self.cluster_folder = tempfile.mkdtemp(prefix="dg-slurm-")
        self.cluster = Cluster(self.cluster_folder, **cluster)
        self.cluster.__enter__()
        self.worker = os.path.join(self.folder, "worker")
        with open(self.worker, "w", encoding="utf-8") as file:
            file.write(WORKER.format(folder=self.folder, driftgate=DRIFTGATE))
        os.chmod(self.worker, 0o755)
        self.settings = {"jobs.runner": "slurm", "slurm.conf_file": self.cluster.conf, "slurm.worker": self.worker,
                         "slurm.poll_ms": 100, **self.settings}

    def close(self, failed=False):
        if failed:
            print(self.cluster.journal())
            with contextlib.suppress(Exception):
                print("jobs at Slurm:", *self.cluster.jobs(), sep="\n  ")
        self.cluster.__exit__()
        super().close(failed)
        if not (failed and os.environ.get("DRIFTGATE_KEEP")):
            shutil.rmtree(self.cluster_folder, ignore_errors=True)

    # --- the gate --------------------------------------------------------------------------------
    def shut_gate(self, containing=""):
        """Workers whose folder's name contains this text wait."""
        with open(os.path.join(self.folder, "gate.new"), "w", encoding="ascii") as file:
            file.write(containing)
        os.rename(os.path.join(self.folder, "gate.new"), os.path.join(self.folder, "gate"))

    def open_gate(self):
        os.unlink(os.path.join(self.folder, "gate"))

    def starts(self):
        """Each start of a worker: the job's id at Slurm, rank, node, process, devices, folder."""
        with contextlib.suppress(FileNotFoundError), open(os.path.join(self.folder, "started"), encoding="utf-8") as file:
            names = ("id", "rank", "node", "pid", "devices", "folder")
            return [dict(zip(names, line.split())) for line in file if line.endswith("\n")]
        return []

    def started(self, count=1, containing=""):
        """Waits for this many starts in folders whose name contains this text; the last of them."""
        def there():
            seen = [start for start in self.starts() if containing in start["folder"]]
            return seen[count - 1] if len(seen) >= count else None
        return wait_for(f"start {count} of a worker for a job like {containing!r}", there)

    # --- promotions ------------------------------------------------------------------------------
    def ready(self, kernel="int8-static"):
        """A model that serves, and an engine of a candidate: int8-static is refused in statistical-slice, after every
        kind of offline job has run."""
        self.install_incumbent()
        self.start_engine(kernel, kernel)
        self.register_engine(kernel, kernel)

    def same_as_here(self, promotion, kernel="int8-static", stages=("offline-numeric", "statistical-slice"), captures=None,
                     **settings):
        """The promotion's jobs and their figures are, to the bit, those of a daemon that runs its jobs on this machine."""
        other = World("local", settings)
        other.engines = self.engines
        try:
            other.start_daemon()
            other.register_engine("f32", "f32")
            other.api("POST", "/v1/models", {"name": "tinylm", "engine": "f32", "reason": "first version"},
                      who="operator", expect=201)
            other.register_engine(kernel, kernel)
            reference = other.promote(kernel, kernel, captures=captures)
            end = other.reach(reference, ("rejected", "succeeded"))
            here, there = measured(other, reference), measured(self, promotion)
            check(here and here == there, f"jobs differ:\nhere  {here}\nSlurm {there}")
            for stage in stages:
                one, two = figures(other, reference, stage), figures(self, promotion, stage)
                check(one and one == two, f"figures of {stage} differ:\nhere  {one}\nSlurm {two}")
            return end
        finally:
            other.close()

    # --- what is left ----------------------------------------------------------------------------
    def nothing_is_left(self):
        """Slurm has no job that waits or runs, no worker runs on a node, and no job ran twice beside itself."""
        wait_for("Slurm's queue to be empty of ours", lambda: not self.cluster.unfinished(), 60)
        ours = [job for job in self.cluster.jobs() if job["comment"].startswith("driftgate/")]
        done = {}
        for job in ours:
            if job["state"] == "COMPLETED":
                check(job["comment"] not in done, f"{job['comment']} was completed as {done.get(job['comment'])} and {job['id']}")
                done[job["comment"]] = job["id"]
        return ours

    def stop_worker(self, start):
        """The worker of this start, as it is: it holds its lock and goes no further until `continue_worker`."""
        os.kill(int(start["pid"]), signal.SIGSTOP)

    def continue_worker(self, start):
        os.kill(int(start["pid"]), signal.SIGCONT)
