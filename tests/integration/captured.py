"""An adapter for tests that are not about captures: captured.py OUT TINYLM capture … makes the capture that tinylm would
make, or copies the one that it made of the same files for another test. tinylm gives the same bytes each time."""
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys


def key(command):
    """Of the words, and of what the files that they name hold, or those in the folders that they name."""
    digest = hashlib.sha256()
    for word in command:
        digest.update(word.encode() + b"\0")
        inside = sorted(entry.path for entry in os.scandir(word)) if os.path.isdir(word) else [word]
        for path in filter(os.path.isfile, inside):
            with open(path, "rb") as file:
                digest.update(path.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def main(out, *command):
    folder = os.path.join(os.path.dirname(command[0]), "test-captures")
    os.makedirs(folder, exist_ok=True)
    kept = os.path.join(folder, key(command))
    with open(f"{kept}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(kept):
            subprocess.run([*command, "--out", f"{kept}.part"], check=True)
            os.rename(f"{kept}.part", kept)
    shutil.copyfile(kept, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
