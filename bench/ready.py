#!/usr/bin/env python3
"""How long a daemon takes from its start until /readyz answers 200, on a data folder of any size.
Usage: ready.py DRIFTGATE FOLDER [rounds]. FOLDER is a data folder, such as the log that evidence_bench leaves behind.
The first round asks the kernel to forget what it holds of the file (where it may). Prints one JSON object."""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

LIMIT_S = 120


def forget(folder):
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def ready_ms(driftgate, folder, place):
    port_file, settings = os.path.join(place, "port"), os.path.join(place, "driftgate.yaml")
    if os.path.exists(port_file):
        os.unlink(port_file)
    with open(settings, "w", encoding="utf-8") as file:
        json.dump({"listen": "127.0.0.1:0", "port_file": port_file, "data_dir": folder, "router": {"listen": "127.0.0.1:0"}}, file)
    began = time.monotonic()
    with open(os.path.join(place, "log"), "w", encoding="utf-8") as log:
        daemon = subprocess.Popen([driftgate, "serve", "--config", settings], stdout=log, stderr=log)
    try:
        while not (os.path.exists(port_file) and answers(f"http://127.0.0.1:{open(port_file, encoding='ascii').read().strip()}/readyz")):
            if daemon.poll() is not None or time.monotonic() - began > LIMIT_S:
                sys.exit(f"the daemon is not ready; its log:\n{open(log.name, encoding='utf-8').read()}")
            time.sleep(0.002)
        return 1e3 * (time.monotonic() - began)
    finally:
        daemon.terminate()
        daemon.wait(LIMIT_S)
        subprocess.run([driftgate, "router-stop", "--socket", os.path.join(folder, "router.sock")], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    driftgate, folder = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    with tempfile.TemporaryDirectory() as place:
        forget(folder)
        times = [ready_ms(driftgate, folder, place) for _ in range(rounds)]
    print(json.dumps({"bytes": os.path.getsize(os.path.join(folder, "driftgate.db")), "cold_ms": round(times[0]),
                      "warm_ms": [round(value) for value in times[1:]], "load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
