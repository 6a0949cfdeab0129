"""No source file over 600 lines (docs/architecture.md, "Rules that a machine checks")."""
import sys

import sources

LIMIT_LINES = 600


def faults_of(name, text):
    lines = text.count("\n")
    return [f"{name}: {lines} lines; split it, the limit is {LIMIT_LINES}"] if lines > LIMIT_LINES else []


if __name__ == "__main__":
    root = sys.argv[1]
    names = sources.files(root, sources.CODE + (".py", ".ts", ".tsx", ".sh"))
    sys.exit(sources.report("sizes", [f for n in names for f in faults_of(n, sources.read(root, n))]))
