#!/usr/bin/env python3
"""What hundreds of models cost one daemon. Starts the real daemon with its router, registers --models models over REST (every
engine is a path of one small local server in this program), brings --live promotions into their canary at the same time, and sends
requests to all models. Usage: many_models.py DRIFTGATE [--models 500] [--live 50] [--rate 500] [--windows 6] [--guards 450]
Prints one JSON object; with --table, the rows of bench/README.md instead. It stops everything that it started."""
import argparse
import asyncio
import http.client
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HZ = os.sysconf("SC_CLK_TCK")
LIMIT_S = 300
WINDOW_MS = 5000

CONTRACT = """
apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: NAME, description: A canary alone, owners: [bench@example.org]}
kernels: {train: {ref: reference}, inf: {ref: candidate}}
slices: {dimensions: [language, domain], min_sequences: 100, critical: [{language: de}]}
runtime:
  - {id: errors, metric: error_rate, max: 0.05, max_ratio: 1.5, stages: [canary]}
  - {id: ttft, metric: ttft_ms, aggregate: p95, max_ratio: 3, severity: soft, stages: [canary]}
  - {id: total, metric: total_ms, aggregate: p95, max_ratio: 3, severity: soft, stages: [canary]}
observability:
  - {id: fresh, signal: telemetry, max_staleness: 60s, severity: soft, stages: [canary]}
stages:
  shadow-runtime: {mirror_share: 1.0, min_duration: 1s, max_duration: 10m}
  canary:
    steps: [{share: 0.5}, {share: 1.0}]
    soak: SOAK
    bake: 0s
    holdback: 0.01
    min_keys: KEYS
    max_duration: 24h
    telemetry: {freeze_after: 60s, revert_after: 120s}
confidence: {alpha: 0.05, alpha_harm: 0.01, alpha_advance: 0.05, means: exact}
escalation: {rules: [{match: "observability.*", action: freeze}], defaults: {hard: log, soft: log}}
"""
# Promotes after a few requests and leaves a guard behind.
QUICK = """
apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: quick, description: A guard soon, owners: [bench@example.org]}
kernels: {train: {ref: reference}, inf: {ref: candidate}}
slices: {dimensions: [language, domain], min_sequences: 100}
runtime:
  - {id: errors, metric: error_rate, max: 0.9, severity: soft, stages: [canary]}
stages:
  shadow-runtime: {mirror_share: 1.0, min_duration: 1s, max_duration: 10m}
  canary: {steps: [{share: 1.0}], soak: 0s, bake: 0s, min_keys: 1, max_duration: 24h, telemetry: {freeze_after: 60s, revert_after: 120s}}
confidence: {alpha: 0.05, alpha_harm: 0.01, alpha_advance: 0.05}
escalation: {defaults: {hard: log, soft: log}}
guard: {mean_time_between_false_alarms: 365d}
"""


# --- engines: one server, a path for each engine -----------------------------------------------------------------------------
def answer_of(path, body):
    parts = path.split("/", 3)
    name, rest = parts[2], "/" + parts[3]
    if rest == "/v1/models":
        return {"object": "list", "data": [{"id": name, "object": "model"}]}
    if rest == "/v1/completions":
        if b'"stream":true' in body:
            return None
        logprobs = {"tokens": [" ok"], "token_logprobs": [-0.1], "top_logprobs": [{" ok": -0.1}], "text_offset": [0]}
        return {"id": "c", "object": "text_completion", "model": name, "created": 1,
                "choices": [{"index": 0, "text": " ok", "finish_reason": "length", "logprobs": logprobs}],
                "usage": {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5}}
    return {"status": "ok"} if rest == "/health" else {}


