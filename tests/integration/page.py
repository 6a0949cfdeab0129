"""The page's side of the running daemon: signing in with a browser, what its cookie may and may not do, and the files
that are served beside the API."""
import gzip
import html as escape
import http.client
import re

from harness import PATIENCE_S, call, check, wait_for
from wire import Peer
from world import run

PER_PAGE = {
    "x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin"}
POLICY = ("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'",
          "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'")


class Browser:
    """Keeps the cookie and the CSRF token as the page does."""

    def __init__(self, world, bearer):
        self.world = world
        answer = call(world.url + "/v1/session", "POST", None, {"Authorization": f"Bearer {bearer}", "Content-Length": "0"})
        check(answer.status == 201, f"sign-in: {answer.status} {answer.body[:300]}")
        self.set_cookie = answer.headers["Set-Cookie"]
        self.cookie = self.set_cookie.split(";", 1)[0]
        self.session = answer.json()

    def ask(self, method, path, body=None, **headers):
        # The cookie's name has the port, which is another one after each start here and stays the same elsewhere.
        cookie = re.sub(r"^driftgate_session_\d+=", f"driftgate_session_{self.world.url.rsplit(':', 1)[1]}=", self.cookie)
        sent = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin", "X-CSRF-Token": self.session["csrf"],
                **{name.replace("_", "-"): value for name, value in headers.items()}}
        return call(self.world.url + path, method, body, {name: value for name, value in sent.items() if value is not None})


def issue(world, name, scopes, **more):
    return world.api("POST", "/v1/tokens", {"name": name, "scopes": scopes, **more}, who="admin", expect=201)


def whoami(browser):
    return browser.ask("GET", "/v1/whoami").status


def a_token_signs_in_and_its_cookie_works_until_it_signs_out(world):
    world.start_daemon()
    browser = Browser(world, world.tokens["operator"])
    for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
        check(part in browser.set_cookie.split("; "), browser.set_cookie)
    check("Secure" not in browser.set_cookie, f"plain HTTP: {browser.set_cookie}")
    seconds = int(re.search(r"Max-Age=(\d+)", browser.set_cookie)[1])
    check(43_000 < seconds <= 43_200, f"{seconds} s")
    check(world.tokens["operator"] not in browser.set_cookie, "the cookie holds the token")
    seen = browser.ask("GET", "/v1/session").json()
    check(seen == browser.session, f"{seen}, signed in as {browser.session}")
    check(seen["name"] == "operator" and seen["scopes"] == ["operator"] and seen["server"]["version"], f"{seen}")
    by_token = world.api("GET", "/v1/session", who="operator", expect=200)
    check(by_token["csrf"] is None and by_token["token"] == seen["token"], f"{by_token}")
    settings = {item["name"]: item for item in browser.ask("GET", "/v1/settings").json()["items"]}
    check(settings["http.session_s"]["value"] == 43_200 and not settings["http.session_s"]["changed"], f"{settings}")
    check(settings["data_dir"]["value"] == f"{world.folder}/data" and settings["data_dir"]["changed"], f"{settings['data_dir']}")

    world.install_incumbent()
    kernel = {"name": "k", "engine": "e", "dtype": "f32"}
    check(browser.ask("POST", "/v1/kernels", kernel).status == 403, "an operator registered a kernel")
    promoter = Browser(world, world.tokens["promoter"])
    check(promoter.ask("POST", "/v1/kernels", kernel, Idempotency_Key="one").status == 201, "the cookie does not work")
    repeated = world.api("POST", "/v1/kernels", kernel, who="promoter", expect=201, headers={"Idempotency-Key": "one"})
    check(repeated["name"] == "k", "another answer")
    entry = world.entries(kind="kernel_registered", order="newest")[0]
    check(entry["actor"] == "promoter", f"{entry}")

    ended = browser.ask("DELETE", "/v1/session")
    check(ended.status == 204 and "Max-Age=0" in ended.headers["Set-Cookie"], f"{ended.status} {ended.headers}")
    check(whoami(browser) == 401, "the session goes on after its end")
    check(whoami(promoter) == 200, "another session ended with it")
    check(world.api("GET", "/v1/whoami", who="operator", expect=200)["name"] == "operator", "the token ended with it")


