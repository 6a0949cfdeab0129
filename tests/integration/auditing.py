"""What operators and auditors do, by the commands that the pages name, with a daemon that runs or just ran: TLS, keys,
backups and restores, and the questions that the log answers."""
import base64
import hashlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

from harness import DRIFTGATE, PATIENCE_S, check, port_of, verified, wait_for
from wire import Peer
from world import run


def command(world, *argv, who=None, expect=0, environment=None):
    """Runs the program; against the daemon as `who`, else alone. Its output and errors together."""
    arguments = [DRIFTGATE, *argv]
    if who:
        arguments += ["--url", world.url, "--token-file", world.token_file(who)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
                          env={**os.environ, **(environment or {})})
    check(done.returncode == expect, f"{' '.join(argv)}: {done.returncode}, expected {expect}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def data(world):
    return ["--data-dir", f"{world.folder}/data"]


def stop(world):
    check(world.daemon.stop() == 0, f"the daemon did not end well:\n{world.daemon.tail()}")


def something_happens(world, name):
    world.api("POST", "/v1/kernels", {"name": name, "engine": "e", "dtype": "f32"}, who="promoter", expect=201)


def root_of(leaves):
    """RFC 6962, 2.1, of the entries' bytes."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + root_of(leaves[:split]) + root_of(leaves[split:])).digest()


def raw_entry(world, seq):
    request = urllib.request.Request(f"{world.url}/v1/evidence/{seq}",
                                     headers={"Authorization": "Bearer " + world.tokens["auditor"]})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return answer.read()


def save(world, name, text):
    path = os.path.join(world.folder, name)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


def export_all(world, name, older=None):
    path = os.path.join(world.folder, name)
    command(world, "audit", "export", "--from", "2020-01-01", "--to", "2100-01-01", "--out", path,
            *(["--older-head", older] if older else []), who="auditor")
    return path


# --- TLS ---------------------------------------------------------------------------------------------------------
def certificates(folder):
    """A CA, a server and a client that it vouches for, and a stranger, made by openssl."""
    def openssl(*argv):
        subprocess.run(["openssl", *argv], cwd=folder, check=True, capture_output=True)

    def selfsigned(name, *extra):
        openssl("req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout",
                f"{name}.key", "-out", f"{name}.pem", *extra)

    os.mkdir(folder)
    selfsigned("ca", "-addext", "basicConstraints=critical,CA:TRUE")
    selfsigned("stranger")
    for name, extension in (("server", "subjectAltName=DNS:localhost"), ("client", "extendedKeyUsage=clientAuth")):
        with open(f"{folder}/{name}.ext", "w", encoding="ascii") as file:
            file.write(extension + "\n")
        openssl("req", "-newkey", "ed25519", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out",
                f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days",
                "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")
    return folder


def start_with_tls(world, files, **settings):
    world.settings = {"tls.cert_file": f"{files}/server.pem", "tls.key_file": f"{files}/server.key", **settings}
    config = save(world, "driftgate.yaml", world.settings_text())
    world.daemon = world.process("daemon", [DRIFTGATE, "serve", "--config", config])
    port = port_of(world.daemon, f"{world.folder}/api.port")
    world.url = f"https://localhost:{port}"
    world.tokens["admin"] = wait_for("the first token", lambda: first_token(world))
    return port


def first_token(world):
    try:
        with open(f"{world.folder}/data/admin.token", encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def status_of(url, files, client=None, token=None, newest=None, suites=None):
    """HTTP status over TLS, 0 when no connection came about."""
    context = ssl.create_default_context(cafile=f"{files}/ca.pem")
    if newest:
        context.maximum_version = newest
    if suites:
        context.set_ciphers(suites)
    if client:
        context.load_cert_chain(f"{files}/{client}.pem", f"{files}/{client}.key")
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S, context=context) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def tls_is_all_that_the_daemon_speaks_once_it_has_a_certificate(world):
    files = certificates(f"{world.folder}/tls")
    port = start_with_tls(world, files)
    token = world.tokens["admin"]
    wait_for("the daemon to be ready", lambda: status_of(world.url + "/readyz", files) == 200)
    check(status_of(world.url + "/v1/tokens", files) == 401, "a certificate replaced the token")
    check(status_of(world.url + "/v1/tokens", files, token=token) == 200, "the token was not taken over TLS")
    check(status_of(f"https://127.0.0.1:{port}/readyz", files) == 0, "a name that the certificate does not have")
    config = save(world, "fixed.yaml", json.dumps({"listen": f"0.0.0.0:{port}", "data_dir": f"{world.folder}/data",
                                                   "tls": {"cert_file": f"{files}/server.pem", "key_file": f"{files}/server.key"}}))
    alive = [DRIFTGATE, "doctor", "--alive", "--config", config]
    done = subprocess.run(alive, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    check(done.returncode == 0 and "answers" in done.stdout, f"a daemon with TLS is not alive: {done.stdout}{done.stderr}")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and nobody listens
        save(world, "fixed.yaml", json.dumps({"listen": f"127.0.0.1:{silent.getsockname()[1]}", "data_dir": f"{world.folder}/data"}))
        done = subprocess.run(alive, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    check(done.returncode == 69 and "no daemon answers" in done.stderr, f"a daemon that is none: {done.stdout}{done.stderr}")
    check(status_of(world.url + "/readyz", files, newest=ssl.TLSVersion.TLSv1_2) == 200, "TLS 1.2")
    for suites in ("AES128-GCM-SHA256:AES256-GCM-SHA384", "ECDHE-RSA-AES128-SHA256:ECDHE-ECDSA-AES128-SHA256"):
        check(status_of(world.url + "/readyz", files, newest=ssl.TLSVersion.TLSv1_2, suites=suites) == 0, f"{suites} was accepted")
    plain = Peer(f"http://127.0.0.1:{port}")
    plain.send(b"GET /v1/tokens HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n" % token.encode())
    check(plain.closed_within(PATIENCE_S) and b"HTTP/1.1 2" not in plain.received, f"plain HTTP: {plain.received[:100]}")
    command(world, "token", "list", "--ca", f"{files}/ca.pem", who="admin")
    command(world, "token", "list", who="admin", environment={"DRIFTGATE_CA": f"{files}/ca.pem"})
    command(world, "token", "list", who="admin", expect=77)  # the system's list does not have the CA
    command(world, "token", "list", "--ca", f"{files}/stranger.pem", who="admin", expect=77)


def mutual_tls_lets_only_clients_of_the_ca_in(world):
    files = certificates(f"{world.folder}/tls")
    start_with_tls(world, files, **{"tls.client_ca_file": f"{files}/ca.pem"})
    token = world.tokens["admin"]
    url = world.url + "/v1/tokens"
    wait_for("the daemon to be ready", lambda: status_of(world.url + "/readyz", files, "client") == 200)
    check(status_of(url, files, "client", token) == 200, "the client of the CA was refused")
    check(status_of(url, files, "client") == 401, "a client certificate replaced the token")
    check(status_of(url, files, None, token) == 0, "a client without a certificate was served")
    check(status_of(url, files, "stranger", token) == 0, "a client of nobody was served")
    ours = ["--ca", f"{files}/ca.pem"]
    command(world, "token", "list", *ours, "--cert", f"{files}/client.pem", "--key", f"{files}/client.key", who="admin")
    command(world, "token", "list", *ours, who="admin", expect=69)
    command(world, "token", "list", *ours, "--cert", f"{files}/stranger.pem", "--key", f"{files}/stranger.key",
            who="admin", expect=69)


# --- keys --------------------------------------------------------------------------------------------------------
def keys_are_rotated_and_each_trust_file_vouches_for_its_time(world):
    world.start_daemon()
    something_happens(world, "before")
    first_trust = save(world, "trust-1.json", command(world, "key", "trust", *data(world)))
    kept = save(world, "kept.note", world.api("GET", "/v1/log/checkpoint"))
    first = export_all(world, "first.bundle")
    verified([first], first_trust, 0)
    refused = command(world, "key", "rotate", "--use", "head", "--reason", "yearly", *data(world), expect=4)
    check("in use" in refused or "running" in refused or "another" in refused, f"why it is refused: {refused}")
    stop(world)
    for use in ("head", "attestation"):
        command(world, "key", "rotate", "--use", use, "--reason", "yearly", *data(world))
    world.start_daemon()
    something_happens(world, "after")
    check([e["body"]["use"] for e in world.entries(kind="key_rotated")] == ["head", "attestation"], "the entries")
    trust = save(world, "trust-2.json", command(world, "key", "trust", *data(world)))
    second = export_all(world, "second.bundle", kept)
    verified([second], trust, 0, kept)
    verified([first], trust, 0)
    verified([second], first_trust, 3)  # who was not told of the new key does not take it
    listed = command(world, "key", "list", *data(world))
    check(listed.count("in force") == 2 and len(listed.splitlines()) == 5, f"key list:\n{listed}")


def heads_of_before_two_rotations_stay_acceptable(world):
    world.start_daemon()
    kept = []  # heads as an auditor kept them, of each key's time
    for rotation in range(3):
        something_happens(world, f"under-key-{rotation}")
        kept.append(world.api("GET", "/v1/log/checkpoint"))
        if rotation < 2:
            stop(world)
            command(world, "key", "rotate", "--use", "head", "--reason", "yearly", *data(world))
            world.start_daemon()
    trust = save(world, "trust.json", command(world, "key", "trust", *data(world)))
    size_of = lambda note: int(note.split("\n")[1])
    root_in = lambda note: base64.b64decode(note.split("\n")[2]).hex()
    sizes = [1, *map(size_of, kept)]
    answers = [world.api("GET", f"/v1/log/consistency?from={old}&to={new}", who="auditor", expect=200)
               for old in sizes for new in sizes if old <= new]
    population = json.loads(command(world, "audit", "population", "--from", "2020-01-01", "--to", "2100-01-01", "--json",
                                    who="auditor").splitlines()[-1])
    leaves = [raw_entry(world, seq) for seq in range(size_of(world.api("GET", "/v1/log/checkpoint")))]
    for answer in answers:
        check(answer["root"] == root_of(leaves[:answer["to"]]).hex(), f"the root of {answer['to']} entries: {answer}")
        size = size_of(answer["checkpoint"])
        check(root_in(answer["checkpoint"]) == root_of(leaves[:size]).hex(), f"the head of {size} entries: {answer}")
        check((size == answer["to"]) == (answer["continuation"] == []), f"what continues {answer['to']}: {answer}")
    check(population["from_root"] == root_of(leaves[:population["from_size"]]).hex(), f"{population}")
    notes = [*kept, *(answer["checkpoint"] for answer in answers), population["from_checkpoint"],
             population["to_checkpoint"]]
    for number, note in enumerate(dict.fromkeys(notes)):
        older = save(world, f"kept-{number}.note", note)
        verified([export_all(world, f"since-{number}.bundle", older)], trust, 0, older)


def a_swapped_key_is_refused_at_the_start(world):
    world.keeps_its_folder_whole = False
    world.start_daemon()
    stop(world)
    fresh = f"{world.folder}/fresh.key"
    command(world, "key", "generate", "--use", "head", "--out", fresh)
    check(os.stat(fresh).st_mode & 0o777 == 0o600, "a key that others may read")
    command(world, "key", "generate", "--use", "head", "--out", fresh, expect=4)  # never over a key
    secret = f"{world.folder}/hook.secret"
    command(world, "key", "generate", "--use", "webhook", "--out", secret)
    check(open(secret, encoding="ascii").read().startswith("whsec_"), "no secret of a webhook")
    shutil.copy(fresh, f"{world.folder}/data/log.key")
    swapped = world.process("swapped", [DRIFTGATE, "serve", "--config", f"{world.folder}/driftgate.yaml"])
    wait_for("the daemon to end", lambda: not swapped.alive())
    check(swapped.child.returncode != 0 and "key" in swapped.tail(), f"started with another key: {swapped.tail()}")


# --- backup and restore ------------------------------------------------------------------------------------------
def a_backup_is_restored_and_a_loss_begins_an_epoch(world):
    world.start_daemon()
    something_happens(world, "one")
    command(world, "backup", "--name", "older", who="operator")
    something_happens(world, "two")
    command(world, "backup", "--name", "newest", who="operator")
    check(command(world, "backup", "--name", "newest", who="operator", expect=4), "a backup was overwritten")
    kept = save(world, "kept.note", world.api("GET", "/v1/log/checkpoint"))
    old_trust = save(world, "old-trust.json", command(world, "key", "trust", *data(world)))
    backups = f"{world.folder}/data/backups"
    command(world, "restore", f"{backups}/newest", *data(world), expect=4)  # the daemon runs
    stop(world)
    said = command(world, "restore", f"{backups}/older", *data(world), expect=4)
    check("rollback detected" in said, said)
    command(world, "restore", f"{backups}/older", *data(world), "--accept-loss", expect=4)  # no reason
    said = command(world, "restore", f"{backups}/older", *data(world), "--accept-loss", "--reason", "the disk is gone")
    check("epoch 2" in said, said)
    world.start_daemon()
    head = world.api("GET", "/v1/log/checkpoint")
    check(head.split("\n")[0].endswith("/epoch-2"), f"the origin is {head.splitlines()[0]}")
    names = {kernel["name"] for kernel in world.api("GET", "/v1/kernels", expect=200)["items"]}
    check(names == {"one"}, f"kernels after the restore: {names}")
    changed = world.entries(kind="epoch_changed")
    check(len(changed) == 1 and changed[0]["body"]["reason"] == "the disk is gone", f"epoch_changed: {changed}")
    bundle = export_all(world, "epoch.bundle")
    trust = save(world, "trust.json", command(world, "key", "trust", *data(world)))
    verified([bundle], trust, 0)
    verified([bundle], old_trust, 3)
    verified([bundle], trust, 2, kept)  # nobody takes the new log for the old one


def the_newest_backup_comes_back_whole(world):
    world.start_daemon()
    something_happens(world, "one")
    made = json.loads(command(world, "backup", "--name", "all", "--json", who="operator"))
    stop(world)
    os.unlink(f"{world.folder}/data/driftgate.db")
    said = command(world, "restore", f"{world.folder}/data/backups/all", *data(world))
    check(f"{made['tree_size']} entries" in said, said)
    world.start_daemon()
    check([k["name"] for k in world.api("GET", "/v1/kernels", expect=200)["items"]] == ["one"], "the kernel is gone")
    check(world.api("GET", "/v1/log/checkpoint").split("\n")[0].find("epoch") < 0, "a new epoch without a loss")


# --- questions ---------------------------------------------------------------------------------------------------
def an_auditor_asks_and_recomputes(world):
    world.start_daemon()
    before = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 60))
    world.install_incumbent()
    ask = lambda *argv: json.loads(command(world, "audit", *argv, "--json", who="auditor"))
    later = "2100-01-01"
    served = ask("at", "tinylm", later)
    check("tinylm-f32" in json.dumps(served), f"what served: {served}")
    said = command(world, "audit", "at", "tinylm", before, who="auditor", expect=4)
    check("no route of model tinylm" in said, f"before the first route: {said}")
    exceptions = command(world, "audit", "exceptions", "--from", before, "--json", who="auditor")
    check("model_bootstrapped" in exceptions, f"a version without a promotion is no exception: {exceptions}")

    *items, population = command(world, "audit", "population", "--from", before, "--to", later, "--json",
                                 who="auditor").splitlines()
    check(len(items) == 1 and '"how":"bootstrap"' in items[0], f"who came to serve: {items}")
    population = json.loads(population)
    size = population["to_size"]
    leaves = [raw_entry(world, seq) for seq in range(size)]
    for name, count in (("from", population["from_size"]), ("to", size)):
        lines = population[f"{name}_checkpoint"].split("\n")
        check(int(lines[1]) == count and base64.b64decode(lines[2]) == root_of(leaves[:count]),
              f"the {name} head is not of the entries that the API gives")

    drawn = ask("sample", "--seed", "dice 3 1 6", "--count", "5", "--size", str(size))
    ranked = sorted(range(size), key=lambda seq: hashlib.sha256(f"dice 3 1 6:{seq}".encode()).hexdigest())
    seqs = [item["entry"]["seq"] for item in drawn["items"]]
    check(sorted(seqs) == sorted(ranked[:5]), f"drawn {seqs}, recomputed {ranked[:5]}")
    kinds = {json.loads(leaf)["kind"] for leaf in leaves}
    missing = {"daemon_started", "token_granted", "kernel_registered", "engine_registered", "model_bootstrapped",
               "route_desired", "route_applied", "evidence_read"} - kinds
    check(not missing, f"not on record: {missing}")
    reads = [entry for entry in world.entries(kind="evidence_read") if entry["actor"] == "auditor"]
    check(len(reads) >= 4, f"the auditor's own questions are not all on record: {len(reads)}")


def tokens_end_when_they_expire_or_are_revoked(world):
    world.start_daemon()
    issue = lambda name, *more, expect=0: command(world, "token", "issue", "--name", name, *more, "--json", who="admin",
                                                  expect=expect)
    kept = json.loads(issue("eve", "--scope", "viewer"))
    known = lambda who: "items" in world.api("GET", "/v1/kernels", who=who)
    world.tokens["kept"] = kept["bearer"]
    check(known("kept"), "a new token is not known")
    for grants, seconds in enumerate((2, 8, 32, 128), start=2):
        began = time.monotonic()
        world.tokens["short"] = json.loads(issue("eve", "--scope", "viewer", "--expires-in", str(seconds)))["bearer"]
        if known("short"):
            break
        # Only one that had the time to end may be gone already; the next one is given longer.
        check(time.monotonic() - began >= seconds, f"a token for {seconds} s is not known")
    wait_for("the short token to end", lambda: not known("short"))
    check(time.monotonic() - began >= seconds, f"a token for {seconds} s ended sooner")
    check(known("kept"), "another token of the same name ended with it")
    command(world, "token", "revoke", kept["id"], who="admin")
    check(not known("kept"), "a revoked token is still known")
    issue("root", "--scope", "admin", "--scope", "approver", expect=4)
    issue("eve", "--scope", "approver")
    issue("eve", "--scope", "admin", expect=4)  # one name is one person
    granted = [entry["body"]["name"] for entry in world.entries(kind="token_granted")]
    check(granted.count("eve") == grants + 1 and "root" not in granted, f"grants on record: {granted}")
    check(len(world.entries(kind="token_revoked")) == 1, "the revocation is not on record")


TESTS = [
    tls_is_all_that_the_daemon_speaks_once_it_has_a_certificate,
    mutual_tls_lets_only_clients_of_the_ca_in,
    keys_are_rotated_and_each_trust_file_vouches_for_its_time,
    heads_of_before_two_rotations_stay_acceptable,
    a_swapped_key_is_refused_at_the_start,
    a_backup_is_restored_and_a_loss_begins_an_epoch,
    the_newest_backup_comes_back_whole,
    an_auditor_asks_and_recomputes,
    tokens_end_when_they_expire_or_are_revoked,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
