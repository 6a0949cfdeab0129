"""Many models in one daemon: what they cost while nobody asks for them, and how they come back after a crash."""
import re
import time

from harness import check, wait_for
from world import run

MODELS = 40
WINDOW_S = 0.25  # world.py


def metric(world, name):
    text = world.api("GET", "/metrics")
    return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])


def create(world):
    names = [f"rest-{i:02d}" for i in range(MODELS)]
    for name in names:
        world.api("POST", "/v1/models", {"name": name, "engine": "f32", "reason": "one of many"}, who="operator", expect=201)
    return names


def models_at_rest_share_one_telemetry_window(world):
    world.start_daemon()
    world.install_incumbent()
    create(world)
    wait_for("the routes", lambda: metric(world, "driftgate_route_agrees") == 1)
    windows = lambda: metric(world, "driftgate_windows_total")
    first = windows()
    wait_for("a window", lambda: windows() > first)
    began, first = time.monotonic(), windows()
    wait_for("windows of models at rest", lambda: windows() >= first + 8)
    # One for all of them in each window's time: with one each, eight come in the first.
    took = time.monotonic() - began
    check(took > 5 * WINDOW_S, f"8 windows of {MODELS} models at rest came within {took:.2f} s")
    listed = world.api("GET", f"/v1/models?limit={MODELS // 2}", expect=200)
    check(len(listed["items"]) == MODELS // 2 and listed["next"], "the list of models has no pages")


def all_routes_are_in_force_again_after_a_crash_of_daemon_and_router(world):
    world.start_daemon()
    world.install_incumbent()
    names = create(world)
    world.daemon.kill()
    world.stop_router()
    world.start_daemon()
    wait_for("the routes", lambda: metric(world, "driftgate_route_agrees") == 1)
    check(world.complete().status == 200, "the model does not serve")
    for name in (names[0], names[-1]):
        check(world.api("GET", f"/v1/models/{name}/route", expect=200)["agree"], f"the route of {name} does not agree")
    entries = world.entries(kind="route_applied")
    check(len({entry["subject"]["model"] for entry in entries}) == MODELS + 1, "some routes have no entry of being applied")


TESTS = [
    models_at_rest_share_one_telemetry_window,
    all_routes_are_in_force_again_after_a_crash_of_daemon_and_router,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
