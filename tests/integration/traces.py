"""Traces of promotions arrive at an OpenTelemetry collector: a stand-in here that speaks TLS, asks for a key, is overloaded
at first, and takes nothing that is not OTLP's JSON (opentelemetry-proto, by the JSON rules of the OTLP specification)."""
import http.server
import json
import os
import re
import ssl
import subprocess
import threading
import time

from harness import check, wait_for
from world import World, run

KEY = "collector-key-1"
PATIENCE_S = 60
ANY = {"stringValue": "string", "boolValue": "bool", "intValue": "int64", "doubleValue": "double", "arrayValue": {"values": ["ANY"]}}
KEY_VALUE = {"key": "string", "value": "ANY"}
SCOPE = {"name": "string", "version": "string", "attributes": [KEY_VALUE], "droppedAttributesCount": "uint32"}
RESOURCE = {"attributes": [KEY_VALUE], "droppedAttributesCount": "uint32"}
SPAN = {"traceId": "trace", "spanId": "span", "traceState": "string", "parentSpanId": "span", "flags": "uint32", "name": "string",
        "kind": "enum6", "startTimeUnixNano": "int64", "endTimeUnixNano": "int64", "attributes": [KEY_VALUE],
        "droppedAttributesCount": "uint32", "status": {"message": "string", "code": "enum3"}}
RECORD = {"timeUnixNano": "int64", "observedTimeUnixNano": "int64", "severityNumber": "enum25", "severityText": "string",
          "body": "ANY", "attributes": [KEY_VALUE], "droppedAttributesCount": "uint32", "flags": "uint32", "traceId": "trace",
          "spanId": "span", "eventName": "string"}
TRACES = {"resourceSpans": [{"resource": RESOURCE, "scopeSpans": [{"scope": SCOPE, "spans": [SPAN], "schemaUrl": "string"}],
                             "schemaUrl": "string"}]}
LOGS = {"resourceLogs": [{"resource": RESOURCE, "scopeLogs": [{"scope": SCOPE, "logRecords": [RECORD], "schemaUrl": "string"}],
                          "schemaUrl": "string"}]}
SHAPES = {
    "string": lambda v: isinstance(v, str), "bool": lambda v: isinstance(v, bool),
    "int64": lambda v: isinstance(v, str) and re.fullmatch(r"-?\d{1,19}", v),
    "uint32": lambda v: isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 2**32,
    "double": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool) or v in ("NaN", "Infinity", "-Infinity"),
    "trace": lambda v: isinstance(v, str) and re.fullmatch(r"[0-9a-f]{32}", v) and set(v) != {"0"},
    "span": lambda v: isinstance(v, str) and re.fullmatch(r"[0-9a-f]{16}", v) and set(v) != {"0"},
}


def faults(value, shape, where=""):
    """What the value has against the message; enums are numbers, and fields that the message does not have are faults."""
    if shape == "ANY":
        one = isinstance(value, dict) and len(value) == 1
        return faults(value, ANY, where) if one else [f"{where}: not one value: {value}"]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{where}: no list"]
        return [fault for i, item in enumerate(value) for fault in faults(item, shape[0], f"{where}[{i}]")]
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{where}: no object"]
        return [fault for name, item in value.items() for fault in
                (faults(item, shape[name], f"{where}.{name}") if name in shape else [f"{where}: no field '{name}'"])]
    if shape.startswith("enum"):
        return [] if SHAPES["uint32"](value) and value < int(shape[4:]) else [f"{where}: {value!r} is no {shape}"]
    return [] if SHAPES[shape](value) else [f"{where}: {value!r} is no {shape}"]


def plain(item):
    return {one["key"]: next(iter(one["value"].values())) for one in item["attributes"]}


class Collector:
    def __init__(self, folder):
        self.lock, self.faults, self.requests, self.spans, self.events = threading.Lock(), [], 0, [], []
        self.ca = os.path.join(folder, "collector.pem")
        key = os.path.join(folder, "collector.key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                        "-out", self.ca, "-days", "2", "-subj", "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1"],
                       check=True, capture_output=True)
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, more = collector.take(self.path, self.headers, body)
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.ca, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, headers, body):
        with self.lock:
            self.requests += 1
            if headers["authorization"] != f"Bearer {KEY}":
                self.faults.append(f"the key is {headers['authorization']}")
                return 401, {}
            if self.requests == 1:
                return 503, {"Retry-After": "0"}
            read = json.loads(body)
            self.faults += faults(read, {"/v1/traces": TRACES, "/v1/logs": LOGS}[path])
            for resource in read.get("resourceSpans", []):
                self.spans += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
            for resource in read.get("resourceLogs", []):
                self.events += [record for scope in resource["scopeLogs"] for record in scope["logRecords"]]
            return 200, {}

    def seen(self):
        with self.lock:
            check(not self.faults, f"what came is not OTLP: {self.faults[:5]}")
            return list(self.spans), list(self.events)


