"""Jobs on Slurm as users meet them: a real daemon, a private cluster of three nodes, the same bits as without Slurm."""
import json
import os
import subprocess

from slurm_world import SlurmWorld, finished_jobs
from harness import DRIFTGATE, check, wait_for
from world import DATA, run


def a_promotion_with_every_job_on_slurm_is_the_same_as_here(world):
    world.start_daemon()
    world.ready()
    promotion = world.promote("int8-static", "int8-static")
    world.reach(promotion, "rejected")
    world.same_as_here(promotion)
    jobs = world.nothing_is_left()
    check({job["state"] for job in jobs} == {"COMPLETED"} and len(jobs) == len(finished_jobs(world, promotion)),
          f"jobs at Slurm: {jobs}")


TESTS = (
    a_promotion_with_every_job_on_slurm_is_the_same_as_here,
)

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS}, SlurmWorld)
