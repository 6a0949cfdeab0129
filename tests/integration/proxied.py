"""A world whose users go through a real HAProxy, and what that HAProxy says of itself."""
import contextlib
import os
import socket
import subprocess

from harness import DRIFTGATE, check, wait_for
from world import held_port

HAPROXY = os.environ.get("HAPROXY_BIN", "")

# HAProxy does not read answers, so that no clause of the canary can be on the time of the first token.
TTFT = "metric: ttft_ms, aggregate: p95, max_ratio: 3, severity: soft}"
TTFT_OF_SHADOW = TTFT[:-1] + ", stages: [shadow-runtime]}"


def for_haproxy(contract):
    check(TTFT in contract, "the contract has no clause on ttft_ms")
    return contract.replace(TTFT, TTFT_OF_SHADOW)


def free_udp_port():
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def go_behind_haproxy(world):
    """Writes HAProxy's files and starts it; the daemon is started after it."""
    world.user_port_holder = held_port()
    world.user_port = world.user_port_holder.getsockname()[1]
    world.settings = {**world.settings, "data_plane": "haproxy", "haproxy.bind": f"127.0.0.1:{world.user_port}",
                      "haproxy.log": f"127.0.0.1:{free_udp_port()}"}
    config = os.path.join(world.folder, "driftgate.yaml")
    with open(config, "w", encoding="utf-8") as handle:
        handle.write(world.settings_text())
    said = subprocess.run([DRIFTGATE, "haproxy", "config", "--config", config], capture_output=True, text=True, check=False,
                          timeout=60)
    check(said.returncode == 0, f"driftgate haproxy config: {said.stderr}")
    world.haproxy_config = said.stdout.strip()
    start_haproxy(world)


def start_haproxy(world):
    world.haproxy = world.process("haproxy", [HAPROXY, "-db", "-f", world.haproxy_config])
    wait_for("HAProxy to answer", lambda: world.haproxy.alive() and ask(world, "show info"))


def ask(world, command):
    """The answer of HAProxy's runtime socket; "" while it has none."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(10)
        peer.connect(os.path.join(os.path.dirname(world.haproxy_config), "admin.sock"))
        peer.sendall(command.encode() + b"\n")
        parts = []
        while part := peer.recv(65536):
            parts.append(part)
        return b"".join(parts).decode("utf-8", "replace")
    return ""


def held_route(world, model="tinylm"):
    """(epoch, revision, reverted, candidate's share, mirrored share) as HAProxy has it, once it shows a route. While one version
    of a map takes the place of another, `show map` may print neither; requests always find one."""
    return wait_for(f"HAProxy to show a route of {model}", lambda: shown_route(world, model))


def shown_route(world, model):
    folder = os.path.dirname(world.haproxy_config)
    for line in ask(world, f"show map {folder}/routes.map").splitlines():
        words = line.split(" ", 2)
        if len(words) == 3 and words[1] == model:
            tag, _, _, _, _, share, _, mirrored, _ = words[2].split("|")
            epoch, revision = tag.rstrip("r").split(".")
            return int(epoch), int(revision), tag.endswith("r"), int(share), int(mirrored)
    return None


def requests_by_server(world, backend="driftgate_1"):
    """How many requests HAProxy has given to each server: versions, and the router."""
    rows = ask(world, f"show stat {backend} 4 -1").strip().splitlines()
    heads = rows[0].lstrip("# ").split(",")
    return {row.split(",")[heads.index("svname")]: int(row.split(",")[heads.index("stot")]) for row in rows[1:]}
