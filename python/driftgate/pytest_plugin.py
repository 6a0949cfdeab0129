"""The pytest plugin: ``--driftgate-report FILE``, the marker ``driftgate``, the fixture ``no_drift`` and a summary."""

import json
import os
import xml.etree.ElementTree as ElementTree
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

import pytest

from . import testing

SUFFIXES = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown", ".json": "json", ".xml": "junit"}
KINDS = ("contract", "limits")  # of limits: a test has one of them
NO_PAGE = '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>driftgate</title><p>No comparison was made.</html>\n'
Seen = Dict[str, Any]


def _form(path: str) -> Optional[str]:
    return SUFFIXES.get(os.path.splitext(path)[1].lower())


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("driftgate")
    group.addoption("--driftgate-report", action="append", default=[], metavar="FILE",
                    help="write what every comparison found; by suffix .html, .md, .json or .xml (JUnit); repeatable")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "driftgate(contract=None, limits=None, **options): defaults of the fixture "
                                       "no_drift in this test")
    for path in config.getoption("--driftgate-report"):
        if _form(path) is None:
            raise pytest.UsageError(f"--driftgate-report {path}: the suffix says the form: .html, .md, .json or .xml")
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK) or os.path.isdir(path):
            raise pytest.UsageError(f"--driftgate-report {path}: cannot be written in {folder}")
    config.pluginmanager.register(_Plugin(config), "driftgate-reports")


def _over(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> Dict[str, Any]:
    """Both; a contract or limits that are given take the place of either in the defaults."""
    has_own = any(given.get(kind) is not None for kind in KINDS)
    return {**{name: value for name, value in defaults.items() if not (has_own and name in KINDS)}, **given}


@pytest.fixture
def no_drift(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`driftgate.testing.assert_no_drift` with the defaults that the marker gives."""
    defaults: Dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("driftgate"))):  # the nearest is the last
        defaults = _over(defaults, marker.kwargs)

    def check(train: Any, inf: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        return testing.assert_no_drift(train, inf, **_over(defaults, options))

    return check


class _Plugin:
    """What the comparisons of this run found, in the order of the tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.paths: List[str] = config.getoption("--driftgate-report")
        self.forms = {form for form in map(_form, self.paths) if form}
        self.seen: List[Seen] = []
        self.test = ""
        testing.observers.append(self.observe)

    def observe(self, result: Any, name: str) -> None:
        made: Seen = {"test": self.test, "name": name, "verdict": result.verdict or "no contract",
                      "rows": result.row_count}
        for form in sorted(self.forms):
            made[form] = getattr(result, "to_" + form)()
        self.seen.append(made)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.test = item.nodeid
        yield

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        testing.observers.remove(self.observe)
        output = getattr(self.config, "workeroutput", None)  # a process of pytest-xdist: the first process writes
        if output is not None:
            output["driftgate"] = json.dumps(self.seen)
            return
        for path in self.paths:
            self.write(path, str(_form(path)))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        self.seen += json.loads(getattr(node, "workeroutput", {}).get("driftgate", "[]"))
        self.seen.sort(key=lambda made: str(made["test"]))

    def write(self, path: str, form: str) -> None:
        texts = [str(made[form]) for made in self.seen]
        if form == "html":  # a page for each comparison: drift.html, drift-2.html …
            for number, text in enumerate(texts or [NO_PAGE], 1):
                _write(_page(path, number), text)
            _remove_pages(path, max(len(texts), 1) + 1)
        elif form == "markdown":
            _write(path, "\n".join(f"# {_code(made)}\n\n{made[form]}" for made in self.seen))
        elif form == "json":
            whole = [{"test": made["test"], "name": made["name"], "report": json.loads(made[form])} for made in self.seen]
            _write(path, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
        else:
            _write(path, _junit(self.seen))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.seen:
            return
        terminalreporter.section("driftgate")
        for made in self.seen:
            terminalreporter.write_line(f"{made['verdict'].upper():<13} {made['test']} ({made['name']}, {made['rows']} "
                                        "rows)")
        for path in self.paths:
            more = f" (and {len(self.seen) - 1} more beside it)" if _form(path) == "html" and len(self.seen) > 1 else ""
            terminalreporter.write_line(f"report: {path}{more}")


def _page(path: str, number: int) -> str:
    stem, suffix = os.path.splitext(path)
    return path if number == 1 else f"{stem}-{number}{suffix}"


def _remove_pages(path: str, number: int) -> None:
    """Those that a former run with more comparisons left, from a number on: nobody shall take them for this run's."""
    while os.path.isfile(_page(path, number)):
        with open(_page(path, number), "rb") as file:
            if b">driftgate<" not in file.read(65536):
                return
        os.remove(_page(path, number))
        number += 1


def _code(made: Seen) -> str:
    title = f"{made['test']} ({made['name']})".replace("`", "'").replace("\n", " ")
    return f"`{title}`"


def _junit(seen: List[Seen]) -> str:
    """One document with a suite for each comparison, named by its test."""
    whole = ElementTree.Element("testsuites", name="driftgate", tests="0", failures="0", errors="0")
    for made in seen:
        for suite in ElementTree.fromstring(made["junit"]):
            suite.set("name", f"{made['test']} ({made['name']})")
            for total in ("tests", "failures", "errors"):
                whole.set(total, str(int(whole.get(total, "0")) + int(suite.get(total, "0"))))
            whole.append(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(whole, encoding="unicode") + "\n"


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