def changes_need_the_csrf_token_and_other_sites_are_refused(world):
    world.start_daemon()
    browser, other = Browser(world, world.tokens["promoter"]), Browser(world, world.tokens["promoter"])
    before = len(world.entries(kind="kernel_registered"))
    kernel = {"name": "k", "engine": "e", "dtype": "f32"}
    refused = {
        "no token": browser.ask("POST", "/v1/kernels", kernel, X_CSRF_Token=None),
        "an empty token": browser.ask("POST", "/v1/kernels", kernel, X_CSRF_Token=""),
        "another session's token": browser.ask("POST", "/v1/kernels", kernel, X_CSRF_Token=other.session["csrf"]),
        "signing out without it": browser.ask("DELETE", "/v1/session", X_CSRF_Token=None),
        "another site": browser.ask("POST", "/v1/kernels", kernel, Sec_Fetch_Site="cross-site"),
        "a neighbouring site": browser.ask("POST", "/v1/kernels", kernel, Sec_Fetch_Site="same-site"),
        "reading from another site": browser.ask("GET", "/v1/promotions", Sec_Fetch_Site="cross-site"),
    }
    for what, answer in refused.items():
        check(answer.status == 403 and answer.json()["code"] == "forbidden", f"{what}: {answer.status} {answer.body[:200]}")
    check(len(world.entries(kind="kernel_registered")) == before, "a kernel was registered")
    check(browser.ask("GET", "/v1/promotions", X_CSRF_Token=None).status == 200, "reading needs no CSRF token")
    check(browser.ask("POST", "/v1/kernels", kernel, Sec_Fetch_Site=None).status == 201, "a client that is no browser")

    bearer = {"Authorization": f"Bearer {world.tokens['viewer']}"}
    both = call(world.url + "/v1/kernels", "POST", kernel, {**bearer, "Cookie": browser.cookie})
    check(both.status == 403 and "viewer" in both.json()["detail"], f"the cookie won over the bearer: {both.body[:200]}")
    again = browser.ask("POST", "/v1/session")
    check(again.status == 403, f"a session opened another: {again.status}")
    name = browser.cookie.split("=")[0]
    check(name == "driftgate_session_" + world.url.rsplit(":", 1)[1], browser.cookie)
    for what, cookie in {"two cookies": f"{browser.cookie}; {other.cookie}", "a wrong one": f"{name}=" + "0" * 64,
                         "an empty one": f"{name}=", "the token": f"{name}={world.tokens['admin']}"}.items():
        answer = call(world.url + "/v1/whoami", headers={"Cookie": cookie})
        check(answer.status == 401 and answer.json()["code"] == "unauthenticated", f"{what}: {answer.status}")
    body = call(world.url + "/v1/session", "POST", {"token": world.tokens["admin"]}, bearer)
    check(body.status == 400, f"a sign-in with a body: {body.status}")


class Stream:
    """A promotion's events as the browser reads them."""

    def __init__(self, browser, promotion):
        self.peer = Peer(browser.world.url, PATIENCE_S)
        self.peer.send(f"GET /v1/promotions/{promotion}/events HTTP/1.1\r\nHost: {browser.world.url.split('//', 1)[1]}\r\nSec-Fetch-Site: same-origin\r\n"
                       f"Cookie: {browser.cookie}\r\n\r\n".encode())
        while b"event: progress" not in self.peer.received:
            piece = self.peer.socket.recv(65536)
            check(piece, f"the stream ended early: {self.peer.received[-300:]}")
            self.peer.received += piece

    def goes_on(self):
        return not self.peer.closed_within(0.5)

    def has_ended(self):
        self.peer.read_all()
        self.peer.close()
        return True


