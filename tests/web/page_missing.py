"""A build without its page says why: the reason file, what scripts/build prints, and the C++ source with the reason. Stand-ins
for node and npm fail as the real ones do, in a tree of a few files around cmake/web.cmake. page_missing.py TEST runs one."""
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cmake"))
import npm_reason  # noqa: E402  (the folder is known only now)

COPIED = ("cmake/web.cmake", "cmake/npm_reason.py", "cmake/embed_web.py", "daemon/web/no_files.cpp.in", "scripts/build", "scripts/page-note")
TOOLS = ("bash", "cmake", "cat", "dirname", "env", "mkdir", "ninja", "nproc", "python3", "sh", "touch")
LISTS = """cmake_minimum_required(VERSION 3.25)
project(tree LANGUAGES NONE)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_SOURCE_DIR}/cmake)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
include(web)
if(NOT DRIFTGATE_WEB_FOUND)
  driftgate_write_no_files(${CMAKE_BINARY_DIR}/no_files.cpp)
endif()
add_custom_target(driftgate ALL COMMAND ${CMAKE_COMMAND} -E echo "made driftgate")
add_custom_target(tinylm COMMAND ${CMAKE_COMMAND} -E echo "made tinylm")
"""
NODE = '#!/bin/sh\necho "$(cat "$(dirname "$0")/node.version")"\n'
NPM = """#!/bin/sh
here=$(dirname "$0")
[ -f "$here/npm.log" ] || { mkdir -p node_modules && touch node_modules/.package-lock.json && exit 0; }
cat "$here/npm.log" >&2
exit 1
"""
TRUST = "npm does not trust the certificate of its registry"
SET_CA = "set NODE_EXTRA_CA_CERTS, or npm's cafile, to your certificate authorities"
REACH = "npm cannot reach its registry"
GIVE_ACCESS = "give this machine access to npm's registry (npm's settings registry, proxy and https-proxy)"
INSTALL = "install Node.js 18 or newer with npm (Debian 12: nodejs and npm)"
CERTIFICATE = """npm ERR! code SELF_SIGNED_CERT_IN_CHAIN
npm ERR! errno SELF_SIGNED_CERT_IN_CHAIN
npm ERR! request to https://registry.npmjs.org/esbuild failed, reason: self-signed certificate in certificate chain

npm ERR! A complete log of this run can be found in:
npm ERR!     /var/cache/npm/_logs/1-debug-0.log
"""


