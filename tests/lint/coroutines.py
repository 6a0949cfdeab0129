"""g++ 12.2 miscompiles some co_await uses: await into a named local first (docs/architecture.md)."""
import re
import sys

import sources

ALLOWED = re.compile(
    r"^(?:const\s+)?(?:auto|[\w:<>,\s]+?)\s*(?:&&?\s*)?(?:\[[\w,\s]+\]|\w+)\s*=\s*co_await\b"  # auto x = co_await …
    r"|^co_await\b"                                                                # a statement of its own
    r"|^co_return\s+co_await\b")


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def faults_of(name, text):
    found = []
    code = without_comments(text)
    for match in re.finditer(r"\bco_await\b", code):
        start = max(code.rfind(c, 0, match.start()) for c in ";{}") + 1
        statement = code[start:match.start()] + "co_await"
        flat = " ".join(statement.split())
        line = code.count("\n", 0, match.start()) + 1
        if not ALLOWED.match(flat):
            found.append(f"{name}:{line}: await into a named local first: {flat[:80]}")
    for match in re.finditer(r"\basio::detached\b", code):
        line = code.count("\n", 0, match.start()) + 1
        found.append(f"{name}:{line}: asio::detached loses failures; pass a handler that logs or stops")
    return found


if __name__ == "__main__":
    root = sys.argv[1]
    faults = [f for n in sources.files(root, sources.CODE) for f in faults_of(n, sources.read(root, n))]
    sys.exit(sources.report("coroutines", faults))
