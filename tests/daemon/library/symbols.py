"""libdriftgate.so exports the calls of driftgate.h under the version DRIFTGATE_1, and nothing else.

    symbols.py LIBRARY HEADER
"""
import re
import subprocess
import sys

library, header = sys.argv[1:]
listed = subprocess.run(["nm", "--dynamic", "--defined-only", "--with-symbol-versions", library], check=True,
                        capture_output=True, text=True).stdout.splitlines()
exported = {line.split()[-1] for line in listed}
with open(header, encoding="utf-8") as handle:
    text = re.sub(r"/\*.*?\*/", "", handle.read(), flags=re.S)
declared = set(re.findall(r"DG_API[^;(]*?\b(dg_\w+)\(", text))
wanted = {f"{name}@@DRIFTGATE_1" for name in declared} | {"DRIFTGATE_1"}
faults = sorted(exported ^ wanted)
dynamic = subprocess.run(["readelf", "--dynamic", "--wide", library], check=True, capture_output=True, text=True).stdout
soname = re.search(r"SONAME.*\[(.*)\]", dynamic)
if not soname or soname[1] != "libdriftgate.so.1":
    faults.append("the name of the library is not libdriftgate.so.1")
needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
faults += [f"it needs {name}" for name in needed if name.startswith(("libfmt", "libboost", "libspdlog", "libsqlite"))]
for fault in faults:
    print(fault)
print(f"{len(declared)} calls are declared and {len(exported) - 1} exported; it needs {', '.join(needed)}")
sys.exit(1 if faults or len(declared) < 30 else 0)
