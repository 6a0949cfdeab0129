"""The first hour: a working folder, everything that runs in it, and what is misconfigured."""
import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess

from harness import DRIFTGATE, PATIENCE_S, TINYLM, call, check, wait_for
from world import run

ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k != "DRIFTGATE_URL"}, "DRIFTGATE_TINYLM": TINYLM}


def tell(*argv):
    return subprocess.run([DRIFTGATE, *argv], capture_output=True, text=True, check=False, timeout=PATIENCE_S,
                          env=ENVIRONMENT)


def made_folder(world):
    folder = os.path.join(world.folder, "work")
    done = tell("init", folder, "--example", "tinylm")
    check(done.returncode == 0, done.stderr)
    return folder


def port_in(folder, key):
    with open(os.path.join(folder, "driftgate.yaml"), encoding="utf-8") as file:
        return [int(port) for port in re.findall(r"listen: 127\.0\.0\.1:(\d+)", file.read())][key == "router"]


def listens(port):
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def running(folder):
    """`dev` in the foreground, ready; ended by SIGINT."""
    with open(os.path.join(os.path.dirname(folder), "dev.out"), "w+", encoding="utf-8") as out:
        child = subprocess.Popen([DRIFTGATE, "dev", folder], stdout=out, stderr=out, env=ENVIRONMENT)

        def text():
            out.seek(0)
            return out.read()

        def ready():
            check(child.poll() is None, f"dev ended: {text()}")
            return "Ctrl-C ends everything" in text()

        try:
            wait_for("dev to be ready", ready)
            yield child, text
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
            code = child.wait(timeout=PATIENCE_S)
        check(code == 0, f"dev ended with {code}: {text()}")


