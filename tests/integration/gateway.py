"""Promotions with a Gateway of Kubernetes in front of the router (docs/data_planes.md). The Kubernetes API is a stand-in,
and so is the Gateway: its engines here are no Services, so that it would send every request to the router."""
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import DRIFTGATE, PATIENCE_S, call, check, wait_for
from world import run

ROUTES = "/apis/gateway.networking.k8s.io/v1/namespaces/llm/httproutes"
APPLY = "application/apply-patch+yaml"


class Kubernetes:
    """HTTPRoutes of one namespace, and a controller that accepts each of them."""

    def __init__(self):
        self.lock = threading.Lock()
        self.objects = {}
        self.version = 0
        self.away = False
        self.wrong = []  # requests that no client of Kubernetes should make
        kubernetes = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with kubernetes.lock:
                    status, said = kubernetes.respond(self.command, self.path, self.headers, body)
                text = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = answer

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def respond(self, method, target, headers, body):
        path, _, query = target.partition("?")
        if self.away:
            return 503, {"kind": "Status", "message": "the API server is away"}
        if headers.get("Authorization") != "Bearer the-token":
            return 401, {"kind": "Status", "message": "Unauthorized"}
        if method == "GET" and path == ROUTES:
            return 200, {"kind": "HTTPRouteList", "items": list(self.objects.values())}
        sent = json.loads(body)
        name = sent["metadata"]["name"]
        if method == "POST" and path == ROUTES:
            if name in self.objects:
                return 409, {"kind": "Status", "reason": "AlreadyExists", "message": f"{name} already exists"}
            sent["metadata"]["generation"] = 1
            return 201, self.keep(sent)
        if method == "PATCH" and path == f"{ROUTES}/{name}" and name in self.objects:
            held = self.objects[name]
            if headers.get("Content-Type") != APPLY or "fieldManager=driftgate" not in query:
                self.wrong.append(f"{method} {target} as {headers.get('Content-Type')}")
            if sent["metadata"].get("resourceVersion") != held["metadata"]["resourceVersion"]:
                self.wrong.append(f"{method} {target} over {sent['metadata'].get('resourceVersion')}")
                return 409, {"kind": "Status", "reason": "Conflict", "message": "the object has been modified"}
            sent["metadata"]["generation"] = held["metadata"]["generation"] + (sent["spec"] != held["spec"])
            return 200, self.keep(sent)
        self.wrong.append(f"{method} {target}")
        return 404, {"kind": "Status", "message": "not found"}

    def keep(self, made):
        self.version += 1
        generation = made["metadata"]["generation"]
        made["metadata"]["resourceVersion"] = str(self.version)
        conditions = [{"type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": generation}
                      for kind in ("Accepted", "ResolvedRefs")]
        made["status"] = {"parents": [{"parentRef": parent, "controllerName": "example.org/one", "conditions": conditions}
                                      for parent in made["spec"]["parentRefs"]]}
        self.objects[made["metadata"]["name"]] = made
        return made

    def only(self):
        with self.lock:
            check(len(self.objects) == 1, f"there are {len(self.objects)} HTTPRoutes")
            return json.loads(json.dumps(next(iter(self.objects.values()))))


def go_behind_gateway(world, **settings):
    world.kubernetes = Kubernetes()
    token = os.path.join(world.folder, "token")
    with open(token, "w", encoding="ascii") as handle:
        handle.write("the-token\n")
    world.settings = {**world.settings, "data_plane": "gateway_api", "gateway.api": world.kubernetes.url,
                      "gateway.token_file": token, "gateway.ca_file": "", "gateway.namespace": "llm",
                      "gateway.parents": ["edge/public"], "gateway.watched_share_bp": 1000, **settings}


def install(world):
    go_behind_gateway(world)
    world.start_daemon()
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    wait_for("the incumbent to serve", lambda: world.complete().status == 200)
    return world.load()


def a_promotion_behind_a_gateway_succeeds(world):
    load = install(world)
    promotion = world.promote("bf16", "bf16")
    world.reach(promotion, ("running", "awaiting_approval"), "canary")
    during = world.kubernetes.only()
    world.approve(promotion)
    done = world.reach(promotion, "succeeded")
    check(done["traffic"] == "live", f"traffic is {done['traffic']}")
    check(load.stop()["failed"] == 0, "users saw failures")
    wait_for("desired and observed route to agree", lambda: world.route()["agree"])
    after = world.kubernetes.only()
    for route in (during, after):
        check(route["metadata"]["annotations"]["driftgate/model"] == "tinylm", f"{route['metadata']}")
        for rule in route["spec"]["rules"]:
            named = [(backend["name"], backend["port"]) for backend in rule["backendRefs"]]
            check(named == [("driftgate-router", 8080)], f"requests go past the router to {named}")
    fences = [tuple(map(int, one["metadata"]["annotations"]["driftgate/route"].split("."))) for one in (during, after)]
    check(fences[0] < fences[1], f"the HTTPRoute did not follow the route: {fences}")
    check(not world.kubernetes.wrong, f"wrong requests: {world.kubernetes.wrong}")


def the_daemon_says_that_the_kubernetes_api_is_away_and_users_notice_nothing(world):
    load = install(world)
    world.kubernetes.away = True
    wait_for("the daemon not to be ready", lambda: call(world.url + "/readyz").status == 503)
    said = call(world.url + "/readyz").body
    check("gateway_api" in said and "the API server is away" in said, f"/readyz says {said}")
    check(world.complete().status == 200, "users are not served")
    world.kubernetes.away = False
    wait_for("the daemon to be ready again", lambda: call(world.url + "/readyz").status == 200)
    check(load.stop()["failed"] == 0, "users noticed")


def settings_that_no_gateway_could_have_are_refused_at_the_start(world):
    go_behind_gateway(world, **{"gateway.parents": []})
    config = os.path.join(world.folder, "driftgate.yaml")
    with open(config, "w", encoding="utf-8") as handle:
        handle.write(world.settings_text())
    refused = subprocess.run([DRIFTGATE, "serve", "--config", config], capture_output=True, text=True, check=False,
                             timeout=PATIENCE_S)
    check(refused.returncode != 0 and "gateway.parents" in refused.stderr, f"{refused.returncode}: {refused.stderr}")


TESTS = [
    a_promotion_behind_a_gateway_succeeds,
    the_daemon_says_that_the_kubernetes_api_is_away_and_users_notice_nothing,
    settings_that_no_gateway_could_have_are_refused_at_the_start,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