class Traced(World):
    def __init__(self, name):
        super().__init__(name)
        self.collector = Collector(self.folder)
        key = os.path.join(self.folder, "otlp.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(KEY + "\n")
        self.settings = {"otlp.endpoint": self.collector.url, "otlp.key_file": key, "otlp.ca_file": self.collector.ca}


def a_rejected_promotion_is_a_trace_with_its_verdicts(world):
    world.start_daemon()
    world.install_incumbent()
    world.start_engine("int8-static", "int8-static")
    world.register_engine("int8-static", "int8-static")
    promotion = world.promote("int8-static", "int8-static")
    done = world.reach(promotion, "rejected")
    ends = lambda: [span for span in world.collector.seen()[0] if span["name"] == "promotion"]
    root = wait_for("the promotion's span", ends, PATIENCE_S)[0]
    reports = {stage["stage"]: world.report(promotion, stage["stage"]) for stage in done["stages"] if stage["verdict"]}
    told = sum(len(report["verdicts"]) for report in reports.values())
    wait_for("the events of all verdicts", lambda: len(world.collector.seen()[1]) == told, PATIENCE_S)
    spans, events = world.collector.seen()
    about = plain(root)
    check("parentSpanId" not in root and about["driftgate.promotion.id"] == promotion, f"the root is {root}")
    check(about["driftgate.outcome"] == "rejected" and about["gen_ai.request.model"] == "tinylm", f"the root is {about}")
    check(int(root["startTimeUnixNano"]) == done["created_us"] * 1000, f"it began at {root['startTimeUnixNano']}, not {done['created_us']}")
    stages = {plain(span)["driftgate.stage"]: span for span in spans if "parentSpanId" in span}
    check(set(stages) == set(reports) and len(spans) == len(stages) + 1, f"spans: {[span['name'] for span in spans]}")
    for span in spans:
        check(span["traceId"] == root["traceId"], "two traces of one promotion")
        check(int(root["startTimeUnixNano"]) <= int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
              <= int(root["endTimeUnixNano"]), f"{span['name']} lasts longer than its promotion")
    for name, span in stages.items():
        check(span["parentSpanId"] == root["spanId"] and plain(span)["driftgate.verdict"] == reports[name]["verdict"], f"{span}")
        sent = sorted((plain(e)["gen_ai.evaluation.name"], plain(e)["gen_ai.evaluation.score.label"]) for e in events if e["spanId"] == span["spanId"])
        check(sent == sorted((v["clause"], v["verdict"]) for v in reports[name]["verdicts"]), f"the verdicts of {name} are {sent}")
    check(len({plain(event)["driftgate.evidence.seq"] for event in events}) == told, "events that cannot be told apart")
    check({event["eventName"] for event in events} == {"gen_ai.evaluation.result"}, "events of other names")
    metric = lambda name: float(re.search(rf"^{re.escape(name)} (\S+)$", world.api("GET", "/metrics"), re.M)[1])
    check(metric('driftgate_otlp_sent_total{signal="spans"}') == len(spans), "the metric of spans")
    check(metric("driftgate_otlp_dropped_total") == 0 and metric("driftgate_otlp_queue") == 0, "something was dropped or waits")


def a_collector_that_is_away_holds_no_promotion_up(world):
    world.collector.server.shutdown()
    world.collector.server.server_close()
    world.start_daemon()
    world.install_incumbent()
    world.start_engine("int8-static", "int8-static")
    world.register_engine("int8-static", "int8-static")
    promotion = world.promote("int8-static", "int8-static")
    world.reach(promotion, "rejected")
    check(world.daemon.stop() == 0, "the daemon waits for the collector at its end")


def a_collector_that_hangs_does_not_hold_the_daemon_up_at_its_end(world):
    """It is connected to and says nothing. One attempt lasts 10 s, and several are left when the daemon ends."""
    world.collector.server.shutdown()
    world.start_daemon()
    world.install_incumbent()
    world.start_engine("int8-static", "int8-static")
    world.register_engine("int8-static", "int8-static")
    world.reach(world.promote("int8-static", "int8-static"), "rejected")
    began = time.monotonic()
    check(world.daemon.stop() == 0, "the daemon did not end in order")
    took = time.monotonic() - began
    check(took < 8, f"the daemon took {took:.1f} s to end")
    check("the daemon stops" in world.daemon.tail(), "nothing was under way to the collector, so that nothing was shown")


TESTS = [
    a_rejected_promotion_is_a_trace_with_its_verdicts,
    a_collector_that_is_away_holds_no_promotion_up,
    a_collector_that_hangs_does_not_hold_the_daemon_up_at_its_end,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS}, make=Traced)
