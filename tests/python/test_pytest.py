"""The pytest plugin and the sample repository examples/pytest, by pytest itself in processes of their own."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

try:
    import pytest  # noqa: F401
except ImportError:
    sys.exit(77)

ROOT = os.environ["DRIFTGATE_ROOT"]


class Plugin(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = os.path.join(made.name, "repository")
        shutil.copytree(os.path.join(ROOT, "examples", "pytest"), self.folder,
                        ignore=shutil.ignore_patterns("__pycache__"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def pytest(self, *arguments, **environment):
        return subprocess.run([sys.executable, "-m", "pytest", "-p", "driftgate.pytest_plugin", "-p", "no:cacheprovider",
                               *arguments], cwd=self.folder, env={**os.environ, **environment}, capture_output=True,
                              text=True, timeout=200)

    def test_the_sample_passes(self):
        ran = self.pytest("--driftgate-report", "drift.json")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertIn("PASS          test_kernels.py::test_int8_kernel_keeps_the_contract (int8, 1440 rows)", ran.stdout)
        report = json.loads(self.text("drift.json"))
        self.assertEqual(report[0]["report"]["verdict"], "pass")
        self.assertEqual(report[0]["test"], "test_kernels.py::test_int8_kernel_keeps_the_contract")

    def test_a_wrong_scale_on_one_slice_fails_and_is_named(self):
        reports = [word for suffix in ("html", "md", "json", "xml") for word in ("--driftgate-report", f"drift.{suffix}")]
        ran = self.pytest(*reports, EXAMPLE_FAULT="scale")
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        for words in ("VIOLATED statistical.slice-tv on language=de: ", "worst slice: language=de (60 sequences, 360 rows, ",
                      "worst rows: row ", "pattern: scaled_logits (language=de", "next: Check dequantisation scales",
                      "--driftgate-report drift.html"):
            self.assertIn(words, ran.stdout)
        self.assertIn("VIOLATED      test_kernels.py::test_int8_kernel_keeps_the_contract", ran.stdout)
        self.assertIn("<!doctype html>", self.text("drift.html"))
        self.assertIn("driftgate: VIOLATED", self.text("drift.md"))
        self.assertEqual(json.loads(self.text("drift.json"))[0]["report"]["verdict"], "violated")
        root = ElementTree.fromstring(self.text("drift.xml"))
        self.assertGreater(int(root.get("failures")), 0)
        self.assertEqual(len(list(root.iter("failure"))), int(root.get("failures")))
        self.assertIn("test_int8_kernel_keeps_the_contract", root[0].get("name"))

    def test_a_report_that_cannot_be_written_is_refused_before_a_test_runs(self):
        for path, words in (("drift.pdf", "the suffix says the form"), ("none/drift.md", "cannot be written")):
            ran = self.pytest("--driftgate-report", path)
            self.assertEqual(ran.returncode, 4, ran.stdout)
            self.assertIn(words, ran.stderr)

    def test_limits_markers_and_verdicts(self):
        self.write("test_limits.py", """
import kernels, pytest
from driftgate.testing import DriftError, assert_no_drift

A, B = kernels.train_logits(), kernels.int8_logits()

def test_without_a_limit():
    with pytest.raises(TypeError, match="nothing to assert"):
        assert_no_drift(A, B)

def test_limit_is_beyond():
    with pytest.raises(DriftError, match="numerical.tv") as caught:
        assert_no_drift(A, B, limits={"tv": 1e-6})
    assert caught.value.drift.verdict == "violated"
    assert isinstance(caught.value, AssertionError)

@pytest.mark.driftgate(limits={"tv": 1e-6})
def test_marker_is_beyond(no_drift):
    with pytest.raises(DriftError):
        no_drift(A, B)
    no_drift(A, B, limits={"tv": 0.5})

def test_limits_tell_the_slice_that_drifts_most():
    worse = B.copy()
    worse[::4] *= 1.5
    for slices in ({"language": kernels.LANGUAGES}, [{"language": x} for x in kernels.LANGUAGES],
                   {i: {"language": x} for i, x in enumerate(kernels.LANGUAGES)}):
        with pytest.raises(DriftError, match="worst slice: language=de"):
            assert_no_drift(A, worse, limits={"tv": 1e-3}, slices=slices)

