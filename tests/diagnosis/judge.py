#!/usr/bin/python3
"""Injects faults, asks for a diagnosis of each, and counts those that are named rightly.

    judge.py SET PROGRAM [--rounding bf16] [--only TEXT] [--table]

SET is battery, held-out, referee or benign; PROGRAM is driftgate_diagnose. Ends with 1 when fewer are right than the set
demands of a K_inf that is float32 but for its fault, or when anything is said of a benign pair."""
import os
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is imported

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import battery
import benign
import held_out
import referee
from names import judge
from world import CORPUS, World

FORMS = (0, 8)
# Right ones from position 0 and from position 8, where K_inf has no other rounding.
LEAST = {"battery": (59, 57), "held-out": (14, 14), "referee": (13, 13)}


class Program:
    """driftgate_diagnose, one question at a time."""

    def __init__(self, path):
        self.process = subprocess.Popen([path, str(CORPUS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *paths):
        try:
            self.process.stdin.write(" ".join(map(str, paths)) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            sys.exit(f"judge.py: the program ended with {self.process.wait()} at {' '.join(map(str, paths))}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit("judge.py: the program failed")


def rows_of_faults(faults, world, program, folder):
    """For each fault and form: the fault, the form, what was said, why that is not right."""
    trains = {}
    for first in FORMS:
        trains[first] = folder / f"train{first}.safetensors"
        world.write(trains[first], world.train, "K_train", first)
    for fault in faults:
        logits = fault.make(world)
        for first in FORMS:
            path = folder / "inf.safetensors"
            world.write(path, logits, "K_inf", first)
            said = program.ask(trains[first], path)
            yield fault, first, said, judge(fault, first, said["suspicions"])


def judge_faults(name, world, program, folder, only, table):
    faults = {"battery": battery, "held-out": held_out, "referee": referee}[name].FAULTS
    faults = [fault for fault in faults if only in fault.name]
    right = dict.fromkeys(FORMS, 0)
    if table:
        print("| fault | from position | right would be | said | right |\n| --- | --- | --- | --- | --- |")
    for fault, first, said, why in rows_of_faults(faults, world, program, folder):
        right[first] += not why
        named = ", ".join(s["pattern"] for s in said["suspicions"]) or "nothing"
        if table:
            print(f"| {fault.name} | {first} | {' or '.join(fault.names(first))} | {named} | {'no: ' + why if why else 'yes'} |")
        elif why:
            print(f"{fault.name}, from position {first}: {why} (said: {named}; {said['summary']})")
    print(f"{name}: of {len(faults)} faults {right[0]} are named rightly from position 0, {right[8]} from position 8")
    return bool(only) or world.rounding != "none" or all(right[first] >= least for first, least in zip(FORMS, LEAST[name]))


def judge_benign(world, program, folder, only, table):
    silent, asked = 0, 0
    for pair in benign.PAIRS:
        if only not in pair.name:
            continue
        train, inf = pair.make(world)
        for first in FORMS:
            paths = folder / "one.safetensors", folder / "other.safetensors"
            for path, logits in zip(paths, (train, inf)):
                world.write(path, logits, "K_inf", first)
            said = program.ask(*paths)
            named = ", ".join(s["pattern"] for s in said["suspicions"])
            asked, silent = asked + 1, silent + (not named)
            if named or table:
                print(f"{pair.name}, from position {first}: {named or 'nothing'} ({said['summary']})")
    print(f"benign: nothing is said of {silent} of {asked} pairs")
    return silent == asked


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=["battery", "held-out", "referee", "benign"])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--rounding", choices=["none", "bf16"], default="none", help="K_inf before any fault")
    parser.add_argument("--only", default="", help="faults whose name holds this text")
    parser.add_argument("--table", action="store_true", help="a line for each fault, right or not")
    args = parser.parse_args()
    world, program = World(args.rounding), Program(args.program)
    with tempfile.TemporaryDirectory(prefix="driftgate-diagnosis-") as name:
        folder = pathlib.Path(name)
        if args.set == "benign":
            good = judge_benign(world, program, folder, args.only, args.table)
        else:
            good = judge_faults(args.set, world, program, folder, args.only, args.table)
    program.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
