"""The Debian package in a fresh root of Debian 12: installed with apt, tried, upgraded under a daemon and a router that
serve, refused as a downgrade, removed and purged. No systemd runs there: what the maintainer scripts ask of it is written
down by a stand-in for systemctl and carried out here, with the units' own command lines, users and hardening
(sandbox.py). Takes root, debootstrap and a mirror, which are the machine's own; the plain root is kept in the build
folder. Says "skipped: …" where it cannot run.
Usage: bare_root.py BUILD_FOLDER"""
import contextlib
import glob
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import mounts  # noqa: E402
from debian_root import (BIN, CONFIG, DATA, EXAMPLE, TINYLM, asked_of_systemctl, built_package, inside, install,  # noqa: E402
                         only_loopback, repack, root_with)
from service import Manager, Users, allow_example, ask_router, listens, router_pid, serve_model, upgrade  # noqa: E402
from steps import PATIENCE_S, check, outcome, step, succeed, wait_for  # noqa: E402


def try_commands(root):
    step("the program, the manual and the example")
    version = inside(root, "driftgate", "version").strip()
    check(re.fullmatch(r"driftgate \d+\.\d+\.\d+", version), version)
    data = f"{EXAMPLE}/data"
    report = inside(root, "driftgate", "drift", f"{data}/captures/numeric_train.safetensors",
                    f"{data}/captures/numeric_train_batch8.safetensors", "--corpus", f"{data}/numeric.jsonl", "--json", "-")
    report = report[report.index("{"):report.rindex("}") + 1]
    check(json.loads(report), report)
    check("serve" in inside(root, TINYLM, "--help"), "tinylm has no help")
    check("libdriftgate.so.1 " in inside(root, "ldconfig", "-p"), "the linker does not know the C library: ldconfig was not run")
    for page in ("man1/driftgate.1.gz", "man1/driftgate-drift.1.gz", "man1/driftgate-audit.1.gz", "man5/driftgate.yaml.5.gz"):
        check(os.path.exists(f"{root}/usr/share/man/{page}"), f"there is no manual page {page}")
    loaded = inside(root, "bash", "-c", "source /usr/share/bash-completion/completions/driftgate; "
                    "COMP_WORDS=(driftgate au); COMP_CWORD=1; _driftgate; echo ${COMPREPLY[*]}")
    check(loaded.split() == ["audit"], f"bash completes 'driftgate au' to {loaded}")


def refuse_unusable(root, folder, deb):
    """Settings that cannot be used: the new version is there, the daemon that runs is left alone."""
    step("upgrade with settings that cannot be used")
    good = open(root + CONFIG, encoding="utf-8").read()
    with open(root + CONFIG, "a", encoding="utf-8") as file:
        file.write("no_such_setting: 1\n")
    asked_of_systemctl(root)
    with Users() as users:
        said = install(root, repack(deb, folder, "0.1.2-1"))
    users.served_all("unusable settings")
    asked = asked_of_systemctl(root)
    check(not any(line.startswith(("restart", "start")) for line in asked), f"asked of systemd: {asked}")
    check("no_such_setting" in said and "goes on as it is" in said, said)
    with open(root + CONFIG, "w", encoding="utf-8") as file:
        file.write(good)


