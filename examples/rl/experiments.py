"""The training runs of docs/rl.md, two at a time."""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
STALE_LAG = 8
TOP_P = 0.9
FURTHER_SEEDS = (2, 3)
KERNELS = {  # name: (kernel of tinylm, lag, top-p)
    "f32": ("f32", 0, 1.0),
    "bf16": ("bf16", 0, 1.0),
    "int8": ("int8", 0, 1.0),
    "int8-static": ("int8-static", 0, 1.0),
    "stale": ("f32", STALE_LAG, 1.0),
    "top-p": ("f32", 0, TOP_P),
}


@dataclasses.dataclass(frozen=True)
class Experiment:
    kernel: str
    algorithm: str
    gate: bool = False
    seed: int = 1

    @property
    def name(self):
        return f"{self.algorithm}-{self.kernel}" + ("-gated" if self.gate else "") + ("" if self.seed == 1 else f"-seed{self.seed}")


def planned():
    runs = [Experiment(kernel, "reinforce") for kernel in KERNELS]
    runs += [Experiment(kernel, "reinforce", gate=True) for kernel in ("int8-static", "stale")]
    runs += [Experiment(kernel, "ppo") for kernel in KERNELS if kernel != "f32"]
    for seed in FURTHER_SEEDS:  # does what one seed shows happen again?
        runs += [Experiment(kernel, "reinforce", seed=seed) for kernel in ("bf16", "int8", "int8-static", "stale")]
        runs += [Experiment(kernel, "reinforce", gate=True, seed=seed) for kernel in ("int8-static", "stale")]
    return runs


def command(experiment, programs, work, settings):
    program, lag, top_p = KERNELS[experiment.kernel]
    options = {"driftgate": programs["driftgate"], "tinylm": programs["tinylm"], "work": work / experiment.name,
               "kernel": experiment.kernel, "program": program, "lag": lag, "top-p": top_p, "algorithm": experiment.algorithm,
               "seed": experiment.seed, **settings, **({} if experiment.seed == 1 else {"record": 0})}
    line = [sys.executable, HERE / "train.py", *(part for key, value in options.items() for part in (f"--{key}", value))]
    return [str(part) for part in line + (["--gate"] if experiment.gate else [])]


def perform(experiment, programs, work, settings):
    begin = time.monotonic()
    threads = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    log = work / f"{experiment.name}.log"
    with open(log, "w") as out:
        done = subprocess.run(command(experiment, programs, work, settings), stdout=out, stderr=subprocess.STDOUT,
                              env={**os.environ, **threads, "PYTHONDONTWRITEBYTECODE": "1"})
    if done.returncode != 0:
        raise RuntimeError(f"{experiment.name} ended with {done.returncode}; the end of {log}:\n{log.read_text()[-2000:]}")
    print(f"{experiment.name}: {time.monotonic() - begin:.0f} s", flush=True)


def run_all(programs, work, settings, jobs):
    """Every planned run; returns {name: (settings of the run, records)}."""
    work.mkdir(parents=True, exist_ok=True)
    experiments = planned()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for finished in [pool.submit(perform, e, programs, work, settings) for e in experiments]:
            finished.result()
    return {e.name: read(work / e.name) for e in experiments}


def read(folder):
    steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    return json.loads((folder / "run.json").read_text()), steps