def streams_end_with_their_session_or_its_token(world):
    world.start_daemon()
    world.install_incumbent()
    world.start_engine("bf16", "bf16")
    world.register_engine("bf16", "bf16")
    promotion = world.promote("bf16", "bf16")
    world.api("POST", f"/v1/promotions/{promotion}/pause", {"reason": "look"}, who="operator", expect=200)
    world.reach(promotion, "paused")
    token = issue(world, "vera", ["viewer"])
    leaving, staying = Browser(world, token["bearer"]), Browser(world, token["bearer"])
    first, second = Stream(leaving, promotion), Stream(staying, promotion)
    check(leaving.ask("DELETE", "/v1/session").status == 204, "signing out")
    first.has_ended()
    check(second.goes_on(), "another session's stream ended with it")
    world.api("DELETE", f"/v1/tokens/{token['id']}", who="admin", expect=204)
    second.has_ended()
    check(whoami(staying) == 401, "the session of a revoked token goes on")
    brief = Browser(world, issue(world, "bea", ["viewer"], expires_in_s=3)["bearer"])
    check(brief.session["expires_us"] is not None and "Max-Age=43200" not in brief.set_cookie, brief.set_cookie)
    Stream(brief, promotion).has_ended()
    check(whoami(brief) == 401, "the session outlives its token")


def sessions_survive_a_restart_and_end_with_their_key(world):
    world.settings = {"http.session_s": 3600}
    world.start_daemon()
    browser, gone = Browser(world, world.tokens["viewer"]), Browser(world, world.tokens["viewer"])
    check(gone.ask("DELETE", "/v1/session").status == 204, "signing out")
    started = browser.session["server"]["started_us"]
    world.daemon.kill()
    world.start_daemon()
    seen = browser.ask("GET", "/v1/session").json()
    check(seen["csrf"] == browser.session["csrf"] and seen["expires_us"] == browser.session["expires_us"], f"{seen}")
    check(seen["server"]["started_us"] > started, "the daemon does not say that it started again")
    check(whoami(gone) == 401, "a session that was ended came back")
    world.daemon.stop()
    key = f"{world.folder}/data/session.key"
    with open(key, "w", encoding="ascii") as file:
        file.write("f" * 64 + "\n")
    world.start_daemon()
    check(whoami(browser) == 401, "a session without its seal is accepted")
    check(whoami(Browser(world, world.tokens["viewer"])) == 200, "nobody can sign in any more")


def a_restore_brings_no_ended_session_back(world):
    world.start_daemon()
    browser = Browser(world, world.tokens["viewer"])
    folder = world.api("POST", "/v1/backups", {"name": "all"}, who="operator", expect=201)["folder"]
    check(browser.ask("DELETE", "/v1/session").status == 204, "signing out")
    world.daemon.stop()
    world.program("restore", folder, "--data-dir", f"{world.folder}/data", "--accept-loss", "--reason", "a test")
    world.start_daemon()
    check(whoami(browser) == 401, "a session that was ended came back with the backup")
    check(whoami(Browser(world, world.tokens["viewer"])) == 200, "nobody can sign in any more")


def a_token_has_twenty_sessions_at_most(world):
    world.start_daemon()
    browsers = [Browser(world, world.tokens["viewer"]) for _ in range(21)]
    check([whoami(browser) for browser in browsers] == [401] + [200] * 20, "the oldest ends, and no other")


def failed_guesses_hold_up_nobody_else_at_their_address(world):
    world.settings = {"http.requests_per_second": 20}
    world.start_daemon()
    browser = Browser(world, world.tokens["viewer"])
    wrong = {"Cookie": browser.cookie.split("=")[0] + "=" + "0" * 64}
    guess = lambda: call(world.url + "/v1/session", headers=wrong)
    guesses = {guess().status for _ in range(100)}
    check(guesses == {401}, f"guesses were answered with {guesses}")
    check(whoami(browser) == 200, "who is signed in was refused with the guesses")


