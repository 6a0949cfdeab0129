"""TRY is a whole initialiser or a whole statement: what else of an expression is evaluated before it returns is
not defined for statement expressions (schema/error.hpp)."""
import re
import sys

import coroutines
import sources

BEFORE = re.compile(r"(?:[;{}:)]|\belse|\bdo|[^=!<>]=)\s*$")


def end_of_call(code, at):
    depth = 0
    for i in range(at, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return i + 1
    return len(code)


def faults_of(name, text):
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group().count("\n") + ";",
                  coroutines.without_comments(text), flags=re.M)
    found = []
    for match in re.finditer(r"\bTRY\(", code):
        end = end_of_call(code, match.end() - 1)
        if not BEFORE.search(code[:match.start()]) or not re.match(r"\s*;", code[end:]):
            line = code.count("\n", 0, match.start()) + 1
            found.append(f"{name}:{line}: TRY inside an expression: give its value a name first")
    return found


if __name__ == "__main__":
    root = sys.argv[1]
    faults = [f for n in sources.files(root, sources.CODE) for f in faults_of(n, sources.read(root, n))]
    sys.exit(sources.report("tries", faults))
