"""Faults behind HAProxy: the daemon is killed at random instants of a promotion. HAProxy never holds a route that was
not recorded before, and never more exposure than that record says. Counts are those of the CI column in
docs/reliability.md, or of the nightly one when DRIFTGATE_FAULT_COLUMN is "nightly". DRIFTGATE_TEST_SEED repeats a
run."""
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.environ["DRIFTGATE_ROOT"], "tests", "fault"))

from processes import SEED, approve_what_waits, launch, ready, rounds, tell  # noqa: E402
from harness import check, wait_for  # noqa: E402
from proxied import for_haproxy, go_behind_haproxy, held_route  # noqa: E402
from record import Record  # noqa: E402
from world import TERMINAL, run  # noqa: E402


class Watcher(threading.Thread):
    """Reads HAProxy's route over and over: every one that it ever held while it was looked at."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world, self.stopping, self.looks = world, threading.Event(), 0
        self.held = {}  # (epoch, revision, reverted) -> (share, mirrored)
        self.changed = []  # what one route was seen with at two times

    def run(self):
        while not self.stopping.is_set():
            seen = held_route(self.world)
            if seen is not None:
                self.looks += 1
                exposed = self.held.setdefault(seen[:3], seen[3:])
                if exposed != seen[3:]:
                    self.changed.append((seen, exposed))
            time.sleep(0.002)

    def stop(self):
        self.stopping.set()
        self.join(timeout=60)


def recorded_routes(world):
    """(epoch, revision) -> the desired route, as it lies on the disk."""
    record = Record(f"{world.folder}/data")
    record.verify()
    routes = [entry["body"]["route"] for entry in record.decoded("route_desired")]
    return {(int(route["epoch"]), int(route["revision"])): route for route in routes}


def check_exposure(world, watcher):
    """Every route that HAProxy held was recorded, and exposed what was recorded, or nothing."""
    recorded = recorded_routes(world)
    check(not watcher.changed, f"a route changed under its number: {watcher.changed[:3]}")
    for (epoch, revision, reverted), (share, mirrored) in dict(watcher.held).items():
        check((epoch, revision) in recorded, f"HAProxy held {epoch}.{revision}, which nobody recorded: {sorted(recorded)[-5:]}")
        route = recorded[epoch, revision]
        check(share == (0 if reverted else route["candidate_bp"]) and mirrored <= route["mirror_bp"],
              f"HAProxy exposed {share} and mirrored {mirrored} under {epoch}.{revision}: {route}")
    return max(recorded), recorded[max(recorded)]


def kill_9_behind_haproxy_never_exposes_more_than_was_recorded(world):
    count, chance = rounds(25, 200), random.Random(SEED)
    world.settings = {"log.level": "warn", "http.requests_per_second": 100_000}
    go_behind_haproxy(world)
    launch(world)
    ready(world)
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    wait_for("the incumbent to serve through HAProxy", lambda: world.complete().status == 200)
    load = world.load(rate=60, seconds=3600)
    watcher = Watcher(world)
    watcher.start()
    promotion = world.promote("bf16", "bf16", for_haproxy)
    in_canary, expired = 0, 0
    for kill in range(count):
        ready(world)
        approve_what_waits(world, promotion)
        time.sleep(chance.random() * 0.5)
        world.daemon.kill()
        number, desired = check_exposure(world, watcher)
        held = held_route(world)
        # A route that was recorded and not applied yet is the only one that may be newer than HAProxy's.
        check(held[:2] <= number, f"HAProxy holds {held}, the newest record is {number}")
        in_canary += desired["candidate_bp"] > 0
        if desired["candidate_bp"] > 0 and expired < 2:
            expired += 1
            wait_for("the lease to expire", lambda: held_route(world)[3] == 0)
            check(world.complete().status == 200, "nobody is served without the daemon")
        launch(world)
    ready(world)
    wait_for("the promotion to end", lambda: approve_what_waits(world, promotion)
             or world.promotion(promotion)["state"] in TERMINAL)
    end = world.promotion(promotion)
    check(end["state"] == "succeeded", f"the promotion ended as {end['state']}: {end['reason']}")
    watcher.stop()
    check_exposure(world, watcher)
    check(load.stop()["failed"] == 0, "users noticed")
    tell("kill -9 of the daemon behind HAProxy", f"{count} kills, {in_canary} of them with users on the candidate; "
         f"{watcher.looks} looks at HAProxy, {len(watcher.held)} routes held, each recorded before; the promotion succeeded")


TESTS = [
    kill_9_behind_haproxy_never_exposes_more_than_was_recorded,
]

if __name__ == "__main__":
    print(f"seed {SEED}", flush=True)
    run({test.__name__: test for test in TESTS})