def page_of(world, path, method="GET", **headers):
    """The answer with its raw body."""
    connection = http.client.HTTPConnection(world.url.split("//", 1)[1], timeout=PATIENCE_S)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def is_guarded(headers):
    policy = headers["content-security-policy"].split("; ")
    for rule in POLICY:
        check(rule in policy, f"{rule} is not in {policy}")
    for name, value in PER_PAGE.items():
        check(headers.get(name) == value, f"{name}: {headers.get(name)}")
    check("camera=()" in headers["permissions-policy"], headers["permissions-policy"])


def the_page_is_served_with_strict_headers_and_beside_the_api(world):
    world.start_daemon()
    status, headers, html = page_of(world, "/")
    check(status == 200 and headers["content-type"] == "text/html; charset=utf-8" and html.startswith(b"<!doctype html>"),
          f"{status} {headers} {html[:100]}")
    check(headers["cache-control"] == "no-cache" and "set-cookie" not in headers, f"{headers}")
    is_guarded(headers)
    for path in ("/p/pr-1/slices", "/c/sha256:ab", "/models/org/tiny", "/evidence?kind=x", "/settings"):
        check(page_of(world, path)[2] == html, f"{path} is another page")
    status, headers, body = page_of(world, "/", "HEAD")
    check(status == 200 and body == b"" and headers["content-length"] == str(len(html)), f"HEAD: {headers}")
    check(page_of(world, "/", "POST")[0] == 405, "POST of the page")
    for path in ("/assets/none.js", "/assets/../v1", "/index", "/v1/nothing"):
        status, headers, _ = page_of(world, path)
        check(status == 404 and headers["content-type"] == "application/problem+json", f"{path}: {status}")
    check(page_of(world, "/v1/promotions")[0] == 401, "the API is open")

    assets = sorted(set(re.findall(rb'"(/assets/[^"]+)"', html)))
    if not assets:  # a build without the page says how to build it
        check(b"DRIFTGATE_WEB=ON" in html, html)
        reason = re.search(rb'<p id="reason">([^<]+)</p>', html)
        check(reason, f"no reason: {html}")
        with open(world.daemon.log, encoding="utf-8", errors="replace") as file:
            logged = [line for line in file if "was built without its page: " in line]
        why = escape.unescape(reason[1].decode())
        check(len(logged) == 1 and f" warning this program was built without its page: {why}; the API and all commands work" in logged[0],
              f"logged: {logged}, shown: {why}")
        print("built without the page")
        return
    status, headers, _ = page_of(world, "/")
    status, _, body = page_of(world, "/", If_None_Match=headers["etag"])
    check(status == 304 and body == b"", f"{status} {body[:50]}")
    for path in map(bytes.decode, assets):
        status, plain, bytes_ = page_of(world, path)
        check(status == 200 and plain["cache-control"] == "public, max-age=31536000, immutable", f"{path}: {plain}")
        is_guarded(plain)
        _, packed, smaller = page_of(world, path, Accept_Encoding="gzip")
        check(packed["content-encoding"] == "gzip" and gzip.decompress(smaller) == bytes_, f"{path}: {packed}")
        _, brotli, _ = page_of(world, path, Accept_Encoding="gzip, deflate, br")
        check(brotli["content-encoding"] == "br" and len({plain["etag"], packed["etag"], brotli["etag"]}) == 3, f"{path}: {brotli}")
        for answer in (plain, packed, brotli):
            check(answer["vary"] == "Accept-Encoding", f"{path}: {answer}")


TESTS = [
    a_token_signs_in_and_its_cookie_works_until_it_signs_out,
    changes_need_the_csrf_token_and_other_sites_are_refused,
    streams_end_with_their_session_or_its_token,
    sessions_survive_a_restart_and_end_with_their_key,
    a_restore_brings_no_ended_session_back,
    a_token_has_twenty_sessions_at_most,
    failed_guesses_hold_up_nobody_else_at_their_address,
    the_page_is_served_with_strict_headers_and_beside_the_api,
]

if __name__ == "__main__":
    run({test.__name__: test for test in TESTS})
