"""What can happen to a job on Slurm, each against a real daemon and a private cluster: it ends as the same measurement as
without Slurm, to the bit, or as an error that says the true reason; once, and nothing of it is left at Slurm."""
import os
import shutil
import signal
import subprocess
import sys
import time

from slurm_world import SlurmWorld, finished_jobs
from harness import check, wait_for
from world import run

FIRST = "offline-numeric.1.capture-inf"  # of a promotion's jobs the first; part of its folder's name


def begin(world, gate=FIRST, **settings):
    """A promotion whose first job is on a node, where it waits at the gate: its name and the worker's start."""
    world.settings.update(settings)
    world.start_daemon()
    world.ready()
    world.shut_gate(gate)
    promotion = world.promote("int8-static", "int8-static")
    return promotion, world.started(containing=gate)


def ends_as_here(world, promotion):
    world.reach(promotion, "rejected")
    world.same_as_here(promotion)
    return world.nothing_is_left()


def ran(world, containing=FIRST):
    """The ids at Slurm under which a worker of this job was started, in their order."""
    return [start["id"] for start in world.starts() if containing in start["folder"]]


def failures(world, promotion):
    return [(job["error"]["code"], job["error"]["message"]) for job in finished_jobs(world, promotion) if not job["ok"]]


def a_job_whose_node_dies_runs_again_elsewhere(world):
    promotion, start = begin(world)
    world.cluster.kill_node(start["node"])
    world.cluster.declare_down(start["node"])
    world.cluster.start_now(start["id"])
    again = world.started(2, FIRST)
    check(again["node"] != start["node"], f"it runs on the dead node: {again}")
    world.open_gate()
    jobs = ends_as_here(world, promotion)
    check(failures(world, promotion) == [], f"a job failed: {failures(world, promotion)}")
    check(len(jobs) == len(finished_jobs(world, promotion)), f"jobs at Slurm: {jobs}")


def a_requeued_job_is_measured_once(world):
    promotion, start = begin(world)
    world.cluster.run("scontrol", "requeue", start["id"])
    world.cluster.start_now(start["id"])
    world.started(2, FIRST)
    world.open_gate()
    ends_as_here(world, promotion)
    check(ran(world) == [start["id"]] * 2, f"it ran as {ran(world)}")
    check(failures(world, promotion) == [], f"a job failed: {failures(world, promotion)}")


def a_preempted_job_comes_back(world):
    promotion, start = begin(world)
    world.cluster.preempt()
    wait_for("the job to be preempted", lambda: any(one["JobId"] == start["id"] and one["JobState"] == "PREEMPTED"
                                                    for one in world.cluster.completions()))
    wait_for("the urgent job to end", lambda: any(one["Name"] == "urgent" for one in world.cluster.completions()))
    world.cluster.start_now(start["id"])
    world.started(2, FIRST)
    world.open_gate()
    ends_as_here(world, promotion)
    check(failures(world, promotion) == [], f"a job failed: {failures(world, promotion)}")


def a_time_limit_that_nothing_was_measured_in_is_an_error_that_names_it(world):
    """Its adapter makes no progress until Slurm ends it; the next attempt of the stage has a whole limit again."""
    promotion, start = begin(world)
    world.cluster.run("scontrol", "update", f"JobId={start['id']}", "EndTime=now")
    wait_for("an entry about the job", lambda: failures(world, promotion))
    world.open_gate()
    code, message = failures(world, promotion)[0]
    check(code == "deadline_exceeded" and "time limit" in message and "slurm.time_limit_s" in message, f"{code}: {message}")
    world.reach(promotion, "rejected")
    check(len(failures(world, promotion)) == 1, f"failures: {failures(world, promotion)}")
    world.nothing_is_left()


def a_controller_that_is_away_is_waited_for(world):
    """Twenty seconds, in which a job ends and the next one has to wait."""
    promotion, start = begin(world)
    world.cluster.stop_controller()
    stopped = time.monotonic()
    world.open_gate()
    wait_for("the job's end to be read without the controller", lambda: finished_jobs(world, promotion))
    wait_for("twenty seconds to pass", lambda: time.monotonic() - stopped > 20)
    check(call_is_quick(world), "the daemon does not answer while the controller is away")
    check(len(finished_jobs(world, promotion)) == 1, f"ended: {finished_jobs(world, promotion)}")
    world.cluster.continue_controller()
    ends_as_here(world, promotion)
    check(failures(world, promotion) == [], f"a job failed: {failures(world, promotion)}")


def call_is_quick(world):
    began = time.monotonic()
    world.api("GET", "/v1/models", expect=200)
    return time.monotonic() - began < 2


def a_controller_that_stays_away_is_an_error_that_says_so(world):
    """After slurm.away_s; promotions that come once it is back are measured."""
    promotion, _ = begin(world, **{"slurm.away_s": 3})
    world.cluster.stop_controller()
    world.open_gate()
    end = world.reach(promotion, "errored")
    check("slurmctld" in end["reason"] or "controller" in end["reason"], f"the reason: {end['reason']}")
    world.cluster.continue_controller()
    world.nothing_is_left()
    ends_as_here(world, world.promote("int8-static", "int8-static"))