def refuse_downgrade(root, folder, deb, manager):
    step("downgrades")

    def older_schema(tree):
        path = os.path.join(tree, "DEBIAN/preinst")
        text = open(path, encoding="utf-8").read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(re.sub(r"^known=\d+", "known=3", text, flags=re.M))

    older = repack(deb, folder, "0.0.9-1", older_schema)
    done = install(root, older, check_code=False)
    check(done.returncode != 0 and "is refused" in done.stdout and "knows up to 3" in done.stdout, done.stdout)
    status = inside(root, "dpkg-query", "-W", "-f", "${Status} ${Version}", "driftgate")
    check(status == "install ok installed 0.1.2-1", status)
    check(manager.daemon.poll() is None and ask_router() == 200, "the refused downgrade disturbed what runs")
    # The program says it itself, too: a copy of the data that a newer version has written.
    copy = f"{root}/tmp/newer"
    shutil.copytree(root + DATA, copy, ignore=shutil.ignore_patterns("*.sock*"))
    with contextlib.closing(sqlite3.connect(f"{copy}/driftgate.db")) as database:
        database.execute("INSERT INTO schema_migrations(version, name, checksum, applied_us) VALUES(999, 'later', 'x', 0)")
        database.commit()
    for words in (["--check"], []):
        done = inside(root, "driftgate", "serve", "--config", CONFIG, "--data-dir", "/tmp/newer", *words, check_code=False)
        check(done.returncode != 0 and "schema version 999" in done.stdout and "newer driftgate" in done.stdout, done.stdout)
    # Also with settings that cannot be used, and where nothing is said of the schema the administrator decides.
    good = open(root + CONFIG, encoding="utf-8").read()
    for fault, why in (("otlp: {endpoint: 'ftp://nowhere'}", "knows up to 3"), ("no_such_setting: 1", "does not say")):
        with open(root + CONFIG, "w", encoding="utf-8") as file:
            file.write(f"{good}{fault}\n")
        done = install(root, older, check_code=False)
        check(done.returncode != 0 and "is refused" in done.stdout and why in done.stdout, done.stdout)
    same = repack(deb, folder, "0.0.8-1")
    done = install(root, same, check_code=False)
    check(done.returncode != 0 and "no_such_setting" in done.stdout and "DRIFTGATE_FORCE_DOWNGRADE" in done.stdout, done.stdout)
    install(root, same, environment={"DRIFTGATE_FORCE_DOWNGRADE": "1"})
    with open(root + CONFIG, "w", encoding="utf-8") as file:
        file.write(good)
    # Of the same schema an older version is installed as any other.
    install(root, repack(deb, folder, "0.1.2-1"))
    install(root, same)
    install(root, f"{folder}/driftgate_0.1.2-1.deb")


def listed(root):
    """What is left of the package, by hand and by dpkg."""
    found = []
    for top in ("/etc", "/usr/lib", "/usr/bin", "/usr/share", "/lib/systemd", "/var/lib", "/run"):
        for folder, folders, files in os.walk(root + top):
            place = folder[len(root):]
            found += [f"{place}/{name}" for name in folders + files if "driftgate" in name or "driftgate" in place]
    return sorted(set(found))


def remove_and_purge(root, manager):
    step("removal")
    asked_of_systemctl(root)
    said = inside(root, "apt-get", "remove", "-y", "driftgate")
    asked = asked_of_systemctl(root)
    check("stop driftgate.service driftgate.socket driftgate-router.socket" in asked, f"asked of systemd: {asked}")
    check("ending the router" in said and "are kept in /var/lib/driftgate" in said, said)
    check(ask_router() == 0, "a router still serves")
    check(manager.daemon.wait(PATIENCE_S) == 0, f"the daemon ended with {manager.daemon.returncode}")
    check(not os.path.exists(root + BIN) and os.path.exists(root + CONFIG), "what a removal leaves is not as it should be")
    step("purge")
    said = inside(root, "apt-get", "purge", "-y", "driftgate")
    check("the evidence is NOT deleted" in said, said)
    left = listed(root)
    print("    left after the purge:\n      " + "\n      ".join(left))
    for name in ("driftgate.db", "log.key", "attestation.key", "head.note", "trust.json", "admin.token"):
        check(os.path.exists(f"{root}{DATA}/{name}"), f"the purge deleted {name}")
    gone = [path for path in left if not path.startswith(DATA) and not path.startswith("/var/lib/systemd/deb-systemd-helper")]
    check(not gone, f"left outside the data folder: {gone}")
    check(not [path for path in left if "/spool" in path or "/jobs" in path or "router." in path or "session.key" in path],
          f"the purge left what is no evidence: {left}")


def again(root, deb):
    step("installed again on the record that was kept")
    install(root, deb)
    said = inside(root, "runuser", "-u", "driftgate", "--", "driftgate", "serve", "--check", "--config", CONFIG)
    check("the database has schema version" in said, said)
    verified = inside(root, "runuser", "-u", "driftgate", "--", "driftgate", "audit", "verify", "--data-dir", DATA)
    check(re.match(r"ok: \d+ entries", verified), verified)


