"""How bench/router.py runs driftgate's router and its peers, with settings that are as alike as they can be: connections
stay open on both sides, nothing is logged, bytes are sent at once, and as many threads serve.

What driftgate's router does beyond its peers, and is measured with it: it reads the whole body as JSON for model, user,
metadata and the length of the prompt, chooses an arm by slice and sticky bucket, judges each answer (of a plain one that
it is JSON with `choices`, of a stream each event) and therefore holds a plain answer until it is whole, and keeps an
observation of each request, which is read from it as the daemon does.
"""
import collections
import os
import shutil
import socket
import subprocess

Settings = collections.namedtuple("Settings", "threads engine_port files cpus telemetry")
NAMES = ("driftgate", "haproxy", "nginx")
WINDOW_MS = 500  # of telemetry: short, so that reading it costs each measured second alike
IDLE_S = 600  # for which connections may stay idle
MOST_CONNECTIONS = 20_000

# Without http-no-delay HAProxy holds events of a stream back until more have come, for 16 ms here.
HAPROXY = """\
global
  nbthread {threads}
  maxconn {connections}
defaults
  mode http
  timeout connect 2s
  timeout client {idle}s
  timeout http-keep-alive {idle}s
  timeout server 120s
  option http-no-delay
frontend users
  bind 127.0.0.1:{port} backlog 4096
  default_backend engines
backend engines
  http-reuse always
  server engine 127.0.0.1:{engine}
"""

# proxy_buffering would hold events back; peers that buffer nothing of a stream buffer nothing here.
NGINX = """\
daemon off;
user root;
worker_processes {threads};
worker_rlimit_nofile {files};
pid {folder}/pid;
error_log {folder}/log error;
events {{ worker_connections {both_sides}; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  client_body_buffer_size 64k;
  keepalive_timeout {idle}s;
  keepalive_requests 1000000000;
  tcp_nodelay on;
  upstream engines {{
    server 127.0.0.1:{engine};
    keepalive 1024;
    keepalive_requests 1000000000;
    keepalive_timeout {idle}s;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096 reuseport;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    location / {{ proxy_pass http://engines; }}
    location /v1/chat/completions {{ proxy_pass http://engines; proxy_buffering off; }}
  }}
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def find(name, given):
    """The program, or None when it is not installed."""
    return shutil.which(given) or shutil.which(os.path.join("/usr/sbin", name))


def version(name, program):
    flag = "version" if name == "driftgate" else "-v"
    told = subprocess.run([program, flag], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    lines = (told.stdout + told.stderr).strip().splitlines()
    return lines[0] if told.returncode == 0 and lines else f"{name}: {flag} ended with {told.returncode}"


def command(name, program, folder, port, settings):
    """The command line that serves on `port`; writes what it needs into `folder`."""
    connections = min((settings.files - 200) // 2, MOST_CONNECTIONS)  # two descriptors each
    values = {"folder": folder, "port": port, "threads": settings.threads, "engine": settings.engine_port,
              "files": settings.files, "idle": IDLE_S, "connections": connections,
              # nginx counts its connections to the engine too, and closes idle ones when few are left.
              "both_sides": 2 * connections + 100}
    if name == "driftgate":
        return [program, "router", "--listen", "127.0.0.1:0", "--port-file", f"{folder}/port", "--control",
                f"{folder}/control", "--spool", f"{folder}/spool", "--state", f"{folder}/state", "--threads",
                str(settings.threads), "--lease-ms", "86400000", "--window-ms", str(WINDOW_MS), "--idle-ms",
                str(1000 * IDLE_S), "--drain-ms", "1000", "--max-connections", str(connections),
                "--max-connections-per-address", str(connections)]
    path = f"{folder}/{name}.conf"
    with open(path, "w", encoding="ascii") as file:
        file.write((HAPROXY if name == "haproxy" else NGINX).format(**values))
    if name == "haproxy":
        return [program, "-db", "-f", path]
    return [program, "-p", folder, "-e", f"{folder}/log", "-c", path]


def processes(name, settings):
    """How many processes the proxy consists of."""
    return 1 + settings.threads if name == "nginx" else 1


def route(engine_port):
    """A canary at half of the traffic with a slice of its own. Both arms are the one engine, so that driftgate's
    connections to it are as many as its peers'."""
    def arm(number):
        return {"version": f"v{number}", "kernel": f"kernel-{number}", "url": f"http://127.0.0.1:{engine_port}"}
    return {"model": "bench", "epoch": 1, "revision": 1, "stage_key": "bench/canary/1", "seed": 7, "incumbent": arm(1),
            "candidate": arm(2), "candidate_bp": 5000,
            "slices": [{"where": {"language": "fr"}, "candidate_bp": 1000, "to_fallback": False}],
            "all_to_fallback": False, "mirror_bp": 0, "mirror_token_budget": 0, "pins": {}}
