"""Prometheus scrapes a real daemon during a promotion: its queries answer the figures of the API, alerts fire when they
should, and every query of the dashboard is one that it understands over metrics that are there."""
import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.parse

from harness import ROOT, call, check, wait_for
from world import held_port, run

PROMETHEUS, PROMTOOL = os.environ.get("PROMETHEUS_BIN", "prometheus"), os.environ.get("PROMTOOL_BIN", "promtool")
RULES = os.path.join(ROOT, "configs", "prometheus", "driftgate.rules.yaml")
DASHBOARD = os.path.join(ROOT, "configs", "grafana", "driftgate.json")
PATIENCE_S = 60


class Prometheus:
    """Debian's Prometheus on loopback. The job driftgate has a token of a viewer, the job nobody has none."""

    def __init__(self, world):
        self.world = world
        target = world.url.removeprefix("http://")
        job = lambda name, **more: {"job_name": name, "static_configs": [{"targets": [target]}], **more}
        config = os.path.join(world.folder, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
                       "rule_files": [RULES], "scrape_configs": [
                           job("driftgate", authorization={"credentials_file": world.token_file("viewer")}), job("nobody")]}, file)
        with held_port() as holder:
            port = holder.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = world.process("prometheus", [
            PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={world.folder}/prometheus",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"])
        wait_for("Prometheus", self.is_ready, PATIENCE_S)

    def is_ready(self):
        check(self.process.alive(), f"Prometheus ended at its start:\n{self.process.tail()}")
        try:
            return call(self.url + "/-/ready").status == 200
        except OSError:
            return False

    def ask(self, path, **query):
        answer = call(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}")
        check(answer.status == 200, f"{path} {query}: {answer.status} {answer.body}")
        return answer.json()["data"]

    def query(self, text):
        """The series that the query answers, as (labels, number)."""
        return [(one["metric"], float(one["value"][1])) for one in self.ask("query", query=text)["result"]]

    def number(self, text):
        found = self.query(text)
        check(len(found) <= 1, f"{text} answers {found}")
        return found[0][1] if found else None

    def reaches(self, text, expected):
        wait_for(f"{text} to be {expected}; it is {self.number(text)}", lambda: self.number(text) == expected, PATIENCE_S)

    def firing(self):
        return {alert["labels"]["alertname"]: alert for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"}


def exposition(world):
    return world.api("GET", "/metrics")


def promtool_accepts(world):
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=exposition(world), capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S)
    check(done.returncode == 0 and not done.stdout + done.stderr, f"promtool check metrics: {done.returncode}\n{done.stdout}{done.stderr}")


def clauses_are_those_of(prometheus, report):
    """Every test of the report has its figures in Prometheus."""
    seen = {}
    for name in ("value", "limit", "e_value", "samples", "verdict"):
        for labels, number in prometheus.query(f'driftgate_clause_{name}{{model="tinylm", stage="canary", job="driftgate"}}'):
            key = (labels["clause"], labels.get("slice", ""), labels.get("kind", ""))
            seen.setdefault(key, {})[name] = labels["verdict"] if name == "verdict" else number
    check(len(seen) == len({(v["clause"], json.dumps(v["where"]), v["limit_kind"]) for v in report["verdicts"]}), f"tests: {list(seen)}")
    for told in report["verdicts"]:
        where = ";".join(f"{name}={value}" for name, value in sorted(told["where"].items()))
        shown = seen[(told["clause"], where, told["limit_kind"])]
        check(shown["verdict"] == told["verdict"] and shown["samples"] == told["n"], f"{told['clause']}: {shown}, the report has {told}")
        for name, member in (("value", "estimate"), ("limit", "threshold"), ("e_value", "e_value")):
            expected = told.get(member)
            if isinstance(expected, str):  # not finite
                continue
            same = shown.get(name) is None if expected is None else abs(shown[name] - expected) <= 1e-12 * abs(expected)
            check(same, f"{told['clause']}: {name} is {shown.get(name)}, the report has {expected}")


