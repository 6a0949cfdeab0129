#!/usr/bin/env python3
"""Measures driftgate's router beside HAProxy and nginx in one run and prints tables in Markdown.

router.py DRIFTGATE ROUTER_BENCH [--rounds 7] [--seconds 1.5] [--threads 1,2] [--cases small-8,stream-32,…]
          [--idle-rounds 3] [--haproxy PROGRAM] [--nginx PROGRAM] [--telemetry read|leave] [--no-pin] [--json FILE]

The figure is the processor time of the proxy's processes, user and system, over the requests (of streams: the events)
that it passed on. In each round every proxy gets the same load from the same generator to the same engine, one after
another, and so does the engine itself ("direct"), so that added latency and ratios are those of one round. Tables have
the median over the rounds, with minimum and maximum. What is not installed is said and left out. Everything runs on
loopback, on free ports and in a temporary folder, within a time that is said at the start, and ends with this program.
bench/router_peers.py says how the proxies are set up and what driftgate's does beyond the others.
"""
import argparse
import collections
import contextlib
import json
import os
import platform
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import router_peers
import router_tables

Case = collections.namedtuple("Case", "name text shape connections rate")
CASES = ([Case(f"small-{n}", f"1 kB answers, {n} connection{'s' * (n > 1)}", "small", n, 0) for n in (1, 8, 32, 128, 512)]
         + [Case(f"prompt-{n}", f"10 kB prompts, {n} connections", "long-prompt", n, 0) for n in (8, 128)]
         + [Case("open-2000", "1 kB answers, 2,000 a second", "small", 64, 2000),
            Case("stream-32", "an event, 32 streams", "stream", 32, 0)])
EVENTS, GAP_US = 64, 2000  # of a stream, and between its events: 32 streams have 16,000 events a second
WARM_UP_S = 0.3
START_S, STOP_S = 10, 15  # what a process may take
WANTED_IDLE = 10_000
RESERVED_FILES = 600  # of a proxy, beside two descriptors for each connection
CLEAN_END = ("setpriv", "--pdeathsig", "TERM")  # a process ends with this one, however this one ends


def leave(what):
    sys.exit(f"router.py: {what}")


def raise_file_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def family(pid):
    """The process and all below it."""
    children = collections.defaultdict(list)
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
            children[int(file.read().rsplit(")", 1)[1].split()[1])].append(int(name))
    found = [pid]
    for one in found:
        found += children[one]
    return found


