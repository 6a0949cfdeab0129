"""Unfinished words and machine paths have no place in the tree."""
import re
import sys

import sources

UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK|not imple" r"mented|unimple" r"mented|st" r"ub(?:bed)?)\b")
PATHS = re.compile(r"/(?:ro" r"ot|ho" r"me/\w+|wo" r"rk)/")


def faults_of(name, text):
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            found.append(f"{name}:{number}: unfinished: {line.strip()[:80]}")
        if PATHS.search(line):
            found.append(f"{name}:{number}: machine path: {line.strip()[:80]}")
    return found


if __name__ == "__main__":
    root = sys.argv[1]
    names = sources.files(root, sources.CODE + (".py", ".sql", ".cmake", "CMakeLists.txt", ".yaml", ".sh"))
    sys.exit(sources.report("words", [f for n in names for f in faults_of(n, sources.read(root, n))]))
