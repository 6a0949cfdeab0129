"""The files that the lints read: what git tracks or would track, else every file, without builds."""
import os
import subprocess

CODE = (".cpp", ".hpp", ".h", ".cu", ".cuh")


def files(root, suffixes):
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"],
                                check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        listed = []
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if not f.startswith((".", "build")) and f != "node_modules"]
            listed += [os.path.relpath(os.path.join(folder, n), root) for n in names]
    return sorted(f for f in listed if f.endswith(suffixes) and os.path.isfile(os.path.join(root, f)))


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as handle:
        return handle.read()


def report(title, faults):
    for fault in faults:
        print(fault)
    print(f"{title}: {len(faults)} faults")
    return 1 if faults else 0