def queries_of_the_dashboard():
    with open(DASHBOARD, encoding="utf-8") as file:
        dashboard = json.load(file)
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        if "expr" in annotation:
            yield annotation["name"], annotation["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], re.fullmatch(r"label_values\((.*), \w+\)", variable["query"]["query"])[1]


def dashboard_is_answered(world, prometheus):
    known = set(re.findall(r"^# TYPE (\S+) ", exposition(world), re.M))
    known |= {f"{name}_{part}" for name in known for part in ("bucket", "sum", "count")}
    with open(RULES, encoding="utf-8") as file:
        known |= set(re.findall(r"record: (\S+)", file.read()))
    asked = 0
    for title, text in queries_of_the_dashboard():
        for variable, value in (("$__rate_interval", "1m"), ("$job", "driftgate"), ("$instance", ".*"), ("$model", ".*")):
            text = text.replace(variable, value)
        unknown = {name for name in re.findall(r"\bdriftgate[a-z0-9_:]*(?=[\[{ )]|$)", text)} - known
        check(not unknown, f"{title}: no such metrics: {unknown}")
        prometheus.query(text)
        asked += 1
    check(asked > 30, f"{asked} queries in the dashboard")


def prometheus_sees_a_canary_and_its_rollback(world):
    world.start_daemon()
    world.install_incumbent()
    later = os.path.join(world.folder, "fail")
    world.start_engine("int8", "int8", "--fail-share", "0.4", "--fail-file", later)
    world.register_engine("int8", "int8")
    prometheus = Prometheus(world)
    prometheus.reaches('driftgate_models{job="driftgate"}', 1)
    load = world.load()
    promotion = world.promote("int8", "int8")
    world.reach(promotion, ("running", "awaiting_approval"), "canary")
    share = wait_for("a share in canary", world.observed_share) / 10_000
    prometheus.reaches('driftgate_model_candidate_share_ratio{model="tinylm"}', share)
    wait_for("the stage", lambda: prometheus.query('driftgate_model_promotion{model="tinylm", stage="canary"}'), PATIENCE_S)
    check("DriftgateCanaryRolledBack" not in prometheus.firing(), "an alert before there is a reason for it")
    promtool_accepts(world)
    open(later, "w", encoding="ascii").close()
    world.reach(promotion, "rejected")
    prometheus.reaches('driftgate_promotions_ended_total{job="driftgate", outcome="rejected"}', 1)
    prometheus.reaches('driftgate_model_candidate_share_ratio{model="tinylm"}', 0)
    prometheus.reaches('driftgate_model_held{model="tinylm"}', 1)
    clauses_are_those_of(prometheus, world.report(promotion, "canary"))
    alert = wait_for("the alert", lambda: prometheus.firing().get("DriftgateCanaryRolledBack"), PATIENCE_S)
    check(alert["labels"]["model"] == "tinylm", f"the alert is {alert}")
    unexpected = {"DriftgateDown", "DriftgateNoRouter", "DriftgateCanaryUnseen", "DriftgateFolderHangs", "DriftgateRecordDiffers", "DriftgateLogNotPublished", "DriftgateGuardAlarms"} & set(prometheus.firing())
    check(not unexpected, f"alerts without a reason: {unexpected}")
    sent = load.stop()["requests"]
    counted = 'sum(driftgate_requests_total{job="driftgate", model="tinylm"})'
    wait_for(f"all {sent} requests; there are {prometheus.number(counted)}", lambda: prometheus.number(counted) == sent, PATIENCE_S)
    in_buckets = 'sum(driftgate_request_seconds_bucket{job="driftgate", model="tinylm", le="+Inf"})'
    answered = 'sum(driftgate_requests_total{job="driftgate", model="tinylm", outcome="ok"})'
    check(prometheus.number(in_buckets) == prometheus.number(answered), "a histogram has other requests than were answered")
    check(not prometheus.query('driftgate_model_held{job="nobody"}'), "models are named to those without a token")
    check([prometheus.number(f'driftgate_scrape_authenticated{{job="{job}"}}') for job in ("driftgate", "nobody")] == [1, 0],
          "whether a scrape has a token")
    check(prometheus.number('driftgate_models{job="nobody"}') == 1, "without a token there are no figures at all")
    promtool_accepts(world)
    dashboard_is_answered(world, prometheus)


def a_router_that_hangs_holds_no_scrape_up(world):
    """The pipeline then waits for the router's socket; what it told last is there, with its age."""
    world.start_daemon()
    world.install_incumbent()
    pid = int(re.findall(r"router started .*pid=(\d+)", world.daemon.tail())[-1])
    age = lambda: float(re.search(r"^driftgate_pipeline_seen_age_seconds (\S+)$", exposition(world), re.M)[1])
    wait_for("a round of the pipeline", lambda: 0 <= age() < 1, PATIENCE_S)
    longest = 0.0

    def grows():
        nonlocal longest
        began = time.monotonic()
        seen = age()
        longest = max(longest, time.monotonic() - began)
        return seen >= 1
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for("the pipeline's age to grow", grows, PATIENCE_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    check(longest < 1, f"a scrape took {longest:.2f} s, as long as the pipeline hung")
    wait_for("the pipeline to go on", lambda: age() < 1, PATIENCE_S)


def a_router_that_cannot_be_started_alerts_while_users_have_none(world):
    world.start_daemon()
    world.install_incumbent()
    prometheus = Prometheus(world)
    up, down = 'driftgate_router_up{job="driftgate"}', 'driftgate_router_down_seconds_total{job="driftgate"}'
    prometheus.reaches(up, 1)
    log = os.path.join(world.folder, "data", "router.log")
    os.rename(log, log + ".before")
    os.mkdir(log)  # a router whose log cannot be opened is not started
    os.kill(int(re.findall(r"router started .*pid=(\d+)", world.daemon.tail())[-1]), signal.SIGKILL)
    prometheus.reaches(up, 0)
    wait_for("the alert", lambda: "DriftgateNoRouter" in prometheus.firing(), PATIENCE_S)
    counted = prometheus.number(down)
    check(counted > 10, f"after 15 s without a router only {counted} s are counted")
    os.rmdir(log)
    prometheus.reaches(up, 1)
    check(prometheus.number(down) >= counted, "what was counted of the time without a router went back")
    check(world.complete().status == 200, "the next router does not serve")
    wait_for("the alert to end", lambda: "DriftgateNoRouter" not in prometheus.firing(), PATIENCE_S)


def a_backup_is_in_the_metrics_as_soon_as_it_is_made(world):
    """Scrapes look at no folder; what looks does so once a minute, and after a backup."""
    world.start_daemon()
    def newest():
        found = re.search(r"^driftgate_backup_timestamp_seconds (\S+)$", exposition(world), re.M)
        return found and float(found[1])
    wait_for("the first look at the folder", lambda: newest() is not None, PATIENCE_S)
    check(newest() == 0, f"there is a backup of {newest()}")
    began = time.time()
    world.api("POST", "/v1/backups", {"name": "first"}, who="operator", expect=201)
    wait_for("the backup", lambda: newest() >= began - 1, PATIENCE_S / 2)
    promtool_accepts(world)


TESTS = [
    prometheus_sees_a_canary_and_its_rollback,
    a_router_that_hangs_holds_no_scrape_up,
    a_router_that_cannot_be_started_alerts_while_users_have_none,
    a_backup_is_in_the_metrics_as_soon_as_it_is_made,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