class Server:
    """A process that listens, in a process group of its own."""

    def __init__(self, command, folder, cpus, **pipes):
        self.name, self.log, self.port = os.path.basename(command[0]), os.path.join(folder, "log"), 0
        placed = [*CLEAN_END, "taskset", "-c", ",".join(map(str, cpus)), *command]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(placed, stdin=pipes.get("stdin", subprocess.DEVNULL), stderr=log,
                                            stdout=pipes.get("stdout", log), start_new_session=True)

    def fail(self, what):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            text = log.read()[-2000:]
        self.close()
        leave(f"{self.name} {what}; its log:\n{text}")

    def wait_until(self, condition, what):
        end = time.monotonic() + START_S
        while not condition():
            if self.process.poll() is not None:
                self.fail(f"ended with {self.process.returncode} before it {what}")
            if time.monotonic() > end:
                self.fail(f"has not {what} for {START_S} s")
            time.sleep(0.005)

    def accepts(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # what is left of the group
        self.process.wait()


class Engine(Server):
    """What stands behind all proxies."""

    def __init__(self, router_bench, folder, cpus):
        super().__init__([router_bench, "engine", "--events", str(EVENTS), "--gap-us", str(GAP_US)], folder, cpus,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            self.fail("ended before it listened")
        self.port = int(line)


class Control:
    """The control socket of driftgate's router: JSON in frames, each behind its length."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(START_S)
        self.socket.connect(path)

    def read(self, size):
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise OSError("the router closed its control socket")
            data += part
        return bytes(data)

    def ask(self, **request):
        text = json.dumps(request).encode()
        self.socket.sendall(struct.pack(">I", len(text)) + text)
        answer = self.read(struct.unpack(">I", self.read(4))[0])
        if b'"ok":true' not in answer:
            raise OSError(f"the router refuses {request['op']}: {answer[:500].decode(errors='replace')}")
        return answer


class TelemetryReader(threading.Thread):
    """Reads and acknowledges telemetry windows as the daemon does, since writing them costs the router time."""

    def __init__(self, path, router_id):
        super().__init__(daemon=True)
        self.control, self.router_id = Control(path), router_id
        self.ending, self.dropped, self.failure = threading.Event(), 0, None
        self.start()

    def run(self):
        newest = 0
        try:
            while not self.ending.wait(router_peers.WINDOW_MS / 1000):
                windows = self.control.ask(op="windows", after=newest, limit=16, router_id=self.router_id)
                self.dropped += sum(map(int, re.findall(rb'"dropped":(\d+)', windows)))
                newest = max(map(int, re.findall(rb'"number":(\d+)', windows)), default=newest)
                self.control.ask(op="acknowledge", number=newest, router_id=self.router_id)
        except OSError as failure:
            self.failure = failure

    def close(self):
        self.ending.set()
        self.join(START_S)
        self.control.socket.close()
        if self.dropped or self.failure:
            print(f"router.py: telemetry: {self.dropped} observations dropped, {self.failure or 'read to the end'}", file=sys.stderr)


class Proxy:
    """One of the proxies, running."""

    def __init__(self, name, program, place, settings):
        self.name, self.telemetry = name, None
        folder = tempfile.mkdtemp(prefix=name + "-", dir=place)
        port = router_peers.free_port()
        self.server = Server(router_peers.command(name, program, folder, port, settings), folder, settings.cpus)
        self.server.port = port
        if name == "driftgate":
            self.start_router(folder, settings)
        self.server.wait_until(self.server.accepts, "listened")
        pid, wanted = self.server.process.pid, router_peers.processes(name, settings)
        self.server.wait_until(lambda: len(family(pid)) == wanted, "started its processes")
        self.port, self.pids = self.server.port, family(pid)

    def start_router(self, folder, settings):
        port_file, control_path = os.path.join(folder, "port"), os.path.join(folder, "control")
        self.server.wait_until(lambda: os.path.exists(port_file) and os.path.exists(control_path), "listened")
        with open(port_file, encoding="ascii") as file:
            self.server.port = int(file.read())
        try:
            control = Control(control_path)
            control.ask(op="apply", route=router_peers.route(settings.engine_port))
            router_id = json.loads(control.ask(op="capabilities"))["router_id"]
            if settings.telemetry:
                self.telemetry = TelemetryReader(control_path, router_id)
        except OSError as failure:
            self.server.fail(f"cannot be told its route: {failure}")

    def close(self):
        if self.telemetry:
            self.telemetry.close()
        self.server.close()


def run_bench(options, cpus, limit_s, *arguments):
    """One run of router_bench; what it printed."""
    command = [*CLEAN_END, "taskset", "-c", ",".join(map(str, cpus)), options.router_bench, *map(str, arguments)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False, timeout=limit_s)
    if done.returncode:
        leave(f"router_bench {' '.join(map(str, arguments))} ended with {done.returncode}")
    return json.loads(done.stdout)


def measure(options, cpus, case, port, pids):
    arguments = ["load", "--port", port, "--shape", case.shape, "--connections", case.connections, "--rate", case.rate,
                 "--warm-up", WARM_UP_S, "--seconds", options.seconds, "--events", EVENTS]
    if pids:
        arguments += ["--pids", ",".join(map(str, pids))]
    seen = run_bench(options, cpus, options.seconds + 60, *arguments)
    kind, latency = ("events", "event_") if case.shape == "stream" else ("requests", "")
    if not seen[kind]:
        leave(f"{case.text}: nothing was answered within {options.seconds} s")
    ticks = seen["user_ticks"] + seen["system_ticks"]
    return {"cpu_us": seen["cpu_ns"] / 1e3 / seen[kind], "per_second": seen[kind] / seen["seconds"],
            "p50_us": seen[latency + "p50_us"], "p99_us": seen[latency + "p99_us"], "errors": seen["errors"],
            "system_share": seen["system_ticks"] / ticks if ticks else None, **{k: seen[k] for k in ("requests", "events")}}


def layout(options, threads):
    """(processors of the proxy, processors of all else): apart where there are enough of them."""
    if options.pin and len(options.cpus) > threads:
        return options.cpus[-threads:], options.cpus[:-threads]
    return options.cpus, options.cpus


def compare(options, place, programs, cases, threads):
    """{case: {target: [figures of each round]}}; each round begins with another target."""
    proxy_cpus, other_cpus = layout(options, threads)
    os.sched_setaffinity(0, other_cpus)
    figures = {case.name: collections.defaultdict(list) for case in cases}
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(contextlib.closing(Engine(options.router_bench, place, other_cpus)))
        settings = router_peers.Settings(threads, engine.port, options.files, proxy_cpus, options.telemetry == "read")
        targets = [("direct", engine.port, [])]
        for name, program in programs.items():
            proxy = stack.enter_context(contextlib.closing(Proxy(name, program, place, settings)))
            targets.append((name, proxy.port, proxy.pids))
        for turn in range(options.rounds):
            first = turn % len(targets)
            for case in cases:
                for name, port, pids in targets[first:] + targets[:first]:
                    figures[case.name][name].append(measure(options, other_cpus, case, port, pids))
            print(f"router.py: {threads} thread(s): round {turn + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}",
                  file=sys.stderr, flush=True)
    return figures


def idle_memory(options, place, programs):
    """{proxy: [figures of each round]}, each of a proxy that was just started."""
    proxy_cpus, other_cpus = layout(options, 1)
    os.sched_setaffinity(0, other_cpus)
    connections = min(WANTED_IDLE, (options.files - RESERVED_FILES) // 2)
    figures = collections.defaultdict(list)
    with contextlib.closing(Engine(options.router_bench, place, other_cpus)) as engine:
        settings = router_peers.Settings(1, engine.port, options.files, proxy_cpus, options.telemetry == "read")
        for _ in range(options.idle_rounds):
            for name, program in programs.items():
                with contextlib.closing(Proxy(name, program, place, settings)) as proxy:
                    figures[name].append(run_bench(options, other_cpus, 120, "idle", "--port", proxy.port, "--connections",
                                                   connections, "--pids", ",".join(map(str, proxy.pids))))
    return figures


def parsed_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("driftgate")
    parser.add_argument("router_bench")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5, help="measured of each case, proxy and round")
    parser.add_argument("--threads", default="1,2", help="of each proxy")
    parser.add_argument("--cases", default=",".join(case.name for case in CASES))
    parser.add_argument("--idle-rounds", type=int, default=3, help="of the memory for idle connections; 0: not measured")
    parser.add_argument("--haproxy", default="haproxy")
    parser.add_argument("--nginx", default="nginx")
    parser.add_argument("--telemetry", choices=("read", "leave"), default="read",
                        help="whether the router's telemetry is read, as the daemon does")
    parser.add_argument("--no-pin", dest="pin", action="store_false",
                        help="do not keep the proxy and what drives it on processors of their own")
    parser.add_argument("--json", help="a file that gets every figure of every round")
    options = parser.parse_args()
    options.cpus = sorted(os.sched_getaffinity(0))
    options.files = raise_file_limit()
    return options


def installed(options):
    """{proxy: program}; says which is missing."""
    programs = {}
    for name in router_peers.NAMES:
        program = router_peers.find(name, getattr(options, name))
        if program:
            programs[name] = program
            print(f"- {router_peers.version(name, program)}")
        elif name == "driftgate":
            leave(f"there is no program {options.driftgate}")
        else:
            print(f"- {name} is not installed and left out")
    return programs


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine())


def limit_time(options, cases, programs, threads):
    """Says how long it takes at most, and ends the program when that is over."""
    runs = len(threads) * options.rounds * len(cases) * (1 + len(programs))
    planned = runs * (options.seconds + WARM_UP_S + 0.2) + options.idle_rounds * len(programs) * 10
    limit = int(2 * planned + 120)

    def stop(number, _):
        leave("SIGTERM" if number == signal.SIGTERM else f"not done within {limit} s; the machine is too busy")
    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGTERM, stop)
    signal.alarm(limit)
    print(f"router.py: about {planned / 60:.0f} min, at most {limit / 60:.0f} min", file=sys.stderr, flush=True)


def main():
    options = parsed_options()
    threads = [int(n) for n in options.threads.split(",")]
    chosen = options.cases.split(",")
    unknown = set(chosen) - {case.name for case in CASES}
    if unknown:
        leave(f"no such cases: {', '.join(sorted(unknown))}; there are {', '.join(case.name for case in CASES)}")
    cases = [case for case in CASES if case.name in chosen]
    load = os.getloadavg()[0]
    print(f"{len(options.cpus)} processors ({processor()}), Linux {platform.release()}, load {load:.1f} at the start"
          f"{': **the machine was not idle**' if load > 0.5 else ''}; {options.rounds} rounds of {options.seconds} s, "
          f"telemetry {'read' if options.telemetry == 'read' else 'not read'}.\n")
    programs = installed(options)
    limit_time(options, cases, programs, threads)
    everything, peers = {"load_before": load, "threads": {}}, list(programs)
    with tempfile.TemporaryDirectory(prefix="router-bench-") as place:
        for count in threads:
            figures = everything["threads"][count] = compare(options, place, programs, cases, count)
            pinned = options.pin and len(options.cpus) > count
            print(f"\n{count} thread{'s' * (count > 1)}, {'on processors of their own' if pinned else 'not pinned'}:\n")
            for make in (router_tables.processor_time, router_tables.latency, router_tables.throughput):
                print(make(cases, figures, peers), end="\n\n", flush=True)
        if options.idle_rounds:
            everything["idle"] = idle_memory(options, place, programs)
            print(router_tables.memory(everything["idle"]), flush=True)
    everything["load_after"] = os.getloadavg()[0]
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(everything, file, indent=1)
    errors = sum(f["errors"] for of_case in everything["threads"].values() for targets in of_case.values()
                 for rounds in targets.values() for f in rounds)
    closed = sum(f["closed"] for rounds in everything.get("idle", {}).values() for f in rounds)
    print(f"\nLoad {everything['load_after']:.1f} at the end; {errors} wrong answers, {closed} idle connections closed.")
    return 1 if errors or closed else 0


if __name__ == "__main__":
    sys.exit(main())
