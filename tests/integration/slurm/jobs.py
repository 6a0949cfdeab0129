"""Jobs on Slurm as users meet them: a real daemon, a private cluster of three nodes, the same bits as without Slurm."""
import os
import subprocess

from slurm_world import SlurmWorld, finished_jobs
from harness import DRIFTGATE, check, wait_for
from world import run

# A site's own template: ranks that wait for each other leave the processors of this small machine to the others.
TEMPLATE = """#!/bin/sh
export OMPI_MCA_mpi_yield_when_idle=1
exec @command@
"""


def with_template(world, text=TEMPLATE):
    path = os.path.join(world.folder, "template.sh")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    world.settings["slurm.template"] = path


def a_promotion_with_every_job_on_slurm_is_the_same_as_here(world):
    world.start_daemon()
    world.ready()
    promotion = world.promote("int8-static", "int8-static")
    world.reach(promotion, "rejected")
    world.same_as_here(promotion)
    jobs = world.nothing_is_left()
    check({job["state"] for job in jobs} == {"COMPLETED"} and len(jobs) == len(finished_jobs(world, promotion)),
          f"jobs at Slurm: {jobs}")


def ranks_on_three_nodes_measure_the_same_bits_as_ranks_here(world):
    """Ranks over MPI, one on each node with a device of its own, against as many threads of one process."""
    world.settings.update({"jobs.ranks": 3, "slurm.nodes": 3, "slurm.gres": "gpu:1"})
    with_template(world)
    world.start_daemon()
    world.ready()
    promotion = world.promote("int8-static", "int8-static")
    world.reach(promotion, "rejected")
    world.same_as_here(promotion, **{"jobs.ranks": 3})
    ranks = [start for start in world.starts() if start["folder"].endswith("offline-numeric.1.drift")]
    check(sorted(start["rank"] for start in ranks) == ["0", "1", "2"], f"ranks: {ranks}")
    check(sorted(start["node"] for start in ranks) == ["n1", "n2", "n3"], f"nodes: {ranks}")
    check(all(start["devices"] == "0" for start in ranks), f"devices: {ranks}")
    world.nothing_is_left()


def ranks_on_one_node_have_a_device_each(world):
    world.settings.update({"jobs.ranks": 3, "slurm.nodes": 1, "slurm.gres": "gpu:1"})
    with_template(world)
    world.start_daemon()
    world.ready()
    promotion = world.promote("int8-static", "int8-static")
    world.reach(promotion, "rejected")
    ranks = [start for start in world.starts() if start["folder"].endswith("offline-numeric.1.drift")]
    check(len({start["node"] for start in ranks}) == 1, f"nodes: {ranks}")
    check(sorted(start["devices"] for start in ranks) == ["0", "1", "2"], f"devices: {ranks}")
    world.nothing_is_left()


def a_template_without_the_job_is_refused_at_the_start(world):
    with_template(world, "#!/bin/sh\necho nothing\n")
    config = os.path.join(world.folder, "driftgate.yaml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(world.settings_text())
    done = subprocess.run([DRIFTGATE, "serve", "--config", config], capture_output=True, text=True, check=False, timeout=60)
    check(done.returncode != 0 and "@command@" in done.stdout + done.stderr, f"{done.returncode}: {done.stdout}{done.stderr}")


def jobs_beyond_the_queue_limit_wait_in_the_daemon(world):
    world.settings["slurm.queue_limit"] = 1
    world.start_daemon()
    world.ready()
    world.api("POST", "/v1/models", {"name": "other", "engine": "f32", "reason": "first version"}, who="operator", expect=201)
    world.shut_gate()
    first = world.promote("int8-static", "int8-static")
    world.started()
    body = {"model": "other", "engine": "int8-static", "contract": world.contract("int8-static"),
            "captures": world.captures("int8-static")}
    second = world.api("POST", "/v1/promotions", body, who="promoter", expect=201)["id"]
    world.reach(second, "running")
    check(len(world.cluster.unfinished()) == 1, f"at Slurm: {world.cluster.unfinished()}")
    world.open_gate()
    world.reach(first, "rejected")
    world.reach(second, "rejected")
    check(max_at_once(world) == 1, "two jobs were at Slurm at once")
    world.nothing_is_left()


def max_at_once(world):
    """The most of our jobs that Slurm ran at one time, by its job completion file (whole seconds, ends excluded)."""
    spans = sorted((one["StartTime"], one["EndTime"]) for one in world.cluster.completions())
    return max(sum(1 for begin, end in spans if begin <= at < end) for at, _ in spans) or 1


TESTS = (
    a_promotion_with_every_job_on_slurm_is_the_same_as_here,
    ranks_on_three_nodes_measure_the_same_bits_as_ranks_here,
    ranks_on_one_node_have_a_device_each,
    a_template_without_the_job_is_refused_at_the_start,
    jobs_beyond_the_queue_limit_wait_in_the_daemon,
)

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS}, SlurmWorld)
