"""Promotions whose users go through a real HAProxy (docs/data_planes.md)."""
import os
import subprocess

from harness import DRIFTGATE, PATIENCE_S, check, wait_for
from proxied import for_haproxy, go_behind_haproxy, held_route, requests_by_server, start_haproxy
from world import run


def install_engines(world, *flags, candidate="bf16"):
    """f32 serves behind HAProxy, the candidate's engine is registered."""
    go_behind_haproxy(world)
    world.start_daemon()
    world.install_incumbent()
    world.start_engine(candidate, candidate, *flags)
    world.register_engine(candidate, candidate)
    wait_for("the incumbent to serve through HAProxy", lambda: world.complete().status == 200)


def install(world, *flags, candidate="bf16"):
    """The same, and users arrive."""
    install_engines(world, *flags, candidate=candidate)
    return world.load()


def reach_canary(world, candidate="bf16"):
    promotion = world.promote(candidate, candidate, for_haproxy)
    world.reach(promotion, ("running", "awaiting_approval"), "canary")
    wait_for("a share in canary", world.observed_share)
    return promotion


def a_promotion_behind_haproxy_succeeds(world):
    load = install(world)
    promotion = world.promote("bf16", "bf16", for_haproxy)
    world.reach(promotion, ("running", "awaiting_approval"), "shadow-runtime")
    wait_for("requests to be mirrored", lambda: held_route(world)[4] > 0)
    world.approve(promotion)
    done = world.reach(promotion, "succeeded")
    check(done["traffic"] == "live", f"traffic is {done['traffic']}")
    figures = load.stop()
    check(figures["failed"] == 0, f"users saw failures: {figures}")
    for stage in ("offline-numeric", "statistical-slice", "shadow-runtime", "canary"):
        check(world.report(promotion, stage)["verdict"] == "pass", f"{stage} has no pass in its report")
    check(held_route(world)[3:] == (0, 0), f"a candidate is left in HAProxy: {held_route(world)}")
    # The router saw the share that was mirrored, HAProxy served the rest.
    counted = requests_by_server(world)
    mirrored, direct = counted.pop("router"), sum(counted.values())
    check(0 < mirrored < direct, f"{mirrored} requests went through the router, {direct} did not")
    wait_for("HAProxy to forget the previous engine", lambda: len(requests_by_server(world)) == 2)


def a_contract_that_haproxy_cannot_carry_is_refused_when_it_is_planned(world):
    install_engines(world)
    body = {"model": "tinylm", "engine": "bf16", "contract": world.contract("bf16"), "captures": world.captures("bf16")}
    refused = world.api("POST", "/v1/promotions", body, who="promoter", expect=422)
    check(refused["code"] == "unsupported" and "ttft_ms" in refused["detail"], f"refused for something else: {refused}")
    check("stages: [shadow-runtime]" in refused["detail"], f"it does not say what to do: {refused}")
    body["contract"] = world.contract("bf16", for_haproxy)
    world.api("POST", "/v1/promotions?dry_run=true", body, who="promoter", expect=200)


def a_candidate_that_fails_behind_haproxy_is_rolled_back(world):
    later = os.path.join(world.folder, "fail")
    load = install(world, "--fail-share", "0.4", "--fail-file", later, candidate="int8")
    promotion = reach_canary(world, "int8")
    open(later, "w", encoding="ascii").close()
    done = world.reach(promotion, "rejected")
    check(done["stage"] == "canary" and done["traffic"] == "reverted", f"{done['stage']}, {done['traffic']}: {done['reason']}")
    check(held_route(world)[3] == 0, f"the candidate still has a share: {held_route(world)}")
    harm = [v for v in world.report(promotion, "canary")["verdicts"] if v["verdict"] == "violated"]
    check(harm and harm[0]["clause"] == "runtime.errors", f"violated: {harm}")
    check(load.stop()["failed"] == 0, "users saw the candidate's failures in spite of the retry")


def a_candidate_that_dies_behind_haproxy_is_rolled_back(world):
    load = install(world)
    promotion = reach_canary(world)
    world.engines["bf16"].kill()
    done = world.reach(promotion, "rejected")
    check(done["traffic"] == "reverted" and held_route(world)[3] == 0, f"{done['traffic']}: {done['reason']}")
    check(load.stop()["failed"] == 0, "users saw the dead candidate in spite of the retry")


def a_haproxy_that_is_killed_in_canary_gets_its_route_back(world):
    load = install(world)
    promotion = reach_canary(world)
    share = held_route(world)[3]
    world.haproxy.kill()
    start_haproxy(world)
    check(held_route(world)[3] in (0, share), f"HAProxy began with {held_route(world)}, {share} bp before")
    check(world.complete().status == 200, "nobody is served after the restart")
    wait_for("the share to be back", lambda: held_route(world)[3] == share)
    wait_for("desired and observed route to agree", lambda: world.route()["agree"])
    world.approve(promotion)
    world.reach(promotion, "succeeded")
    load.stop()  # connections to a HAProxy that is not there are refused


def traffic_behind_haproxy_survives_the_daemon_and_the_expired_lease_reverts(world):
    load = install(world)
    promotion = reach_canary(world)
    world.daemon.kill()
    check(world.complete().status == 200, "HAProxy stopped with the daemon")
    wait_for("the lease to expire", lambda: held_route(world)[2] and held_route(world)[3] == 0)
    world.start_daemon()
    wait_for("the route to agree again", lambda: world.route()["agree"])
    world.approve(promotion)
    world.reach(promotion, "succeeded")
    check(load.stop()["failed"] == 0, "users noticed")


def a_daemon_with_another_data_plane_refuses_the_router(world):
    install_engines(world)
    world.daemon.stop()
    world.settings["data_plane"] = "router"
    config = os.path.join(world.folder, "driftgate.yaml")
    with open(config, "w", encoding="utf-8") as handle:
        handle.write(world.settings_text())
    for words in (["--check"], []):
        refused = subprocess.run([DRIFTGATE, "serve", "--config", config, *words], capture_output=True, text=True, check=False,
                                 timeout=PATIENCE_S)
        check(refused.returncode != 0 and "router-stop" in refused.stderr, f"{words} {refused.returncode}: {refused.stderr}")
    check(world.complete().status == 200, "users noticed")


TESTS = [
    a_promotion_behind_haproxy_succeeds,
    a_contract_that_haproxy_cannot_carry_is_refused_when_it_is_planned,
    a_candidate_that_fails_behind_haproxy_is_rolled_back,
    a_candidate_that_dies_behind_haproxy_is_rolled_back,
    a_haproxy_that_is_killed_in_canary_gets_its_route_back,
    traffic_behind_haproxy_survives_the_daemon_and_the_expired_lease_reverts,
    a_daemon_with_another_data_plane_refuses_the_router,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
