"""Dependencies point one way (docs/architecture.md): checked over every #include."""
import re
import sys

import sources

ROOMS = ["schema", "gpu", "stages", "daemon"]  # each may use those before it
# Inside the daemon: each folder and what it may use besides itself and daemon/base.
DAEMON = {
    "base": set(),  # schema only
    "limits": set(),
    "net": {"limits"},
    "store": set(),
    "evidence": {"store"},
    "auth": {"store", "evidence"},
    "web": {"net"},
    "notify": {"net", "store", "evidence"},
    "route": {"limits", "net"},
    "jobs": {"net", "store", "evidence", "route"},
    "schedule": set(),
    "pipeline": {"schedule", "net", "store", "evidence", "auth", "notify", "route", "jobs"},
    "api": {"schedule", "net", "web", "store", "evidence", "auth", "notify", "route", "jobs", "pipeline"},
    "drift": set(),
    "library": {"drift"},
    "cli": {"drift", "schedule", "net", "store", "evidence", "auth", "notify", "route", "jobs", "pipeline", "api"},
    "app": {"net", "web", "store", "evidence", "auth", "notify", "route", "jobs", "pipeline", "api", "drift", "cli"},
}
# Library headers and the folders that own them: only their .cpp files include them.
OWNED = {
    r"sqlite3\.h": ("daemon/store/",),
    r"yaml-cpp/": ("schema/", "daemon/app/", "daemon/cli/"),
    r"boost/beast": ("daemon/net/", "daemon/route/", "examples/"),
    r"boost/asio": ("daemon/net/", "daemon/route/", "daemon/app/", "examples/"),
    r"cuda|nccl": ("gpu/",),
}
HEADERS_TOO = r"boost/asio"  # coroutines are declared with Asio's types
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


def faults_of(name, text):
    room = name.split("/")[0]
    if room not in ROOMS and room != "examples":
        return []
    found = []
    for target in INCLUDE.findall(text):
        head = target.split("/")[0]
        if room in ROOMS and head in ROOMS and ROOMS.index(head) > ROOMS.index(room):
            found.append(f"{name}: {room}/ may not include {target}: {head}/ stands above it")
        if name.startswith("daemon/base/") and head in ("gpu", "stages"):
            found.append(f"{name}: daemon/base may not include {target}")
        if room == "daemon" and head == "daemon":
            own, other = name.split("/")[1], target.split("/")[1]
            if own != other and other != "base" and other not in DAEMON.get(own, set()):
                found.append(f"{name}: daemon/{own} may not include {target}")
        for pattern, owners in OWNED.items():
            if re.match(pattern, target):
                if not name.startswith(owners):
                    found.append(f"{name}: {target} belongs to {', '.join(owners)}")
                elif name.endswith((".hpp", ".h")) and room != "examples" and not re.match(HEADERS_TOO, target):
                    found.append(f"{name}: {target} may appear in .cpp files only")
    return found


if __name__ == "__main__":
    root = sys.argv[1]
    faults = [f for n in sources.files(root, sources.CODE) for f in faults_of(n, sources.read(root, n))]
    sys.exit(sources.report("layering", faults))
