#!/usr/bin/env python3
"""Runs one file of the page's browser tests: pages.py NAME, such as `views` for mocked/views.test.mjs.

Those of mocked/ need the built page and node; those of real/ also a daemon with tinylm's engines, which this program
starts on free loopback ports and ends. Everything is bounded: the tests' waits by DRIFTGATE_TEST_PATIENCE_S, the whole
by DRIFTGATE_WEB_LIMIT_S.

  DRIFTGATE_WEB_BUILD      folder for what npm installs and for fixtures (default: build/web-tests)
  DRIFTGATE_WEB_DIST       the built page, a folder with manifest.json (default: built from web/ into the folder above)
  DRIFTGATE_BIN, TINYLM_BIN   the programs that tests of real/ start
  DRIFTGATE_CHROMIUM       the browser (default: chromium of the PATH)
  DRIFTGATE_WEB_SHOTS      a folder for screenshots of every view, to be looked at (default: none)
"""
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("DRIFTGATE_WEB_BUILD") or ROOT / "build" / "web-tests").resolve()
LIMIT_S = float(os.environ.get("DRIFTGATE_WEB_LIMIT_S", "900"))
NPM = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")


def once(stamp, sources, make):
    """Calls make() unless the stamp has the digest of the sources already."""
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(str(source.relative_to(ROOT)).encode() + b"\0" + source.read_bytes())
    with contextlib.suppress(FileNotFoundError):
        if stamp.read_text(encoding="ascii") == digest.hexdigest():
            return
    make()
    stamp.write_text(digest.hexdigest(), encoding="ascii")


def npm_ci(source, target):
    """Installs what the lock file of `source` names into `target`, unless it is there."""
    target.mkdir(parents=True, exist_ok=True)
    files = [source / name for name in ("package.json", "package-lock.json", ".npmrc")]

    def install():
        for file in files:
            shutil.copyfile(file, target / file.name)
        done = subprocess.run(NPM, cwd=target, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        if done.returncode != 0:
            sys.exit(f"npm ci in {target} ended with {done.returncode}:\n{done.stdout}{done.stderr}")

    once(target / "npm.stamp", files, install)


def build_page(out):
    """The page as the daemon embeds it, from a copy of web/, so that the sources' folder stays as it is."""
    web, copy = ROOT / "web", BUILD / "page"
    sources = [file for file in web.rglob("*") if file.is_file() and not {"node_modules", "dist", "test"} & set(file.relative_to(web).parts)]

    def make():
        npm_ci(web, copy)
        for file in sources:
            target = copy / file.relative_to(web)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        names = {file.relative_to(web) for file in sources}
        for file in (copy / "src").rglob("*"):
            if file.is_file() and file.relative_to(copy) not in names:
                file.unlink()
        subprocess.run(["node", "build.mjs", "--outdir", out], cwd=copy, check=True, timeout=LIMIT_S)

    once(BUILD / "page.stamp", sources, make)


def installed():
    """The environment of programs that drive the browser, once their packages are installed."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with taking_turns():
        npm_ci(HERE, BUILD)
    return {**os.environ, "DRIFTGATE_WEB_MODULES": str(BUILD),
            "DRIFTGATE_CHROMIUM": os.environ.get("DRIFTGATE_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"}


@contextlib.contextmanager
def taking_turns():
    """Tests run in parallel and prepare one folder."""
    with open(BUILD / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def prepare():
    """The environment of the tests: packages, fixtures and the built page."""
    environment = installed()
    with taking_turns():
        fixtures = BUILD / "fixtures.json"
        sources = [HERE / "fixtures.py", ROOT / "tests" / "vectors" / "folder_44abce1.tar.xz"]
        once(BUILD / "fixtures.stamp", sources, lambda: subprocess.run([sys.executable, HERE / "fixtures.py", fixtures], check=True))
        dist = os.environ.get("DRIFTGATE_WEB_DIST")
        if not dist:
            dist = BUILD / "dist"
            build_page(dist)
    return {**environment, "DRIFTGATE_WEB_FIXTURES": str(fixtures), "DRIFTGATE_WEB_DIST": str(dist)}


def node(file, environment, arguments=()):
    """Runs a program in a process group of its own, which is ended with it: a browser that hangs does not stay."""
    child = subprocess.Popen(["node", str(file), *arguments], env=environment, start_new_session=True)
    try:
        return child.wait(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"{file.name} did not end within {LIMIT_S:.0f} s", file=sys.stderr)
        return 124
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def main(name):
    environment = prepare()
    mocked, real = HERE / "mocked" / f"{name}.test.mjs", HERE / "real" / f"{name}.test.mjs"
    if mocked.exists():
        return node(mocked, environment)
    if not real.exists():
        sys.exit(f"there are no browser tests {name}")
    sys.path.insert(0, str(HERE))
    import daemon_world  # needs the programs' paths in the environment
    with daemon_world.serving(name) as control:
        return node(real, {**environment, "DRIFTGATE_WEB_CONTROL": control})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
