#!/usr/bin/env python3
"""The verifier in Python knows each kind of entry that the program writes, and no other: kinds.py ROOT."""
import re
import sys

root = sys.argv[1]


def words(path, begin, end):
    text = open(f"{root}/{path}", encoding="utf-8").read()
    return re.findall(r"[a-z]+(?:_[a-z]+)+", text.split(begin, 1)[1].split(end, 1)[0])


written = words("schema/evidence/evidence_entry.cpp", "kKindNames = {", "};")
known = words("scripts/verify_bundle.py", 'KINDS = set("""', '"""')
for kind in sorted(set(written) ^ set(known)):
    where = "scripts/verify_bundle.py" if kind in written else "schema/evidence/evidence_entry.cpp"
    print(f"{where}: the kind {kind} is missing")
sys.exit(0 if written and set(written) == set(known) else 1)