def test_inconclusive_is_no_pass():
    contract = {"apiVersion": "driftgate/v1", "kind": "KernelContract", "metadata": {"name": "few"},
                "kernels": {"train": {"ref": "train"}, "inf": {"ref": "inf"}},
                "numerical": [{"id": "tv", "metric": "tv", "aggregate": "sequence_mean", "max": 0.05}]}
    with pytest.raises(DriftError, match="INCONCLUSIVE"):
        assert_no_drift(A[:3], B[:3], contract=contract)
    assert assert_no_drift(A[:3], B[:3], contract=contract, allow_inconclusive=True).verdict == "inconclusive"
""")
        ran = self.pytest("test_limits.py", "--driftgate-report", "drift.html")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        for number in ("", "-2", "-8"):
            self.assertIn("<!doctype html>", self.text(f"drift{number}.html"))
        self.assertIn("report: drift.html (and 7 more beside it)", ran.stdout)
        self.write("drift-9.html", "<p>Of something else.")
        ran = self.pytest("test_limits.py", "-k", "marker", "--driftgate-report", "drift.html")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if name.startswith("drift")),
                         ["drift-2.html", "drift-9.html", "drift.html"])
        ran = self.pytest("test_limits.py", "-k", "without_a_limit", "--driftgate-report", "drift.html")
        self.assertIn("No comparison was made", self.text("drift.html"))
        self.assertFalse(os.path.exists(self.path("drift-2.html")))

    def test_a_nearer_marker_changes_the_kind_of_limit(self):
        self.write("test_markers.py", """
import kernels, pytest
from driftgate import DriftgateError
from driftgate.testing import DriftError

pytestmark = pytest.mark.driftgate(contract="contract.yaml", slices={"language": kernels.LANGUAGES})
A, B = kernels.train_logits(), kernels.int8_logits()

@pytest.mark.driftgate(limits={"tv": 1e-6})
def test_limits(no_drift):
    with pytest.raises(DriftError, match="contract limits: VIOLATED"):
        no_drift(A, B)

@pytest.mark.driftgate(limits={"tv": 1e-6})
class TestOfLimits:
    @pytest.mark.driftgate(contract={})
    def test_contract(self, no_drift):
        with pytest.raises(DriftgateError, match="the contract has faults"):
            no_drift(A, B)
""")
        ran = self.pytest("test_markers.py")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_tests_that_do_not_use_it_need_no_library(self):
        self.write("test_other.py", "def test_other():\n    pass\n")
        ran = self.pytest("test_other.py", DRIFTGATE_LIBRARY="/absent/libdriftgate.so.1")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        ran = self.pytest("test_kernels.py", DRIFTGATE_LIBRARY="/absent/libdriftgate.so.1")
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        self.assertIn("LibraryNotFound", ran.stdout)

    def test_lower_bounds_are_told_as_such(self):
        self.write("test_bounds.py", """
import numpy, pytest
import driftgate
from driftgate.testing import DriftError, assert_no_drift

def test_bounds():
    a = numpy.full((40, 8), -1, "f4")
    b = a.copy()
    b[::2] -= 0.5
    contract = {"apiVersion": "driftgate/v1", "kind": "KernelContract", "metadata": {"name": "few"},
                "kernels": {"train": {"ref": "train"}, "inf": {"ref": "inf"}}, "slices": {"dimensions": ["l"]},
                "confidence": {"means": "approximate"},
                "numerical": [{"id": "finite", "metric": "nonfinite", "aggregate": "sum", "max": 0},
                              {"id": "ratio", "metric": "abs_log_ratio", "aggregate": "sequence_mean", "max": 0.01}]}
    with pytest.raises(DriftError) as caught:
        assert_no_drift(driftgate.Logprobs(a), driftgate.Logprobs(b), contract, tokens=numpy.zeros((40, 8), int),
                        slices={"l": ["de", "en"] * 20})
    print(caught.value)
""")
        ran = self.pytest("-s", "test_bounds.py")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertRegex(ran.stdout, r"rows, mean kl_inf_train at least [\d.e-]+\)")
        self.assertRegex(ran.stdout, r"worst rows: row \d+ \(.*?, kl_inf_train at least ")
        self.assertNotIn("times the corpus", ran.stdout)


if __name__ == "__main__":
    unittest.main()
