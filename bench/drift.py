#!/usr/bin/env python3
"""Interleaves drift_bench with torch_drift.py and prints the ratios that the goals are stated in, as JSON.

drift.py DRIFT_BENCH [--rounds 7] [--vocabularies 32768,131072,262144] [--dtypes f32,bf16] [--threads 1,2]
         [--python /usr/bin/python3] [--clock wall|cpu]

Each figure is a ratio within a round; the median over the rounds is given with minimum and maximum. "cpu" takes
processor time instead of the wall clock, which says something on a machine that has other work as well.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


class Program:
    """A program that makes one round for each line that it reads."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("drift.py: %s ended with %s" % (self.process.args[0], self.process.wait()))
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def spread(values):
    return {"median": round(statistics.median(values), 4), "min": round(min(values), 4), "max": round(max(values), 4)}


def ratios(figures, vocabulary, dtype, threads, clock):
    """What one round says, in the terms of the goals."""
    at = {name: value[clock] for name, value in figures.items()}
    pair = 2 * vocabulary * (4 if dtype == "f32" else 2)
    out = {"read_gb_per_s": at["read_bytes"] / 1e9}
    for name in ("all", "core"):
        roof = min(at["read_bytes"] / pair, at["cached_" + name] * threads)
        out[name + "_rows_per_s"] = at[name]
        out[name + "_of_plain_read"] = at[name] * pair / at["read_bytes"]
        out[name + "_of_own_roof"] = at[name] / roof
        out["cached_%s_rows_per_s" % name] = at["cached_" + name]
    out["over_row_loop"] = at["all"] / at["row_loop"]
    avx2 = [at[n] for n in at if n.startswith("avx2 float32 moments")]
    if avx2:
        out["avx2_over_row_loop"] = avx2[0] * threads / at["row_loop"]
    for name in ("all", "kl_tv"):
        rows = [at[n] for n in at if n.startswith("torch_%s_rows_" % name)]
        if rows:
            out["over_torch_%s_rows" % name] = at["all"] / max(rows)
            out["over_torch_%s_batch" % name] = at["all"] / at["torch_%s_batch" % name]
    return out


def measure(options, vocabulary, dtype, threads):
    common = [str(vocabulary), dtype, str(threads), "0"]
    programs = [Program([options.drift_bench] + common)]
    if options.python:
        programs.append(Program([options.python, os.path.join(HERE, "torch_drift.py")] + common))
    rounds = []
    for _ in range(options.rounds):
        figures = {}
        for program in programs:
            figures.update(program.round())
        rounds.append(ratios(figures, vocabulary, dtype, threads, options.clock))
    for program in programs:
        program.close()
    return {name: spread([r[name] for r in rounds]) for name in rounds[0]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("drift_bench")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--vocabularies", default="32768,131072,262144")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch; empty: without")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    options = parser.parse_args()
    results = []
    for vocabulary in map(int, options.vocabularies.split(",")):
        for dtype in options.dtypes.split(","):
            for threads in map(int, options.threads.split(",")):
                load = os.getloadavg()[0]
                results.append({"vocabulary": vocabulary, "dtype": dtype, "threads": threads, "clock": options.clock,
                                "load_before": round(load, 2), **measure(options, vocabulary, dtype, threads)})
                print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    by_key = {(r["vocabulary"], r["dtype"], r["threads"]): r for r in results}
    for (vocabulary, dtype, threads), result in by_key.items():
        one = by_key.get((vocabulary, dtype, 1))
        if threads == 2 and one:
            for name in ("all", "core"):
                key = name + "_rows_per_s"
                result["two_threads_" + name] = round(result[key]["median"] / one[key]["median"], 3)
    print(json.dumps(results, indent=1))


main()
