"""A night of schedules: night.py SEED. 20 models with three candidates each, under a clock that this program moves (the
daemon of main.cpp), over the changes of the clock in spring and in autumn. Expressions, zones, policies, blackouts, holds,
approvals and changes by people follow from the seed; the daemon is killed at every hour. At the end every fire time is
accounted for once, with a reason that was true, in the log, the database, the report and the messages to webhooks."""
import collections
import contextlib
import datetime
import http.server
import json
import os
import random
import select
import sqlite3
import subprocess
import sys
import threading
import time

ROOT = os.environ["DRIFTGATE_ROOT"]
sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))
from harness import DRIFTGATE, PATIENCE_S, TINYLM, check, wait_for  # noqa: E402
from world import DATA, MODEL_DIR, World  # noqa: E402
import oracle  # noqa: E402

NIGHT = os.environ["DRIFTGATE_NIGHT"]
MODELS, CANDIDATES = 20, ("c1", "c2", "c3")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Europe/London", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Chatham")
NIGHTS = ("2027-03-27", "2027-10-30")  # the clock changes in Europe on the next day
REPORT = "0 7 * * * Europe/Berlin"
SECOND = 1_000_000
STEPS, STEP_S = 14, 2  # after a fire time, while promotions go on

CONTRACT = """
apiVersion: driftgate/v1
kind: KernelContract
metadata: {{name: {name}}}
kernels: {{train: {{ref: tinylm-f32}}, inf: {{ref: tinylm-bf16}}}}
numerical:
  - {{id: finite, metric: nonfinite, aggregate: sum, max: 0}}{clause}
runtime:
  - {{id: errors, metric: error_rate, max: 0.2, max_ratio: 1.5, stages: [canary]}}
stages:
  canary:
    steps: [{{share: 0.3{approval}}}, {{share: 1.0}}]
    soak: 1s
    bake: 1s
    holdback: 0.01
    min_keys: 60
    max_duration: 6h
    approval_deadline: 2h
    telemetry: {{freeze_after: 30m, revert_after: 2h}}
confidence: {{alpha: 0.05, alpha_harm: 0.01, alpha_advance: 0.05}}
escalation: {{defaults: {{hard: rollback, soft: log}}}}
"""
CONTRACTS = {
    "quick": {"clause": "", "approval": ""},
    "asked": {"clause": "", "approval": ", approval: true"},
    "strict": {"clause": "\n  - {id: span, metric: logit_span, aggregate: p90, max: 0.000000001}", "approval": ""},
}


def seconds_of(text, hour=0):
    return int(datetime.datetime.fromisoformat(text).replace(hour=hour, tzinfo=oracle.UTC).timestamp())


class Receiver:
    """A webhook endpoint that keeps each message once."""

    def __init__(self):
        self.messages = {}
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.messages[self.headers["webhook-id"]] = json.loads(body)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def of_type(self, name):
        return [message for message in self.messages.values() if message["type"] == name]


