"""What people see who watch on a terminal: one screen drawn in place that stays, a cursor that comes back, and plain
lines wherever output is no terminal."""
import json
import os
import signal
import socket
import subprocess

from harness import DRIFTGATE, PATIENCE_S, check
from screen import OnTerminal
from world import run


def words(world, *argv, who="viewer"):
    return [DRIFTGATE, *argv, "--url", world.url, "--token-file", world.token_file(who)]


def after_a_line(argv):
    """The same program after a line of the shell, which must stay on the screen."""
    return ["sh", "-c", 'echo "a line before"; exec "$@"', "sh", *argv]


def candidate(world, kernel):
    world.install_incumbent()
    world.start_engine(kernel, kernel)
    world.register_engine(kernel, kernel)


def start_at_a_port_of_its_own(world):
    """A daemon that is started again comes back where it was."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        world.settings["listen"] = f"127.0.0.1:{free.getsockname()[1]}"
    world.start_daemon()


def check_left_alone(terminal):
    """The cursor is back, lines wrap again, and the line before is where it was, once."""
    screen = terminal.screen
    check(screen.cursor_shown, "the cursor stays hidden")
    check(screen.wraps, "lines no longer wrap")
    check(screen.all_text().count("a line before") == 1, f"what was there before is gone:\n{screen.all_text()}")


def check_one_picture(terminal, header):
    text = terminal.screen.all_text()
    check(text.count(header) == 1, f"{text.count(header)} pictures where one was drawn again:\n{text}")


def watch_draws_one_screen_and_its_last_picture_stays(world):
    world.start_daemon()
    candidate(world, "int8-static")
    promotion = world.promote("int8-static", "int8-static")
    with OnTerminal(after_a_line(words(world, "watch", promotion, who="auditor")), 100, 40) as terminal:
        terminal.until("a screen", lambda text: "offline-numeric" in text)
        code = terminal.end()
        check(code == 1, f"a rejected promotion is exit {code}:\n{terminal.screen.text()}")
        text = terminal.screen.text()
        for part in ("tinylm", "f32 (tinylm-f32) → int8-static (tinylm-int8-static)", promotion, "rejected in",
                     "✓ offline-numeric pass", "✗ statistical-slice violated", "· canary not reached", "language=fr",
                     "state_changed"):
            check(part in text, f"the last picture lacks {part!r}:\n{text}")
        check_left_alone(terminal)
        check_one_picture(terminal, "f32 (tinylm-f32) →")
        check(terminal.screen.coloured, "no colours where they are wanted")
        check("\x1b[?1049" not in terminal.raw, "the alternate screen was used")


def promote_with_wait_draws_too_and_a_model_names_its_newest(world):
    world.start_daemon()
    candidate(world, "int8-static")
    request = os.path.join(world.folder, "request.json")
    with open(request, "w", encoding="utf-8") as file:
        json.dump({"model": "tinylm", "engine": "int8-static", "contract": world.contract("int8-static"),
                   "captures": world.captures("int8-static")}, file)
    asked = words(world, "promote", "--request", request, "--wait", who="promoter")
    with OnTerminal(after_a_line(asked), 80, 24, {"NO_COLOR": "1"}) as terminal:
        check(terminal.end() == 1, f"not rejected:\n{terminal.screen.text()}")
        check("✗ statistical-slice violated" in terminal.screen.text(), terminal.screen.text())
        check(not terminal.screen.coloured, "colours in spite of NO_COLOR")
        check_left_alone(terminal)
        check_one_picture(terminal, "f32 (tinylm-f32) →")
    with OnTerminal(words(world, "watch", "tinylm"), 40, 12) as terminal:
        check(terminal.end() == 1, f"not rejected:\n{terminal.screen.text()}")
        check("rejected in" in terminal.screen.text(), terminal.screen.text())


def a_resize_a_restart_and_ctrl_c_leave_the_terminal_as_it_was(world):
    start_at_a_port_of_its_own(world)
    candidate(world, "bf16")
    promotion = world.promote("bf16", "bf16")  # without users' requests it stays in shadow-runtime
    world.reach(promotion, "running", "shadow-runtime")
    with OnTerminal(after_a_line(words(world, "watch", promotion, who="auditor")), 100, 40) as terminal:
        terminal.until("the stage", lambda text: "▸ shadow-runtime running" in text and "Ctrl-C leaves" in text)
        check(not terminal.screen.cursor_shown, "the cursor is not hidden while it draws")
        terminal.resize(50, 40)
        terminal.until("the narrower screen", lambda text: "Ctrl-C leaves" in text and all(
            len(line) < 50 for line in text.split("\n")))
        terminal.resize(120, 30)
        world.daemon.stop()
        terminal.until("that the daemon is gone", lambda text: "! no answer from the daemon for" in text)
        world.start_daemon()
        terminal.until("that it is back", lambda text: "the daemon answers again after" in text and "last message" in text)
        world.api("POST", f"/v1/promotions/{promotion}/pause", {"reason": "lunch"}, who="operator", expect=200)
        terminal.until("what to type", lambda text: f"driftgate resume {promotion} --reason …" in text)
        events = [line for line in terminal.screen.text().split("\n") if "verdict_reached" in line or "state_changed" in line]
        check(events and len(set(events)) == len(events), f"events came twice after the restart: {events}")
        terminal.fall_behind()
        terminal.type("\x03")
        code = terminal.end()
        check(code == -signal.SIGINT, f"Ctrl-C is exit {code}")
        check_left_alone(terminal)
        check(f"The promotion goes on: driftgate watch {promotion}" in terminal.screen.text(), terminal.screen.text())
    with OnTerminal(after_a_line(words(world, "watch", promotion)), 80, 24) as terminal:
        terminal.until("the screen", lambda text: "Ctrl-C leaves" in text)
        terminal.child.send_signal(signal.SIGTERM)
        check(terminal.end() == -signal.SIGTERM, "SIGTERM does not end it")
        check_left_alone(terminal)
    world.api("POST", f"/v1/promotions/{promotion}/abort", {"reason": "seen"}, who="operator", expect=200)


def a_revoked_token_ends_the_screen_with_the_reason(world):
    start_at_a_port_of_its_own(world)
    candidate(world, "bf16")
    promotion = world.promote("bf16", "bf16")
    world.reach(promotion, "running", "shadow-runtime")
    issued = world.api("POST", "/v1/tokens", {"name": "leaver", "scopes": ["viewer"]}, who="admin", expect=201)
    world.tokens["leaver"] = issued["bearer"]
    with OnTerminal(after_a_line(words(world, "watch", promotion, who="leaver")), 80, 24) as terminal:
        terminal.until("the screen", lambda text: "Ctrl-C leaves" in text)
        world.api("DELETE", f"/v1/tokens/{issued['id']}", who="admin", expect=204)
        world.daemon.stop()
        with OnTerminal(words(world, "watch", promotion), 80, 24) as late:
            check(late.end() == 69, f"without a daemon: {late.screen.text()}")
            check("\x1b" not in late.raw and "driftgate serve" in late.raw, f"not only the error: {late.raw!r}")
        world.start_daemon()
        check(terminal.end() == 77, f"a revoked token: {terminal.screen.text()}")
        check("driftgate: " in terminal.screen.text(), f"no reason below the picture:\n{terminal.screen.text()}")
        check_left_alone(terminal)
    world.api("POST", f"/v1/promotions/{promotion}/abort", {"reason": "seen"}, who="operator", expect=200)


def output_that_is_no_terminal_has_plain_lines(world):
    world.start_daemon()
    candidate(world, "int8-static")
    promotion = world.promote("int8-static", "int8-static")
    done = subprocess.run(words(world, "watch", promotion), capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S)
    check(done.returncode == 1 and "\x1b" not in done.stdout, f"{done.returncode}: {done.stdout!r}")
    check("state_changed" in done.stdout and f"{promotion}  tinylm  rejected" in done.stdout, done.stdout)
    for flags, env in ((["--plain"], {}), ([], {"TERM": "dumb"}), ([], {"TERM": None}), (["--json"], {})):
        with OnTerminal(words(world, "watch", promotion, *flags), 80, 24, env) as terminal:
            check(terminal.end() == 1 and "\x1b" not in terminal.raw, f"{flags} {env}: {terminal.raw!r}")
            check("state_changed" in terminal.raw and promotion in terminal.raw, f"{flags} {env}: {terminal.raw}")
    lines = [line for line in terminal.raw.splitlines() if line]
    check(all("event" in json.loads(line) for line in lines), f"--json is not a line for each event: {lines}")


def status_is_one_line_for_each_model(world):
    world.start_daemon()
    candidate(world, "bf16")
    for i in range(50):
        world.api("POST", "/v1/models", {"name": f"model-{i:02d}-{'long' * (i % 12)}", "engine": "f32",
                                         "reason": "first version"}, who="operator", expect=201)
    promotion = world.promote("bf16", "bf16")
    world.reach(promotion, "running", "shadow-runtime")
    world.api("POST", f"/v1/promotions/{promotion}/pause", {"reason": "lunch"}, who="operator", expect=200)
    for columns in (40, 80, 200):
        with OnTerminal(words(world, "status"), columns, 60) as terminal:
            check(terminal.end() == 0, terminal.screen.text())
            lines = terminal.screen.text().rstrip("\n").split("\n")
            check(len(lines) == 53, f"{len(lines)} lines for 51 models, a header and the counts:\n{terminal.screen.text()}")
            check(lines[1].startswith("! tinylm") and "paused" in lines[1], f"who needs people is not first: {lines[1]}")
            check(lines[-1].startswith("51 models: 1 need people, 1 open"[:columns - 1]), lines[-1])
    done = subprocess.run(words(world, "status"), capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    piped = done.stdout.splitlines()
    check("\x1b" not in done.stdout and "\t" not in done.stdout and len(piped) == 52, done.stdout)
    check(piped[0].split() == ["model", "incumbent", "promotion", "standing", "candidate", "hold"], piped[0])
    check(any(line.startswith("tinylm ") and promotion in line for line in piped), done.stdout)
    world.api("POST", f"/v1/promotions/{promotion}/abort", {"reason": "seen"}, who="operator", expect=200)


TESTS = [
    watch_draws_one_screen_and_its_last_picture_stays,
    promote_with_wait_draws_too_and_a_model_names_its_newest,
    a_resize_a_restart_and_ctrl_c_leave_the_terminal_as_it_was,
    a_revoked_token_ends_the_screen_with_the_reason,
    output_that_is_no_terminal_has_plain_lines,
    status_is_one_line_for_each_model,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
