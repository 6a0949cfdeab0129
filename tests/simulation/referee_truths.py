#!/usr/bin/env python3
"""Derives the figures of the referee's worlds again, by brute force, and compares them with those of the program.

    PROGRAM --truths | python3 tests/simulation/referee_truths.py

tests/simulation/referee_worlds.hpp describes the lines that are read. referee_populations.py holds every world a
second time, as rows with values, and takes nothing from the program:

- worlds of finitely many sequences are enumerated, in fractions where their values allow it;
- continuous worlds are integrated over the uniform or normal variable behind them, by Gauss-Legendre between the
  points where a figure jumps or bends;
- a chain of rows is counted by its runs.

Figures may differ by 1e-9 of their value. What the program's generators drew may differ from the figures by
4.5 standard errors, since there are some hundreds of them, half of them in worlds of rare events; and no sequence
may be longer than the world says. Ends with 1 when anything differs.
"""

import json
import math
import sys

from referee_populations import NAMES, PLAIN, WORLDS


def flat(line):
    out = {name: line[name] for name in PLAIN}
    for clip, *rest in line["mean_clipped"]:
        out[f"clip {clip}"] = rest if len(rest) > 1 else rest[0]
    return out


def main():
    lines = [json.loads(line) for line in sys.stdin if line.strip()]
    printed = {line["world"]: line for line in lines if "world" in line}
    drawn = {line["drawn"]: line for line in lines if "drawn" in line}
    faults, compared, largest, beyond_three = [], 0, 0.0, 0
    for name in sorted((set(printed) ^ set(WORLDS)) | (set(printed) ^ set(drawn))):
        faults.append(f"{name}: is not in all of the program's figures, its draws and this script")
    for name, line in printed.items():
        theirs = flat(line)
        if name not in WORLDS:
            continue
        truth = WORLDS[name]()
        for figure in NAMES:
            compared += 1
            if abs(theirs[figure] - truth[figure]) > 1e-9 * abs(truth[figure]):
                faults.append(f"{name}, {figure}: {theirs[figure]!r}, here {truth[figure]!r}")
        sample = drawn.get(name)
        if sample is None:
            continue
        if sample["longest"] > line["longest"]:
            faults.append(f"{name}: a sequence of {sample['longest']} rows, longer than {line['longest']}")
        for figure, (value, error) in flat(sample).items():
            compared += 1
            away = max(0.0, abs(value - truth[figure]) - 1e-9 * abs(truth[figure]))
            deviation = away / error if error > 0 else math.inf if away > 0 else 0.0
            if away > 0:
                largest, beyond_three = max(largest, deviation), beyond_three + (deviation > 3)
            if deviation > 4.5:
                faults.append(f"{name}, {figure}: {value!r} ± {error!r} was drawn, the figure is {truth[figure]!r}")
    print(f"{len(printed)} worlds, {compared} figures compared; of those drawn {beyond_three} are more than 3 standard "
          f"errors away, the farthest {largest:.2f}")
    for fault in faults:
        print(fault)
    return 1 if faults or not printed else 0


if __name__ == "__main__":
    sys.exit(main())