def through_shells(folder):
    """Has a shell start each engine of a folder, as launchers do. Returns the engines' ports."""
    path = os.path.join(folder, "dev.json")
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    for engine in document["engines"]:
        engine["command"] = ["/bin/sh", "-c", f"{shlex.join(engine['command'])}; echo ended"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    return [int(engine["url"].rsplit(":", 1)[1]) for engine in document["engines"]]


def dev_runs_all_of_a_folder_and_ends_it_in_order(world):
    folder = made_folder(world)
    api, users = port_in(folder, "api"), port_in(folder, "router")
    with running(folder) as (_, text):
        check(f"http://127.0.0.1:{api}" in text(), text())
        for role in ("viewer", "promoter", "operator", "approver", "auditor", "engineer"):
            path = os.path.join(folder, "tokens", f"{role}.token")
            check(os.stat(path).st_mode & 0o777 == 0o600, f"{path} is readable by others")
            with open(path, encoding="utf-8") as file:
                bearer = {"Authorization": f"Bearer {file.read().strip()}"}
            who = call(f"http://127.0.0.1:{api}/v1/whoami", headers=bearer).json()
            check(who["name"] == role, f"{path} is of {who}")
        check(listens(users), "no router listens")
        again = tell("dev", folder)
        check(again.returncode != 0 and "runs in" in again.stderr, f"a second dev: {again.stdout}{again.stderr}")
    check(not listens(api) and not listens(users), "something still listens")
    engine_ports = through_shells(folder)
    check(not any(map(listens, engine_ports)), "an engine still listens")
    before = os.path.getmtime(os.path.join(folder, "tokens", "viewer.token"))
    detached = tell("dev", folder, "--detach")
    check(detached.returncode == 0 and "\n  API      http" in detached.stdout, f"{detached.stdout}{detached.stderr}")
    check(os.path.getmtime(os.path.join(folder, "tokens", "viewer.token")) == before, "a token was made again")
    stopped = tell("dev", folder, "--stop")
    check(stopped.returncode == 0 and "is stopped" in stopped.stdout, f"{stopped.stdout}{stopped.stderr}")
    check(not any(map(listens, (api, users, *engine_ports))), "something still listens after --stop")
    check("nothing runs" in tell("dev", folder, "--stop").stdout, "it ran still")
    killed = tell("dev", folder, "--detach")
    check(killed.returncode == 0, killed.stderr)
    with open(os.path.join(folder, "dev.pid"), encoding="utf-8") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    wait_for("the engines and the daemon to end with dev", lambda: not any(map(listens, (api, *engine_ports))))
    last = tell("dev", folder, "--stop")
    check(last.returncode == 0 and not listens(users), f"the router is left: {last.stdout}{last.stderr}")


def dev_says_who_has_a_port_and_leaves_nothing(world):
    folder = made_folder(world)
    api = port_in(folder, "api")
    with socket.create_server(("127.0.0.1", api)):
        for words in (("dev", folder), ("dev", folder, "--detach")):
            done = tell(*words)
            check(done.returncode != 0, "it started on a port that is taken")
            check(f"port {api} for the API is taken by" in done.stderr and f"(pid {os.getpid()})" in done.stderr,
                  done.stderr)
    check(not os.path.exists(os.path.join(folder, "data")), "the daemon was started")
    nowhere = tell("dev", world.folder)
    check(nowhere.returncode != 0 and "driftgate init" in nowhere.stderr, nowhere.stderr)


def doctor_finds_what_was_misconfigured_and_nothing_else(world):
    folder = made_folder(world)
    config = os.path.join(folder, "driftgate.yaml")

    def findings(*more):
        done = tell("doctor", "--config", config, "--json", *more)
        answer = json.loads(done.stdout)
        check(done.returncode == (1 if answer["findings"] else 0), f"exit {done.returncode}: {done.stdout}")
        of_machine = ("disk of ", "limit of open files")
        return {f"{found['where']}: {found['what']}" for found in answer["findings"]
                if not found["where"].startswith(of_machine)}, answer

    found, _ = findings()
    check(not found, f"a new folder has {found}")
    done = tell("dev", folder, "--detach")
    check(done.returncode == 0, done.stderr)
    try:
        found, answer = findings()
        check(len(found) == 3 and sum("no copy" in one for one in found) == 2, f"unexpected: {found}")
        admin = os.path.join(folder, "data", "admin.token")
        api = f"http://127.0.0.1:{port_in(folder, 'api')}"
        for words in (("backup", "--url", api, "--token-file", admin),
                      ("key", "copy", "--config", config, "--to", os.path.join(world.folder, "keys"))):
            done = tell(*words)
            check(done.returncode == 0, done.stderr)
        found, answer = findings()
        check(not found, f"after backup and copies: {found}")
        check("published head" in answer["checked"], f"not looked at: {answer}")
        os.chmod(admin, 0o640)
        found, _ = findings()
        check(any("admin.token" in one and "0640" in one for one in found), f"nobody sees the token: {found}")
        os.chmod(admin, 0o600)
    finally:
        done = tell("dev", folder, "--stop")
    check(done.returncode == 0, done.stderr)
    with open(config, "a", encoding="utf-8") as file:
        file.write("nonsense: 1\n")
    found, _ = findings()
    check(any("nonsense" in one for one in found), f"broken settings: {found}")


def settings_that_cannot_be_used_are_refused_before_anything_is_made(world):
    data, config = os.path.join(world.folder, "data"), os.path.join(world.folder, "driftgate.yaml")
    missing, text = os.path.join(world.folder, "missing"), os.path.join(world.folder, "text")
    with open(text, "w", encoding="utf-8") as file:
        file.write("no key\n")
    os.chmod(text, 0o600)

    def write(extra):
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"listen": "127.0.0.1:0", "data_dir": data, "router": {"listen": "127.0.0.1:0"}, **extra}, file)

    collector = {"endpoint": "http://127.0.0.1:4318"}
    for extra, what, code in (
            ({"otlp": {"endpoint": "ftp://nowhere"}}, "otlp.endpoint", 64),
            ({"otlp": {**collector, "key_file": missing}}, "otlp.key_file", 74),
            ({"tls": {"cert_file": missing, "key_file": missing}}, "cannot read the certificate", 74),
            ({"tls": {"cert_file": text, "key_file": text}}, "certificate", 64),
            ({"evidence": {"key_file": text}}, text, 64),
            ({"evidence": {"attestation_key_file": text}}, text, 64),
            ({"evidence": {"head_file": missing + "/head.note"}}, "evidence.head_file", 74),
            ({"port_file": missing + "/port"}, "port_file", 74),
            ({"data_dir": text + "/data"}, "data_dir", 74),
            ({"jobs": {"runner": "slurm"}, "slurm": {"bin_dir": world.folder}}, "sbatch", None),
            ({"no_such": 1}, "no_such", 64)):
        write(extra)
        for words in (["serve", "--check"], ["serve"]):
            done = tell(*words, "--config", config)
            said = done.stdout + done.stderr
            check(done.returncode in ([code] if code else [64, 74]), f"{words} with {extra}: {done.returncode}, expected {code}\n{said}")
            check(what in said and "can start" not in said, f"{words} with {extra}: {said}")
            check(not os.path.exists(data), f"{words} with {extra} made the data folder")
    write({"otlp": collector})
    done = tell("serve", "--check", "--config", config)
    check(done.returncode == 0 and "there is no database yet" in done.stdout and "can start" in done.stdout, f"{done.stdout}{done.stderr}")


def a_check_says_the_schema_whatever_the_settings_are_like(world):
    world.start_daemon()
    config = os.path.join(world.folder, "driftgate.yaml")
    done = tell("serve", "--check", "--config", config)
    check(done.returncode == 0 and "can start" in done.stdout, f"beside a daemon: {done.stdout}{done.stderr}")
    version = re.search(r"the database has schema version \d+", done.stdout)
    check(version, done.stdout)
    other = os.path.join(world.folder, "other.yaml")
    with open(other, "w", encoding="utf-8") as file:
        json.dump({"data_dir": f"{world.folder}/data", "otlp": {"endpoint": "ftp://nowhere"}}, file)
    done = tell("serve", "--check", "--config", other)
    check(done.returncode == 64 and version[0] in done.stdout and "otlp.endpoint" in done.stderr, f"{done.stdout}{done.stderr}")


TESTS = [
    settings_that_cannot_be_used_are_refused_before_anything_is_made,
    a_check_says_the_schema_whatever_the_settings_are_like,
    dev_runs_all_of_a_folder_and_ends_it_in_order,
    dev_says_who_has_a_port_and_leaves_nothing,
    doctor_finds_what_was_misconfigured_and_nothing_else,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