def a_job_that_somebody_cancels_is_an_error_that_says_so(world):
    promotion, start = begin(world)
    world.cluster.cancel(start["id"])
    wait_for("an entry about the job", lambda: failures(world, promotion))
    code, message = failures(world, promotion)[0]
    check(code == "unavailable" and start["id"] in message and "was cancelled" in message, f"{code}: {message}")
    world.open_gate()
    world.reach(promotion, "rejected")
    check(len(failures(world, promotion)) == 1, f"failures: {failures(world, promotion)}")
    world.nothing_is_left()


def an_aborted_promotion_leaves_nothing_at_slurm(world):
    promotion, start = begin(world)
    world.api("POST", f"/v1/promotions/{promotion}/abort", {"reason": "changed our minds"}, who="operator", expect=200)
    world.nothing_is_left()
    state = [job["state"] for job in world.cluster.jobs() if job["id"] == start["id"]]
    check(state == ["CANCELLED"], f"the job is {state} at Slurm")


def a_daemon_that_is_killed_finds_its_job_again(world):
    promotion, start = begin(world)
    world.daemon.kill()
    world.start_daemon()
    world.open_gate()
    ends_as_here(world, promotion)
    check(ran(world) == [start["id"]], f"it ran as {ran(world)}")


def a_job_that_ends_while_no_daemon_runs_is_not_lost(world):
    promotion, start = begin(world)
    world.daemon.kill()
    world.open_gate()
    wait_for("the job to end at Slurm", lambda: not world.cluster.unfinished())
    world.start_daemon()
    ends_as_here(world, promotion)
    check(ran(world) == [start["id"]], f"it ran as {ran(world)}")


def commands(world, name, script):
    """Slurm's commands in a folder of their own, of which one is this script instead."""
    folder = os.path.join(world.folder, "bin")
    os.mkdir(folder)
    for command in ("sbatch", "squeue", "scancel", "scontrol", "sacct", "srun"):
        os.symlink(shutil.which(command), os.path.join(folder, command))
    os.unlink(os.path.join(folder, name))
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(script)
    os.chmod(os.path.join(folder, name), 0o755)
    world.settings["slurm.bin_dir"] = folder


def killed_in_sbatch(world, before):
    """The daemon is killed while it submits its first job: before Slurm has it, or after."""
    submit = f'id=$({shutil.which("sbatch")} "$@") || exit; '
    end = f'[ ! -e {world.folder}/victim ] || {{ kill -9 $(cat {world.folder}/victim); rm {world.folder}/victim; exit 1; }}; '
    commands(world, "sbatch", f"#!/bin/sh\n{end + submit if before else submit + end}echo $id\n")
    world.start_daemon()
    world.ready()
    with open(os.path.join(world.folder, "victim"), "w", encoding="ascii") as file:
        file.write(str(world.daemon.pid))
    promotion = world.promote("int8-static", "int8-static")
    wait_for("the daemon to die", lambda: not world.daemon.alive())
    world.start_daemon()
    jobs = ends_as_here(world, promotion)
    check(len(ran(world)) == 1, f"the first job ran as {ran(world)}")
    check(len(jobs) == len(finished_jobs(world, promotion)), f"jobs at Slurm: {jobs}")
    check(failures(world, promotion) == [], f"a job failed: {failures(world, promotion)}")


def a_daemon_killed_after_sbatch_submits_no_second_job(world):
    killed_in_sbatch(world, before=False)


def a_daemon_killed_before_sbatch_submits_once(world):
    killed_in_sbatch(world, before=True)


def a_full_job_folder_is_an_error_that_says_so(world):
    """The file system of the jobs fills up while a job runs; once there is room again the next attempt measures."""
    shared = os.path.join(world.folder, "shared")
    os.mkdir(shared)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "driftgate-test", shared], capture_output=True,
                             text=True, check=False)
    if mounted.returncode != 0:
        print(f"skipped: no file system could be mounted: {mounted.stderr.strip()}")
        return
    for name in world.cluster.nodes:  # a node has mounts of its own, those that there were when it was started
        world.cluster.kill_node(name)
        world.cluster.start_node(name)
    try:
        promotion, _ = begin(world, **{"slurm.jobs_dir": shared})
        with open(os.path.join(shared, "filler"), "wb") as filler:
            try:
                while True:
                    filler.write(b"\0" * 65536)
                    filler.flush()
            except OSError:
                pass
        world.open_gate()
        wait_for("an entry about the job", lambda: failures(world, promotion))
        os.unlink(os.path.join(shared, "filler"))
        code, message = failures(world, promotion)[0]
        check("No space left on device" in message or code == "storage_full", f"{code}: {message}")
        world.reach(promotion, "rejected")
        world.nothing_is_left()
    finally:
        world.daemon.kill()
        subprocess.run(["umount", "-l", shared], check=False)
        world.keeps_its_folder_whole = True


TESTS = (
    a_job_whose_node_dies_runs_again_elsewhere,
    a_requeued_job_is_measured_once,
    a_preempted_job_comes_back,
    a_time_limit_that_nothing_was_measured_in_is_an_error_that_names_it,
    a_controller_that_is_away_is_waited_for,
    a_controller_that_stays_away_is_an_error_that_says_so,
    a_job_that_somebody_cancels_is_an_error_that_says_so,
    an_aborted_promotion_leaves_nothing_at_slurm,
    a_daemon_that_is_killed_finds_its_job_again,
    a_job_that_ends_while_no_daemon_runs_is_not_lost,
    a_daemon_killed_after_sbatch_submits_no_second_job,
    a_daemon_killed_before_sbatch_submits_once,
    a_full_job_folder_is_an_error_that_says_so,
)

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS}, SlurmWorld)