def check(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")


class Tree:
    """A source tree with stand-ins in a PATH of its own."""

    def __init__(self, folder):
        self.folder, self.tools = pathlib.Path(folder, "source"), pathlib.Path(folder, "tools")
        self.build = pathlib.Path(folder, "build")
        for name in COPIED:
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
        (self.folder / "web").mkdir()
        for name in ("package.json", "package-lock.json"):
            (self.folder / "web" / name).write_text("{}\n", encoding="utf-8")
        (self.folder / "CMakeLists.txt").write_text(LISTS, encoding="utf-8")
        self.tools.mkdir()
        for name in TOOLS:
            found = sys.executable if name == "python3" else shutil.which(name)  # a launcher may not run under another name
            check(found, f"there is no {name}")
            (self.tools / name).symlink_to(found)
        self.program("node", NODE)
        self.program("npm", NPM)
        self.node("v18.20.4")

    def program(self, name, text):
        path = self.tools / name
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def node(self, version):
        (self.tools / "node.version").write_text(version, encoding="utf-8")

    def npm_fails(self, log):
        (self.tools / "npm.log").write_text(log, encoding="utf-8")

    def npm_works(self):
        (self.tools / "npm.log").unlink(missing_ok=True)

    def made(self, *arguments, targets="all"):
        """What scripts/build does; only the tools of this tree are found."""
        environment = {"PATH": str(self.tools), "DRIFTGATE_TARGETS": targets, "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
        return subprocess.run([self.folder / "scripts/build", self.build, "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF", *arguments],
                              env=environment, capture_output=True, encoding="utf-8", timeout=100)

    def note(self):
        file = self.build / "page-missing.txt"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else None

    def compiled(self, member):
        """What the literal in the C++ source means."""
        text = (self.build / "no_files.cpp").read_text(encoding="utf-8")
        found = re.search(rf'\.{member} = "((?:[^"\\\n]|\\["\\])*)"[,}}]', text)
        check(found, f"no sound literal for {member} in {text}")
        return re.sub(r"\\(.)", r"\1", found[1])


def says(tree, reason, remedy, *arguments):
    """A build that succeeds without its page, and says why, everywhere."""
    done = tree.made(*arguments)
    check(done.returncode == 0 and "made driftgate" in done.stdout, f"{reason}: {done.stdout} {done.stderr}")
    check(tree.note() == [reason, remedy], f"expected {[reason, remedy]}, the note is {tree.note()}")
    check((tree.compiled("reason"), tree.compiled("remedy")) == (reason, remedy),
          f"{reason}: the program is told {tree.compiled('reason')}, {tree.compiled('remedy')}")
    lines = done.stderr.strip().splitlines()
    check(2 <= len(lines) <= 4 and all(line.startswith("*** ") for line in lines), f"not a block: {done.stderr}")
    check("has no page" in lines[0] and f"Why: {reason}." in lines[1] and remedy in lines[2] and "-DDRIFTGATE_WEB=ON" in lines[3],
          f"{reason}: printed was {done.stderr}")
    check(len(reason) <= 300 and "\n" not in reason, f"too long: {reason}")


def typical_failures_of_npm_are_explained(_):
    cases = (
        (CERTIFICATE, f"{TRUST} (SELF_SIGNED_CERT_IN_CHAIN: request to https://registry.npmjs.org/esbuild failed, "
                      "reason: self-signed certificate in certificate chain)", SET_CA),
        (CERTIFICATE.replace("ERR!", "error").replace("SELF_SIGNED_CERT_IN_CHAIN", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY")
         .replace("self-signed certificate in certificate chain", "unable to get local issuer certificate"),
         f"{TRUST} (UNABLE_TO_GET_ISSUER_CERT_LOCALLY: request to https://registry.npmjs.org/esbuild failed, "
         "reason: unable to get local issuer certificate)", SET_CA),
        ("npm error code UNABLE_TO_VERIFY_LEAF_SIGNATURE\nnpm error request to https://r.example/a failed, reason: unable to verify "
         "the first certificate\n", f"{TRUST} (UNABLE_TO_VERIFY_LEAF_SIGNATURE: request to https://r.example/a failed, "
                                    "reason: unable to verify the first certificate)", SET_CA),
        ("npm error code CERT_HAS_EXPIRED\nnpm error errno CERT_HAS_EXPIRED\nnpm error request to https://r.example/a failed, "
         "reason: certificate has expired\n",
         f"{TRUST} (CERT_HAS_EXPIRED: request to https://r.example/a failed, reason: certificate has expired)",
         "compare this machine's clock with the dates of the registry's certificate"),
        ("npm ERR! code ENOTFOUND\nnpm ERR! syscall getaddrinfo\nnpm ERR! errno ENOTFOUND\nnpm ERR! network request to "
         "https://registry.npmjs.org/uplot failed, reason: getaddrinfo ENOTFOUND registry.npmjs.org\n"
         "npm ERR! network This is a problem related to network connectivity.\n",
         f"{REACH} (request to https://registry.npmjs.org/uplot failed, reason: getaddrinfo ENOTFOUND registry.npmjs.org)", GIVE_ACCESS),
        ("npm error code EAI_AGAIN\nnpm error errno EAI_AGAIN\nnpm error network request to https://r.example/a failed, reason: "
         "getaddrinfo EAI_AGAIN r.example\n",
         f"{REACH} (request to https://r.example/a failed, reason: getaddrinfo EAI_AGAIN r.example)", GIVE_ACCESS),
        ("npm error code ECONNREFUSED\nnpm error syscall connect\nnpm error FetchError: request to http://127.0.0.1:9/uplot failed, reason: "
         "connect ECONNREFUSED 127.0.0.1:9\nnpm error     at ClientRequest.<anonymous> (index.js:130:14) {\nnpm error   code: 'ECONNREFUSED',\n",
         f"{REACH} (request to http://127.0.0.1:9/uplot failed, reason: connect ECONNREFUSED 127.0.0.1:9)", GIVE_ACCESS),
        ("npm error errno ETIMEDOUT\nnpm error network request to https://r.example/a failed, reason: \n",
         f"{REACH} (ETIMEDOUT: request to https://r.example/a failed, reason:)", GIVE_ACCESS),
        ("npm error code E401\nnpm error 401 Unauthorized - GET https://r.example/uplot\n",
         "npm's registry, or a proxy, refuses npm (E401: 401 Unauthorized - GET https://r.example/uplot)",
         "correct npm's login and its settings registry and proxy"),
        ("npm warn deprecated\nnpm error code EUSAGE\nnpm error\nnpm error `npm ci` can only install packages when they are in sync.\n",
         "'npm ci' in web/ failed (EUSAGE: `npm ci` can only install packages when they are in sync.)",
         "repair what npm names; npm.log in the build folder has all that it said"),
        ("node:internal/modules/cjs/loader:1228\n  throw err;\n\nError: Cannot find module 'semver'\n",
         "'npm ci' in web/ failed (Cannot find module 'semver')", "repair what npm names; npm.log in the build folder has all that it said"),
        ("", "'npm ci' in web/ failed (it ended with 1 and said nothing)",
         "repair what npm names; npm.log in the build folder has all that it said"),
    )
    for log, reason, remedy in cases:
        told = npm_reason.reason(log, "1")
        check(told == (reason, remedy), f"expected {(reason, remedy)}, told is {told}")
    told = npm_reason.reason("Warning: Ignoring extra certs from `/etc/gone.pem`, load failed: error:80000002\n" + CERTIFICATE, "1")
    check(told[0].startswith(TRUST) and "that can be read" in told[1], f"a file that is not there: {told}")
    told = npm_reason.reason("npm warn deprecated x\n", "Process terminated due to timeout")
    check(told[0].startswith("npm did not end in time (") and told[1] == GIVE_ACCESS, f"a time limit: {told}")


def what_npm_says_reaches_the_note_the_terminal_and_the_program(tree):
    for log in (CERTIFICATE, "npm error code ENOTFOUND\nnpm error network request to https://r.example/a failed, reason: getaddrinfo ENOTFOUND r.example\n"):
        tree.npm_fails(log)
        says(tree, *npm_reason.reason(log, "1"))


def what_npm_says_is_no_code_and_not_endless(tree):
    hostile = r"""can't read "C:\new\x41"; @reason@ ${HOME} $ENV{PATH} [a;b] \" <b> %s \\"""
    tree.npm_fails(f"npm error code EODD\nnpm error {hostile}\n")
    says(tree, f"'npm ci' in web/ failed (EODD: {hostile})", "repair what npm names; npm.log in the build folder has all that it said")
    told, _ = npm_reason.reason("npm error code ELONG\nnpm error \x1b[31m" + "word\t" * 1000 + "\n", "1")
    check(len(told) <= 300 and told.startswith("'npm ci' in web/ failed (ELONG: word word word ") and told.endswith("…)"), told)


def credentials_reach_neither_the_note_nor_the_program(tree):
    urls = {
        "https://user:s3cret@r.example/a": "https://r.example/a",
        "https://s3cret@r.example/a": "https://r.example/a",
        "https://user:p/s3cret@r.example/a": "https://r.example/a",
        "https://r.example/a?token=s3cret&x=1": "https://r.example/a",
        "http://[::1]:4873/@types%2fnode": "http://[::1]:4873/@types%2fnode",
        "http://127.0.0.1:4873/@types%2fnode": "http://127.0.0.1:4873/@types%2fnode",
        "//r.example/:_authToken=s3cret": "//r.example/:_authToken=***",
        "bob:s3cret@proxy.example:3128": "proxy.example:3128",
        "Bearer s3cret0123456789": "Bearer ***",
        "npm_s3cretABCDEFGHIJKLMNOP": "***",
    }
    for url, shown in urls.items():
        log = f"npm error code ENOTFOUND\nnpm error network request to {url} failed, reason: none\n"
        told, _ = npm_reason.reason(log, "1")
        check(told == f"{REACH} (ENOTFOUND: request to {shown} failed, reason: none)", f"{url}: {told}")
    tree.npm_fails(CERTIFICATE.replace("https://", "https://user:s3cret@"))
    printed = tree.made().stderr
    compiled = (tree.build / "no_files.cpp").read_text(encoding="utf-8")
    for text in (printed, compiled, "".join(tree.note())):
        check("s3cret" not in text and "https://registry.npmjs.org/esbuild" in text, text)


def a_missing_or_old_node_is_named(tree):
    tree.node("v16.20.2")
    says(tree, "Node.js 16.20.2 was found, and 18 or newer is needed", INSTALL)
    tree.node("no version")
    says(tree, "node was found, but does not say its version", INSTALL)
    for gone, reason in (("npm", "node was found, but no npm"), ("node", "neither node nor npm was found")):
        (tree.tools / gone).unlink()
        shutil.rmtree(tree.build)
        says(tree, reason, INSTALL)
    tree.program("npm", NPM)
    says(tree, "npm was found, but no node", INSTALL)


def a_page_that_is_built_or_not_wanted_leaves_no_note(tree):
    tree.npm_fails(CERTIFICATE)
    tree.made()
    check(tree.note(), "no note to begin with")
    for option, reason in (("-DDRIFTGATE_WEB=OFF", "built with DRIFTGATE_WEB=OFF"), ("-DDRIFTGATE_SANITIZE=address", "built with DRIFTGATE_SANITIZE=address")):
        done = tree.made("-DDRIFTGATE_WEB=AUTO", option)
        check(done.returncode == 0 and tree.note() is None and not done.stderr, f"{option}: {done.stderr} {tree.note()}")
        check((tree.compiled("reason"), tree.compiled("remedy")) == (reason, ""), tree.compiled("reason"))
    done = tree.made("-DDRIFTGATE_WEB=AUTO", "-DDRIFTGATE_SANITIZE=", "-DDRIFTGATE_ONLY=schema")
    check(done.returncode == 0 and tree.note() is None and not done.stderr, f"a build without the program: {done.stderr}")
    done = tree.made("-UDRIFTGATE_ONLY", targets="tinylm")
    check(done.returncode == 0 and tree.note() and not done.stderr, f"a build of another program: {done.stderr}")
    done = tree.made(targets="tinylm driftgate")
    check("has no page" in done.stderr, f"a build of the program: {done.stderr}")
    done = tree.made("-DDRIFTGATE_WEB=ON")
    told = " ".join(done.stderr.split())  # CMake breaks lines
    check(done.returncode != 0 and "self-signed certificate in certificate chain" in told and SET_CA in told, f"ON: {done.stderr}")
    check(tree.note() is None, "a note beside an error")
    tree.npm_works()
    done = tree.made("-DDRIFTGATE_WEB=AUTO")
    check(done.returncode == 0 and tree.note() is None and not done.stderr, f"with npm: {done.stdout} {done.stderr}")
    check("Page: on, Node.js 18.20.4" in (tree.build / "configure.log").read_text(encoding="utf-8"), "the page is not on")


TESTS = [
    typical_failures_of_npm_are_explained,
    what_npm_says_reaches_the_note_the_terminal_and_the_program,
    what_npm_says_is_no_code_and_not_endless,
    credentials_reach_neither_the_note_nor_the_program,
    a_missing_or_old_node_is_named,
    a_page_that_is_built_or_not_wanted_leaves_no_note,
]

if __name__ == "__main__":
    for test in TESTS:
        if len(sys.argv) < 2 or test.__name__ in sys.argv[1:]:
            with tempfile.TemporaryDirectory() as place:
                test(Tree(place))
            print(f"ok: {test.__name__}")