def remove_without_systemd(root, folder):
    """A daemon that somebody started by hand: it ends first, so that it starts no router in place of the one that ends."""
    step("removal where no systemd runs")
    os.rmdir(f"{root}/run/systemd/system")
    path = os.path.join(folder, "by_hand.log")
    with open(path, "wb") as log:
        daemon = subprocess.Popen(["chroot", "--userspec=driftgate:driftgate", root, "driftgate", "serve", "--config", CONFIG, "--listen",
                                   "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                  env={"PATH": "/usr/sbin:/usr/bin:/bin", "LANG": "C.UTF-8"})
    try:
        wait_for("the daemon", lambda: "ready port=" in open(path, encoding="utf-8").read() or daemon.poll() is not None)
        check(daemon.poll() is None and router_pid(root), open(path, encoding="utf-8").read())
        said = inside(root, "apt-get", "remove", "-y", "driftgate")
        check(f"ending the daemon (process {daemon.pid})" in said and "ending the router" in said, said)
        check(daemon.wait(PATIENCE_S) == 0, f"the daemon ended with {daemon.returncode}")
        wait_for("the router's end", lambda: not listens(8080))
        left = [open(path, "rb").read() for path in glob.glob("/proc/[0-9]*/cmdline") if os.access(path, os.R_OK)]
        check(not [words for words in left if b"--control" in words and DATA.encode() in words], "a router is left")
        check("replaced" not in open(path, encoding="utf-8").read(), "the daemon replaced the router that was ended")
    finally:
        if daemon.poll() is None:
            daemon.kill()
            daemon.wait()


def in_order(root, folder, deb):
    only_loopback()
    try_commands(root)
    allow_example(root)
    step("the daemon by its unit")
    with contextlib.closing(Manager(root, folder)) as manager:
        manager.start()
        serve_model(root, folder, manager)
        step("a restart of the daemon")
        router = router_pid(root)
        with Users() as users:
            manager.restart()
        users.served_all("restart")
        check(router and router_pid(root) == router, "the daemon's restart changed the router")
        upgrade(root, repack(deb, folder, "0.1.1-1"), manager)
        refuse_unusable(root, folder, deb)
        refuse_downgrade(root, folder, deb, manager)
        remove_and_purge(root, manager)
        again(root, deb)
    remove_without_systemd(root, folder)


def lint(deb):
    """Lintian with all its tags; what it says of things that have reasons is in configs/debian/lintian-overrides."""
    step("lintian")
    if shutil.which("lintian"):
        succeed(["lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags", "unstripped-binary-or-object", deb])
    else:
        print("    lintian is not installed: left out")


def verify_units(root):
    step("systemd-analyze on the units")
    units = [f"{root}/lib/systemd/system/{name}" for name in
             ("driftgate.service", "driftgate.socket", "driftgate-router.socket", "driftgate-router@.service")]
    for unit in units:
        done = outcome(["systemd-analyze", "verify", "--man=no", f"--root={root}", os.path.basename(unit)])
        mine = [line for line in done.stdout.splitlines() if "driftgate" in line]
        check(not mine, "\n".join(mine))
    for unit in (units[0], units[3]):
        said = succeed(["systemd-analyze", "security", "--offline=yes", "--threshold=20", unit])
        print("    " + said.strip().splitlines()[-1])


def main(build):
    for program in ("debootstrap", "cpack", "dpkg-deb", "systemd-analyze"):
        if not shutil.which(program):
            print(f"skipped: there is no {program}")
            return 0
    folder = os.path.join(build, "package-test")
    os.makedirs(folder, exist_ok=True)
    for log in glob.glob(f"{folder}/*.log"):
        os.unlink(log)
    try:
        with mounts.private(folder):
            step("the package")
            deb = built_package(build, folder)
            step(f"{os.path.basename(deb)}: {os.path.getsize(deb) / 2**20:.1f} MiB")
            root = root_with(deb, folder, base=os.path.join(folder, "base"))
            lint(deb)
            verify_units(root)
            in_order(root, folder, deb)
    except mounts.Refused as why:
        print(f"skipped: {why}")
        return 0
    step("passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