async def serve_engine(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: *(\d+)", head, re.I)
            body = await reader.readexactly(int(length[1])) if length else b""
            path = head.split(b" ", 2)[1].decode()
            answer = answer_of(path, body)
            status = "200 OK" if answer != {} else "404 Not Found"
            if answer is None:
                data, kind = b'data: {"choices":[{"index":0,"text":" ok","finish_reason":null}]}\n\ndata: [DONE]\n\n', "text/event-stream"
            else:
                data, kind = json.dumps(answer, separators=(",", ":")).encode(), "application/json"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


def run_engines(pipe):
    async def main():
        server = await asyncio.start_server(serve_engine, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()
    asyncio.run(main())


# --- users -------------------------------------------------------------------------------------------------------------------
def run_users(port, names, rate, connections, pipe):
    """Sends `rate` requests a second in turn to each of `names`; tells how many were answered well each second."""
    async def worker(number, counts):
        reader = writer = None
        at, due = number, time.monotonic() + number / rate
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due += connections / rate
            name = names[at % len(names)]
            at += connections
            body = json.dumps({"model": name, "prompt": "The file", "max_tokens": 1}).encode()
            language = "de" if at % 3 == 0 else "en"
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                head = (f"POST /v1/completions HTTP/1.1\r\nHost: router\r\nContent-Type: application/json\r\n"
                        f"driftgate-key: k{at}\r\ndriftgate-slice: language={language};domain=prose\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n")
                writer.write(head.encode() + body)
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(re.search(rb"content-length: *(\d+)", head, re.I)[1]))
                counts[0 if b" 200 " in head.split(b"\r\n", 1)[0] else 1] += 1
            except (OSError, asyncio.IncompleteReadError, TypeError):
                counts[1] += 1
                if writer:
                    writer.close()
                writer = None

    async def main():
        counts = [0, 0]
        tasks = [asyncio.create_task(worker(i, counts)) for i in range(connections)]
        while True:
            await asyncio.sleep(1)
            pipe.send(tuple(counts))
            if any(task.done() for task in tasks):
                return
    asyncio.run(main())


# --- the daemon --------------------------------------------------------------------------------------------------------------
class Daemon:
    def __init__(self, program, folder):
        self.program, self.folder, self.token, self.process = program, folder, None, None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.router_port = free.getsockname()[1]

    def start(self):
        """Seconds from the start until /readyz answers 200 and every route is in force."""
        port_file, settings = f"{self.folder}/port", f"{self.folder}/driftgate.yaml"
        if os.path.exists(port_file):
            os.unlink(port_file)
        pathlib.Path(settings).write_text(json.dumps({
            "listen": "127.0.0.1:0", "port_file": port_file, "data_dir": f"{self.folder}/data", "roots": [self.folder],
            
            "router": {"listen": f"127.0.0.1:{self.router_port}", "window_ms": WINDOW_MS}}))
        began = time.monotonic()
        with open(f"{self.folder}/log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([self.program, "serve", "--config", settings], stdout=log, stderr=log)
        self.wait("the port", lambda: os.path.exists(port_file) and pathlib.Path(port_file).read_text().strip())
        self.port = int(pathlib.Path(port_file).read_text())
        self.wait("readiness", self.is_ready)
        ready = time.monotonic() - began
        self.token = pathlib.Path(f"{self.folder}/data/admin.token").read_text().strip()
        self.wait("every route", lambda: self.metric("driftgate_route_agrees") == 1)
        return ready, time.monotonic() - began

    def is_ready(self):
        try:
            return self.call("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def wait(self, what, probe):
        end = time.monotonic() + LIMIT_S
        while not probe():
            if self.process.poll() is not None or time.monotonic() > end:
                log = pathlib.Path(f"{self.folder}/log").read_text(encoding="utf-8")
                raise SystemExit(f"waited in vain for {what}; the daemon's log ends with\n{log[-3000:]}")
            time.sleep(0.005)

    def call(self, method, path, body=None, kind="application/json", token=True):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind} if self.token and token else {}
            data = json.dumps(body) if isinstance(body, dict) else body
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def ask(self, method, path, body=None, kind="application/json"):
        status, answer = self.call(method, path, body, kind)
        if status // 100 != 2:
            raise SystemExit(f"{method} {path}: {status} {answer[:800].decode()}")
        return json.loads(answer)

    def metric(self, name):
        text = self.call("GET", "/metrics", token=False)[1].decode()  # without figures by model
        found = re.search(rf"^{name} ([-0-9.e+]+)$", text, re.M)
        return float(found[1]) if found else float("nan")

    def router_pid(self):
        return int(re.findall(r"router started.*?pid=(\d+)", pathlib.Path(f"{self.folder}/log").read_text())[-1])

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def close(self):
        self.stop()
        subprocess.run([self.program, "router-stop", "--socket", f"{self.folder}/data/router.sock"], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)


def cpu_ms(pid):
    """Of the whole process, also of threads that have ended; in steps of 10 ms."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return 1e3 * (int(fields[11]) + int(fields[12])) / HZ


def rss_mb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def threads_ms(pid):
    """Processor time of each thread that lives."""
    times = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        times[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e6
    return times


def written_bytes(pid):
    return int(re.search(r"^write_bytes: (\d+)", pathlib.Path(f"/proc/{pid}/io").read_text(), re.M)[1])


def over_windows(daemon, router, windows):
    """What one window costs on average."""
    before = (cpu_ms(daemon.process.pid), cpu_ms(router), daemon.metric("driftgate_store_commits_total"),
              daemon.metric("driftgate_windows_total"), written_bytes(daemon.process.pid), threads_ms(daemon.process.pid))
    time.sleep(windows * WINDOW_MS / 1e3)
    after = (cpu_ms(daemon.process.pid), cpu_ms(router), daemon.metric("driftgate_store_commits_total"),
             daemon.metric("driftgate_windows_total"), written_bytes(daemon.process.pid), threads_ms(daemon.process.pid))
    told = [(b - a) / windows for a, b in zip(before[:5], after[:5])]
    busiest = sorted(((after[5][name] - before[5].get(name, 0)) / windows for name in after[5]), reverse=True)[:4]
    return {"daemon_cpu_ms": round(told[0], 1), "router_cpu_ms": round(told[1], 1), "commits": round(told[2], 1),
            "model_windows": round(told[3], 1), "written_kb": round(told[4] / 1024),
            "busiest_threads_ms": [round(x, 1) for x in busiest]}


def latency_ms(what, rounds=15):
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        what()
        times.append(1e3 * (time.perf_counter() - began))
    return {"median": round(statistics.median(times), 1), "min": round(min(times), 1), "max": round(max(times), 1)}


def in_parallel(work, items, threads=8):
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))


def pages(daemon, path):
    items, after = 0, ""
    while True:
        answer = daemon.ask("GET", f"{path}?limit=500{after}")
        items += len(answer["items"])
        if not answer.get("next"):
            return items
        after = "&after=" + answer["next"]


def lists(daemon, program, folder, models):
    token = f"{folder}/data/admin.token"
    def status():
        done = subprocess.run([program, "status", "--json", "--url", f"http://127.0.0.1:{daemon.port}", "--token-file", token],
                              capture_output=True, check=False, timeout=60)
        if done.returncode != 0 or len(json.loads(done.stdout)["items"]) != models:
            raise SystemExit(f"driftgate status: {done.returncode} {done.stderr.decode()}")
    return {"driftgate status": latency_ms(status), "GET /v1/status": latency_ms(lambda: pages(daemon, "/v1/status")),
            "GET /v1/models": latency_ms(lambda: pages(daemon, "/v1/models")),
            "GET /v1/promotions": latency_ms(lambda: pages(daemon, "/v1/promotions")),
            "GET /metrics": latency_ms(lambda: daemon.call("GET", "/metrics"))}


def install(daemon, engines, models, digest):
    for name in ("reference", "candidate"):
        daemon.ask("POST", "/v1/kernels", {"name": name, "engine": "bench", "dtype": "f32" if name == "reference" else "bf16"})

    def one(name):
        daemon.ask("POST", "/v1/engines", {"name": name, "url": f"http://127.0.0.1:{engines}/e/{name}", "kernel": "reference",
                                           "checkpoint": {"digest": digest}})
        daemon.ask("POST", "/v1/models", {"name": name, "engine": name, "reason": "bench"})
    in_parallel(one, models)


def promote(daemon, engines, model, contract, digest):
    engine = f"{model}-next"
    daemon.ask("POST", "/v1/engines", {"name": engine, "url": f"http://127.0.0.1:{engines}/e/{engine}", "kernel": "candidate",
                                       "checkpoint": {"digest": digest}})
    body = {"model": model, "engine": engine, "contract": contract, "accept_undecidable": True}
    return daemon.ask("POST", "/v1/promotions", body)["id"]


def contract_of(daemon, text):
    return daemon.ask("POST", "/v1/contracts", text, "application/yaml")["digest"]


def send_to(daemon, names, rate, stack):
    told, tell = multiprocessing.Pipe()
    users = multiprocessing.Process(target=run_users, args=(daemon.router_port, names, rate, 64, tell), daemon=True)
    users.start()
    stack.append(users.terminate)
    return users, told


def arm_guards(args, daemon, engines, models, digest, stack):
    """Promotes all of them, so that each has a guard. Without captures there are no golden probes: the guards watch
    traffic and identity."""
    contract = contract_of(daemon, QUICK)
    users, _ = send_to(daemon, models, args.rate, stack)
    in_parallel(lambda name: promote(daemon, engines, name, contract, digest), models)
    daemon.wait("the guards", lambda: daemon.metric("driftgate_guards") == len(models))
    users.terminate()


def measure(args, folder, stack):
    here, there = multiprocessing.Pipe()
    engines = multiprocessing.Process(target=run_engines, args=(there,), daemon=True)
    engines.start()
    stack.append(engines.terminate)
    engine_port = here.recv()
    daemon = Daemon(args.driftgate, folder)
    stack.append(daemon.close)
    first_start = daemon.start()
    models = [f"model-{i:04d}" for i in range(args.models)]
    digest = "sha256:" + "ab" * 32
    began = time.monotonic()
    install(daemon, engine_port, models, digest)
    result = {"models": args.models, "live": args.live, "guards": args.guards, "rate": args.rate, "load": os.getloadavg()[0],
              "empty_start_s": round(first_start[1], 2), "create_s": round(time.monotonic() - began, 1)}
    router = daemon.router_pid()
    time.sleep(WINDOW_MS / 1e3)
    result["at_rest"] = over_windows(daemon, router, args.windows)
    result["at_rest_rss_mb"] = {"daemon": round(rss_mb(daemon.process.pid), 1), "router": round(rss_mb(router), 1)}
    if args.guards:
        began = time.monotonic()
        arm_guards(args, daemon, engine_port, models[args.live:args.live + args.guards], digest, stack)
        result["guards_armed_s"] = round(time.monotonic() - began, 1)
        time.sleep(WINDOW_MS / 1e3)
        result["guards_at_rest"] = over_windows(daemon, router, args.windows)
    contract = contract_of(daemon, CONTRACT.replace("NAME", "canary").replace("SOAK", "12h").replace("KEYS", "100000"))
    chosen = models[:args.live]
    in_parallel(lambda name: promote(daemon, engine_port, name, contract, digest), chosen)
    # Nine of ten requests go to the live canaries.
    names = []
    for i, model in enumerate(models):
        names += [chosen[(9 * i + k) % len(chosen)] for k in range(9 if chosen else 0)] + ([] if args.quiet else [model])
    _, told = send_to(daemon, names, args.rate, stack)
    began = time.monotonic()
    daemon.wait("the canaries", lambda: sum(item["state"] == "running" and item["stage"] == "canary" and item["share_bp"] > 0
                                            for item in daemon.ask("GET", "/v1/promotions?limit=500")["items"]) == args.live)
    result["canaries_live_s"] = round(time.monotonic() - began, 1)
    time.sleep(2 * WINDOW_MS / 1e3)
    if args.perf:
        subprocess.Popen(["perf", "record", "-g", "-o", args.perf, "-p", str(daemon.process.pid), "--", "sleep", "20"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    result["live_canaries"] = over_windows(daemon, router, args.windows)
    result["rss_mb"] = {"daemon": round(rss_mb(daemon.process.pid), 1), "router": round(rss_mb(router), 1)}
    scraped = daemon.call("GET", "/metrics")[1]
    result["metrics"] = {"kb": round(len(scraped) / 1024), "series": sum(line[:1] != b"#" for line in scraped.splitlines())}
    result["latency_ms"] = lists(daemon, args.driftgate, folder, args.models)
    counts = None
    while told.poll():
        counts = told.recv()
    result["answered"] = counts
    daemon.stop()
    began = daemon.start()
    result["restart_s"] = {"ready": round(began[0], 2), "routes_in_force": round(began[1], 2)}
    still = sum(item["state"] == "running" for item in daemon.ask("GET", "/v1/promotions?limit=500")["items"])
    result["live_after_restart"] = still
    return result


def table(result):
    rest, live, window = result["at_rest"], result["live_canaries"], f"a window of {WINDOW_MS // 1000} s"
    rows = [("memory (RSS) of daemon, router, MB", "", f"{result['rss_mb']['daemon']}, {result['rss_mb']['router']}"),
            ("start on this folder until ready, until every route is in force, s", "",
             f"{result['restart_s']['ready']}, {result['restart_s']['routes_in_force']}"),
            (f"{window} with {result['live']} live canaries: daemon's processor time, ms", "≤ 200", live["daemon_cpu_ms"]),
            ("its commits, model windows, kB written", "",
             f"{live['commits']}, {live['model_windows']}, {live['written_kb']}"),
            (f"{window}, {result['models']} models at rest: processor time of daemon, router, ms", "",
             f"{rest['daemon_cpu_ms']}, {rest['router_cpu_ms']}"),
            ("its commits, kB written", "", f"{rest['commits']}, {rest['written_kb']}")]
    if "guards_at_rest" in result:
        guards = result["guards_at_rest"]
        rows += [(f"{window}, {result['guards']} guards without traffic: daemon's processor time, ms", "", guards["daemon_cpu_ms"]),
                 ("its commits", "", guards["commits"])]
    for name, times in result["latency_ms"].items():
        pages_of = "" if name.startswith("drift") or name.endswith("metrics") else ", all pages"
        rows.append((f"`{name}`{pages_of}, ms", "≤ 100" if "status" in name else "", "{median} ({min} to {max})".format(**times)))
    return "\n".join(["| what | goal | measured |", "| --- | --- | --- |", *(f"| {a} | {b} | {c} |" for a, b, c in rows)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("driftgate")
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--live", type=int, default=50)
    parser.add_argument("--rate", type=float, default=500, help="requests a second, nine tenths of them to the live canaries")
    parser.add_argument("--windows", type=int, default=6)
    parser.add_argument("--quiet", action="store_true", help="requests to the live canaries alone")
    parser.add_argument("--guards", type=int, default=0, help="so many of the other models are promoted first and have a guard")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--perf", help="record the daemon's processor time into this file (perf)")
    args = parser.parse_args()
    folder, stack = tempfile.mkdtemp(prefix="many-"), []
    try:
        result = measure(args, folder, stack)
        print(table(result) if args.table else json.dumps(result))
    finally:
        for end in reversed(stack):
            end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