class NightWorld(World):
    """A world whose daemon lives in simulated time; `now` is its second."""

    def __init__(self, seed):
        super().__init__(f"night{seed}")
        self.random = random.Random(seed)
        self.now = 0
        self.ticks = []  # seconds at which the daemon decided what was due
        self.night = None

    def boot(self):
        config = os.path.join(self.folder, "driftgate.yaml")
        with open(config, "w", encoding="utf-8") as handle:
            handle.write(self.settings_text())
        with open(os.path.join(self.folder, "daemon.log"), "ab") as log:
            self.night = subprocess.Popen([NIGHT, "--config", config, "--time", str(self.now * SECOND)], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1)
        port = self.answer()["port"]
        self.url = f"http://127.0.0.1:{port}"
        if not self.tokens:
            self.issue_tokens()

    def answer(self):
        ready, _, _ = select.select([self.night.stdout], [], [], PATIENCE_S)
        line = self.night.stdout.readline() if ready else ""
        check(line, f"the daemon of the night does not answer:\n{self.log_tail()}")
        return json.loads(line)

    def log_tail(self):
        with open(os.path.join(self.folder, "daemon.log"), encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-30:])

    def tell(self, failing):
        self.night.stdin.write(f"advance {self.now * SECOND} {' '.join(sorted(failing))}\n")

    def advance(self, second, failing=()):
        check(second >= self.now, "time goes back")
        self.now = second
        self.tell(failing)
        opened = self.answer()["open"]
        self.ticks.append(second)
        return opened

    def set_clock(self, second):
        """The clock goes on, but the daemon has not looked at it yet."""
        self.now = second
        self.night.stdin.write(f"clock {second * SECOND}\n")
        self.answer()

    def kill(self, in_mid_step=False, failing=()):
        """As kill -9; in the middle of what a step does when asked."""
        if in_mid_step:
            self.tell(failing)
            time.sleep(self.random.random() * 0.03)  # the instant is what is drawn
        self.night.kill()
        self.night.wait(timeout=PATIENCE_S)
        for pipe in (self.night.stdin, self.night.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def close(self, failed=False):
        if self.night and self.night.poll() is None:
            self.kill()
        super().close(failed)


class Night:
    def __init__(self, world):
        self.world, self.random = world, world.random
        self.definitions = oracle.Definitions()
        self.revisions, self.specs = {}, {}
        self.failing, self.able = set(), {"ada", "bob"}
        self.down, self.hasty, self.dark = [], {}, {}

    # --- what there is ---------------------------------------------------------------------------
    def set_up(self):
        world = self.world
        small = os.path.join(world.folder, "small.jsonl")
        with open(f"{DATA}/numeric.jsonl", encoding="utf-8") as whole, open(small, "w", encoding="utf-8") as part:
            part.writelines(line for _, line in zip(range(48), whole))
        for kernel in ("f32", "bf16"):
            subprocess.run([TINYLM, "capture", "--model", MODEL_DIR, "--kernel", kernel, "--corpus", small, "--positions", "4",
                            "--out", f"{world.folder}/{kernel}.safetensors"], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
        world.start_engine("f32", "f32")
        candidate = world.start_engine("c1", "bf16")
        world.engines.update({name: candidate for name in CANDIDATES})
        self.receiver = Receiver()
        secret = os.path.join(world.folder, "secret")
        subprocess.run([DRIFTGATE, "key", "generate", "--use", "webhook", "--out", secret], check=True, timeout=PATIENCE_S,
                       stdout=subprocess.DEVNULL)
        world.settings.update({
            "webhooks.endpoints": {"ops": {"url": self.receiver.url, "secret_file": secret, "events": ["schedule.*"]}},
            "webhooks.allowed_hosts": ["127.0.0.1"], "schedule.report": REPORT, "jobs.slots": 2, "jobs.threads": 1,
            "schedule.blackouts": self.blackouts()})
        world.now = seconds_of(NIGHTS[0], 11)
        world.boot()
        world.register_engine("f32", "f32")
        for name in CANDIDATES:
            world.register_engine(name, "bf16")
        for name, parts in CONTRACTS.items():
            text = CONTRACT.format(name=name, **parts)
            world.api("POST", "/v1/contracts", text, who="promoter", headers={"Content-Type": "application/yaml"}, expect=201)
        for name in ("ada", "bob"):
            self.issue(name)
        for model in self.models():
            world.api("POST", "/v1/models", {"name": model, "engine": "f32", "reason": "first version"}, who="operator", expect=201)
            for candidate in CANDIDATES:
                self.create(f"{model}-{candidate}", self.spec(model, candidate))

    def issue(self, name):
        issued = self.world.api("POST", "/v1/tokens", {"name": name, "scopes": ["promoter"]}, who="admin", expect=201)
        self.world.tokens[name] = issued["bearer"]
        self.able.add(name)

    def models(self):
        return [f"m{i:02}" for i in range(MODELS)]

    def blackouts(self):
        """Of six models and of all. One schedule of each of the six fires in its blackout, so that every night tries one."""
        draw = self.random
        zone = lambda: draw.choice(ZONES)
        self.dark = {model: (f"{draw.randrange(60)} {draw.randrange(24)} * * *", zone()) for model in draw.sample(self.models(), 6)}
        return [f"{cron} {draw.choice(('45m', '1h30m', '2h'))} {where} {model}" for model, (cron, where) in self.dark.items()] + \
            [f"{draw.randrange(60)} {draw.randrange(24)} * * * 20m {zone()}"]

    def expression(self):
        draw, minute = self.random, self.random.choice((0, 0, 15, 30, self.random.randrange(60)))
        hour = draw.randrange(24)
        return draw.choice((f"{minute} {hour} * * *", f"{minute} {hour} * * *", f"{minute} {hour} * * *",
                            f"{minute} 1-3 * * *", f"5,35 {draw.choice((1, 2))} * * *", f"{minute} {hour} * * sat,sun",
                            f"{minute} {hour} 28,31 * sun", f"{minute} */8 * * *"))

    def spec(self, model, candidate):
        draw = self.random
        zone = draw.choice(ZONES)
        shared = self.specs.get(f"{model}-c1")
        cron = shared["cron"] if shared and draw.random() < 0.3 else self.expression()
        if shared and cron == shared["cron"]:
            zone = shared["zone"]
        if candidate == "c2" and model in self.dark:
            cron, zone = self.dark[model]
        return {"cron": cron, "zone": zone, "model": model, "engine": candidate,
                "contract": draw.choice(("quick", "quick", "quick", "asked", "strict")),
                "misfire": draw.choice(("skip", "run_once")), "grace_s": draw.choice((600, 3_600, 7_200)),
                "if_running": draw.choice(("skip", "queue")), "owner": draw.choice(("ada", "bob", "bob"))}

    def body(self, spec):
        captures = {"numeric": {"train": f"{self.world.folder}/f32.safetensors", "inf": f"{self.world.folder}/bf16.safetensors",
                                "corpus": f"{self.world.folder}/small.jsonl"}}
        return {"cron": spec["cron"], "timezone": spec["zone"], "misfire": spec["misfire"], "grace_s": spec["grace_s"],
                "if_running": spec["if_running"], "promotion": {"model": spec["model"], "engine": spec["engine"],
                                                                "contract": spec["contract"], "captures": captures}}

    def note(self, name, active, spec):
        self.specs[name] = spec
        self.definitions.set(self.world.now, name, active, **spec)

    def owned(self, spec):
        return spec if spec["owner"] in self.able else {**spec, "owner": "bob"}

    # --- what people do --------------------------------------------------------------------------
    def create(self, name, spec):
        spec = self.owned(spec)
        made = self.world.api("POST", "/v1/schedules", {"name": name, **self.body(spec)}, who=spec["owner"], expect=201)
        check(made["revision"] > self.revisions.get(name, 0), f"{name} began again at revision {made['revision']}")
        self.revisions[name] = made["revision"]
        self.note(name, True, spec)

    def change(self, name, spec):
        spec = self.owned(spec)
        made = self.world.api("PUT", f"/v1/schedules/{name}", self.body(spec), who=spec["owner"], expect=200, headers={"If-Match": "*"})
        self.revisions[name] = made["revision"]
        self.note(name, True, spec)

    def pause(self, name, paused):
        made = self.world.api("POST", f"/v1/schedules/{name}/{'pause' if paused else 'resume'}", who="operator", expect=200,
                              headers={"If-Match": "*"})
        self.revisions[name] = made["revision"]
        self.note(name, not paused, self.specs[name])

    def delete(self, name):
        self.world.api("DELETE", f"/v1/schedules/{name}", who="promoter", expect=204, headers={"If-Match": "*"})
        self.note(name, False, self.specs[name])

    def make_again(self, name):
        """A schedule of a name that there was: an old tag never fits it, and it has no old fires."""
        old = self.revisions[name]
        self.create(name, self.specs[name])
        fires = self.world.api("GET", f"/v1/schedules/{name}", expect=200)["fires"]
        check(fires == [], f"{name} was just made and has fires: {fires}")
        for revision in range(1, old + 1):
            stale = self.world.api("DELETE", f"/v1/schedules/{name}", who="promoter", headers={"If-Match": f'"{revision}"'})
            check(stale["code"] == "precondition_failed", f"the tag {revision} of a deleted schedule fits a new one: {stale}")

    def attend(self):
        """People look after what waits for them, or do not."""
        world = self.world
        for one in world.api("GET", "/v1/promotions?needs=true&limit=500", expect=200)["items"]:
            if one["state"] == "awaiting_approval" and self.random.random() < 0.3:
                shown = world.promotion(one["id"])
                world.api("POST", f"/v1/promotions/{one['id']}/approve",
                          {"evidence_digest": shown["approval"]["evidence_digest"], "reason": "read"}, who="approver", expect=200)
        for one in world.api("GET", "/v1/status?limit=500", expect=200)["items"]:
            if one["hold"] and self.random.random() < 0.3:
                world.api("POST", f"/v1/models/{one['model']}/lift-hold", {"reason": "mended"}, who="operator", expect=200)

    def deeds(self, start):
        """What people do in a night, by time: (second, what)."""
        draw, names = self.random, sorted(self.specs)
        when = lambda low=1, high=22: start + draw.randrange(low * 3_600, high * 3_600)
        changed, paused, deleted = draw.sample(names, 3)
        pause_at, delete_at = when(high=12), when(high=12)
        token_at = when(8, 16)
        due = [(fire, name) for name, fire in self.definitions.expected(start, start + 86_400)
               if name not in (changed, paused, deleted)]
        self.hasty.update(dict(draw.sample(sorted(due), 8)))
        return sorted([
            (when(), lambda: self.change(changed, {**self.specs[changed], "cron": self.expression(), "zone": draw.choice(ZONES)})),
            (pause_at, lambda: self.pause(paused, True)), (pause_at + draw.randrange(1, 8) * 3_600, lambda: self.pause(paused, False)),
            (delete_at, lambda: self.delete(deleted)), (delete_at + draw.randrange(60, 18_000), lambda: self.make_again(deleted)),
            (token_at, self.revoke), (token_at + draw.randrange(1, 6) * 3_600, lambda: self.issue("ada")),
        ], key=lambda deed: deed[0])

    def interfere(self, fire):
        """Somebody changes a schedule at the second at which it is due; whether it was decided before is a race."""
        name = self.hasty.pop(fire)
        if name not in self.specs:
            return
        self.world.set_clock(fire)
        what = self.random.randrange(3)
        if what == 0:
            self.change(name, {**self.specs[name], "misfire": self.random.choice(("skip", "run_once"))})
        elif what == 1:
            self.pause(name, True)
            self.pause(name, False)
        else:
            self.delete(name)
            self.make_again(name)

    def revoke(self):
        for token in self.world.api("GET", "/v1/tokens", who="admin", expect=200)["items"]:
            if token["name"] == "ada" and not token.get("revoked_us"):
                self.world.api("DELETE", f"/v1/tokens/{token['id']}", who="admin", expect=204)
        self.able.discard("ada")

    # --- time ------------------------------------------------------------------------------------
    def settle(self):
        """Lets the promotions that the newest fire times began go on for a while."""
        seen, same = None, 0
        for _ in range(STEPS):
            if self.world.advance(self.world.now + STEP_S, self.failing) == 0:
                return
            states = [(one["id"], one["state"], one["stage"], one["share_bp"])
                      for one in self.world.api("GET", "/v1/promotions?open=true&limit=500", expect=200)["items"]]
            same = same + 1 if states == seen else 0
            seen = states
            if same == 3:
                return

    def restart(self, down_s, in_mid_step):
        self.world.kill(in_mid_step, self.failing)
        self.down.append((self.world.now, self.world.now + down_s))
        self.world.now += down_s
        self.world.boot()
        self.world.advance(self.world.now, self.failing)

    def run(self, start, hours):
        """A night of so many hours: every fire time, every hour a kill, and what people do."""
        draw, world = self.random, self.world
        deeds = self.deeds(start)
        kills = [start + hour * 3_600 + draw.choice((0, 0, draw.randrange(3_600))) for hour in range(1, hours)]
        end = start + hours * 3_600
        self.failing = set(draw.sample(self.models(), 5))
        while world.now < end:
            until = min([end, *(deed[0] for deed in deeds[:1]), *kills[:1]])
            due = self.definitions.expected(world.now, max(world.now, until))
            fire = min((second for _, second in due), default=None)
            if fire is not None:
                if self.hasty.get(fire) is not None and fire > world.now:
                    self.interfere(fire)
                if kills and draw.random() < 0.02:  # killed while it decides
                    world.now = max(world.now, fire)
                    self.restart(draw.choice((0, 1, 5)), True)
                else:
                    world.advance(max(world.now, fire + draw.choice((0, 1, draw.randrange(30)))), self.failing)
                self.settle()
                continue
            world.advance(max(world.now, until), self.failing)
            while deeds and deeds[0][0] <= world.now:
                deeds.pop(0)[1]()
            while kills and kills[0] <= world.now:
                kills.pop(0)
                self.restart(draw.choice((0, 2, 20, 40, draw.randrange(300, 7_200)) if draw.random() < 0.5 else (0, 3)), draw.random() < 0.5)
            self.attend()

    # --- what it came to -------------------------------------------------------------------------
    def entries(self):
        found, after = [], ""
        while True:
            page = self.world.api("GET", f"/v1/evidence?limit=500{after}", who="auditor", expect=200)
            found += page["items"]
            if not page["next"]:
                return found
            after = f"&after={page['next']}"

    def check_truth(self, entry, log, definition):
        """The reason of a decision holds in the world as the log has it at its entry."""
        body, why = entry["body"], entry["body"]["why"]
        decided, fire, model = entry["time_us"] // SECOND, body["fire_us"] // SECOND, definition["model"]
        late = decided - fire
        grace = max(oracle.ON_TIME_S, definition["grace_s"] if definition["misfire"] == "run_once" else 0)
        others = [promotion for promotion, of in log.open.items() if of == model and promotion != entry["subject"].get("promotion")]
        dark = any(oracle.blackout_covers(text, model, decided) for text in self.world.settings["schedule.blackouts"])
        says = f"{body['schedule']} at {oracle.at(fire, oracle.UTC)}, decided {late} s late: {json.dumps(body)}"
        if entry["kind"] == "schedule_fired":
            check(late <= grace and (why == "late") == (late > oracle.ON_TIME_S), f"fired too late: {says}")
            check(not dark, f"fired in a blackout: {says}")
            check(definition["if_running"] == "queue" or not others, f"fired beside {others}: {says}")
            check(not log.withdrawn(definition["owner"]), f"fired for who may no more: {says}")
            check(not log.held.get(model) and log.serving[model] != definition["engine"], f"fired although refused: {says}")
            return
        reason = body["reason"]
        truths = {
            "misfire": late > grace,
            "blackout": dark and late <= grace,
            "running": definition["if_running"] == "skip" and bool(others) and any(one in reason for one in others),
            "owner_revoked": log.withdrawn(definition["owner"]) and definition["owner"] in reason,
            "refused": ("on hold" in reason and log.held.get(model)) or
                       ("is the incumbent" in reason and log.serving[model] == definition["engine"]),
            "changed": any(one["from"] == decided for one in self.definitions.of[body["schedule"]]),
        }
        check(truths.get(why), f"skipped for a reason that is not true: {says}; serving {log.serving[model]}, "
                               f"held {log.held.get(model)}, open {others}")

    def account(self, start, end):
        """Every fire time is decided once; returns {(schedule, fire): what came of it}."""
        expected, log = self.definitions.expected(start, end), oracle.Log()
        decided, covered, by_why = {}, {}, collections.Counter()
        for entry in self.entries():
            log.see(entry)
            if entry["kind"] not in ("schedule_fired", "schedule_skipped"):
                continue
            body = entry["body"]
            name, fire = body["schedule"], body["fire_us"] // SECOND
            check((name, fire) in expected, f"{name} has no fire time at {oracle.at(fire, oracle.UTC)}: {body}")
            check((name, fire) not in decided and (name, fire) not in covered, f"{name} at {fire} was decided twice")
            decided[name, fire] = entry
            by_why[body["why"]] += 1
            definition = expected[name, fire]
            check(body["owner"] == definition["owner"] and body["cron"] == definition["cron"], f"another definition: {body}")
            self.check_truth(entry, log, definition)
            missed = [other for other in oracle.fires_between(definition["cron"], definition["zone"],
                                                              body.get("missed_from_us", body["fire_us"]) // SECOND - 1, fire - 1)]
            check(len(missed) == body["missed"] or body["missed"] == 500, f"{len(missed)} were missed, not {body['missed']}: {body}")
            for other in missed:
                check((name, other) not in decided and (name, other) not in covered, f"{name} at {other} was decided twice")
                covered[name, other] = entry
                by_why["missed"] += 1
        missing = expected.keys() - decided.keys() - covered.keys()
        check(not missing, f"nothing is known of {[(n, str(oracle.at(f, oracle.UTC))) for n, f in sorted(missing)][:5]}")
        seconds = entry["time_us"] // SECOND
        check(seconds <= end, "the log is ahead of the night")
        for (name, fire), entry in {**decided, **covered}.items():
            late = [tick for tick in self.world.ticks if fire <= tick < entry["time_us"] // SECOND]
            check(not late, f"{name} at {fire} was due at {late[:3]} and decided at {entry['time_us'] // SECOND}")
        return decided, covered, by_why

    def compare(self, decided, covered, start, end):
        """Database, report and schedules say what the log says."""
        database = sqlite3.connect(f"file:{self.world.folder}/data/driftgate.db?mode=ro", uri=True)
        rows = {(name, fire // SECOND): rest for name, fire, *rest in database.execute(
            "SELECT schedule, fire_us, outcome, why, reason, promotion, evidence_seq FROM schedule_fires")}
        check(rows.keys() == decided.keys(), f"the database has other fires: {rows.keys() ^ decided.keys()}")
        promotions = dict(database.execute("SELECT id, state FROM promotions"))
        database.close()
        for key, entry in decided.items():
            body = entry["body"]
            wanted = [entry["kind"].removeprefix("schedule_"), body["why"], body.get("reason"), entry["subject"].get("promotion"), entry["seq"]]
            check(rows[key] == wanted, f"{key}: {rows[key]} is not {wanted}")
        by_schedule = [entry["subject"]["promotion"] for entry in decided.values() if entry["kind"] == "schedule_fired"]
        check(sorted(by_schedule) == sorted(promotions), "promotions and fires do not match")
        seen = {}
        url = ("--url", self.world.url, "--token-file", self.world.token_file("viewer"))
        for night in NIGHTS:
            since = seconds_of(night, 11)
            report = self.world.api("GET", f"/v1/schedules/report?since_us={since * SECOND}&until_us={min(since + 31 * 86_400, end + 1) * SECOND}",
                                    expect=200)
            check(report["totals"]["unrecorded"] == 0 and report["totals"]["pending"] == 0, f"{report['totals']}")
            printed = self.world.program("schedule", "report", "--since", str(report["since_us"]), "--until", str(report["until_us"]), *url)
            check(f" {report['totals']['times']} fire times, " in printed and "NOT RECORDED" not in printed, printed[:300])
            check(len(printed.splitlines()) == report["totals"]["times"] + 2, f"{len(printed.splitlines())} lines")
            for item in report["items"]:
                seen[item["schedule"], item["fire_us"] // SECOND] = item
                if item["promotion"]:
                    check(item["standing"]["state"] == promotions[item["promotion"]], f"{item}")
        for key, item in seen.items():
            entry = decided.get(key) or covered.get(key)
            check(entry is not None and item["evidence"] == entry["seq"], f"the report has {item}")
            outcome = "fired" if key in decided and entry["kind"] == "schedule_fired" else "skipped"
            check(item["outcome"] == outcome, f"{item}")
        told = {key for key in {**decided, **covered} if any(seconds_of(n, 11) <= key[1] < seconds_of(n, 11) + 31 * 86_400 for n in NIGHTS)}
        check(seen.keys() == told, f"the report leaves out {sorted(told - seen.keys())[:5]}")
        for name in self.world.random.sample(sorted(self.specs), 5):
            for fire in self.world.api("GET", f"/v1/schedules/{name}", expect=200)["fires"]:
                entry = decided[name, fire["fire_us"] // SECOND]
                check(fire["evidence"] == entry["seq"] and fire["reason"] == entry["body"].get("reason"), f"{fire}")

    def check_messages(self, decided, start, end):
        told = sum(entry["kind"] == "schedule_skipped" and entry["body"]["why"] in ("refused", "owner_revoked", "misfire")
                   for entry in decided.values())
        wait_for("the messages of what was skipped", lambda: len(self.receiver.of_type("schedule.skipped")) >= told)
        check(len(self.receiver.of_type("schedule.skipped")) == told, "a skip was told twice")
        cron, zone = REPORT.rsplit(" ", 1)
        due = set()
        for low, high in self.alive:
            due.update(oracle.fires_between(cron, zone, low, high)[-1:] if high - low > 2 * 86_400 else oracle.fires_between(cron, zone, low, high))
        database = sqlite3.connect(f"file:{self.world.folder}/data/driftgate.db?mode=ro", uri=True)
        put = [row[0] // SECOND for row in database.execute("SELECT report_us FROM schedule_reports ORDER BY report_us")][1:]
        database.close()
        check(set(put) == due, f"reports were due at {sorted(due)} and put at {put}")
        reports = wait_for("the reports", lambda: len(self.receiver.of_type("schedule.report")) >= len(put) and
                           self.receiver.of_type("schedule.report"))
        check(sorted(message["data"]["until_us"] // SECOND for message in reports) == put, "a report was told twice")


def main(seed):
    begun = time.monotonic()
    world = NightWorld(seed)
    failed = True
    try:
        night = Night(world)
        night.set_up()
        first, second = (seconds_of(text, 11) for text in NIGHTS)
        ends = [first + 25 * 3_600, second + 25 * 3_600]
        night.run(first, 25)
        mark = world.now
        world.kill()
        night.down.append((world.now, second))
        world.now = second  # seven months away
        world.boot()
        world.advance(world.now)
        night.alive = [(first, mark), (mark, second), (second, ends[1])]
        night.run(second, 25)
        world.advance(max(world.now, ends[1]))
        decided, covered, by_why = night.account(first, world.now)
        night.compare(decided, covered, first, world.now)
        night.check_messages(decided, first, world.now)
        ends_of = collections.Counter(item["state"] for item in world.api("GET", "/v1/promotions?limit=500", expect=200)["items"])
        for why in ("on time", "misfire", "blackout", "running", "refused", "owner_revoked", "missed"):
            check(by_why[why], f"this night tries nothing that is '{why}': {dict(by_why)}")
        world.kill()
        done = subprocess.run([DRIFTGATE, "audit", "verify", "--config", f"{world.folder}/driftgate.yaml", "--data-dir", f"{world.folder}/data"],
                              check=False, capture_output=True, text=True, timeout=PATIENCE_S)
        check(done.returncode == 0, f"the folder that the night left: {done.returncode}\n{done.stdout}{done.stderr}")
        failed = False
        print(f"seed {seed}: {len(decided)} fire times decided ({dict(by_why)}), promotions {dict(ends_of)}, "
              f"{len(night.down)} kills, {len(world.ticks)} steps, {time.monotonic() - begun:.1f} s")
    finally:
        if failed:
            print(world.log_tail())
        world.close(failed)


if __name__ == "__main__":
    main(int(sys.argv[1]))
