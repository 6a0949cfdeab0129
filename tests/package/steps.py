"""What the tests of this folder say and check while they go on, and how they run commands."""
import subprocess
import time

BEGAN = time.monotonic()
PATIENCE_S = 60


class Failure(AssertionError):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


def step(text):
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


def wait_for(what, probe):
    end = time.monotonic() + PATIENCE_S
    while not (value := probe()):
        check(time.monotonic() < end, f"waited {PATIENCE_S} s in vain for {what}")
        time.sleep(0.05)
    return value


def outcome(words, **options):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=options.pop("timeout", 600), check=False, **options)


def succeed(words, **options):
    done = outcome(words, **options)
    check(done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stdout}")
    return done.stdout
