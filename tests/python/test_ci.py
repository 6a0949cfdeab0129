"""docs/ci.md: its shell blocks, and the commands of driftgate in its jobs, as they stand there."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy

import captures

ROOT = os.environ["DRIFTGATE_ROOT"]
with open(os.path.join(ROOT, "docs", "ci.md"), encoding="utf-8") as page:
    PAGE = page.read()
SEQUENCES, ROWS, COLUMNS = 160, 640, 50
CONTRACT = """apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: ci}
kernels: {train: {ref: train}, inf: {ref: inf}}
numerical:
  - {id: finite, metric: nonfinite, aggregate: sum, max: 0}
  - {id: tv, metric: tv, aggregate: sequence_mean, clip: 0.5, max: 0.05}
"""


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.S | re.M)


def commands():
    """Every command `driftgate drift …` of the jobs, on one line."""
    found = []
    for text in blocks("yaml") + blocks("groovy"):
        whole = re.sub(r"\s*\\\n\s*", " ", text)
        whole = re.sub(r"\n\s+--", " --", whole)
        found += re.findall(r"(driftgate drift [^\n']*)", whole)
    return found


class Page(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = made.name
        os.makedirs(os.path.join(self.folder, "bin"))
        os.symlink(captures.DRIFTGATE, os.path.join(self.folder, "bin", "driftgate"))
        os.symlink(sys.executable, os.path.join(self.folder, "bin", "python3"))
        shutil.copytree(os.path.join(ROOT, "examples", "pytest"), os.path.join(self.folder, "examples", "pytest"),
                        ignore=shutil.ignore_patterns("__pycache__"))
        with open(os.path.join(self.folder, "contract.yaml"), "w", encoding="utf-8") as file:
            file.write(CONTRACT)
        with open(os.path.join(self.folder, "corpus.jsonl"), "w", encoding="utf-8") as file:
            for i in range(SEQUENCES):
                file.write(json.dumps({"sequence": i, "slices": {"language": "de" if i % 4 == 0 else "en"}}) + "\n")

    def captures(self, factor):
        train, inf = captures.logits(ROWS, COLUMNS)
        sequences = numpy.repeat(numpy.arange(SEQUENCES), ROWS // SEQUENCES)
        for name, data in (("train", train), ("inf", inf * numpy.float32(factor))):
            captures.write(os.path.join(self.folder, f"{name}.safetensors"),
                           {"logits": ("F32", data.shape, data.tobytes()), "sequence_ids": captures.ids(sequences)},
                           kernel=name)

    def run_shell(self, command):
        environment = {**os.environ, "PATH": os.path.join(self.folder, "bin") + ":/usr/bin:/bin",
                       "PYTEST_ADDOPTS": "-p driftgate.pytest_plugin -p no:cacheprovider"}
        return subprocess.run(["bash", "-ec", command], cwd=self.folder, env=environment, capture_output=True, text=True,
                              timeout=200)

    def exists(self, *names):
        for name in names:
            self.assertTrue(os.path.getsize(os.path.join(self.folder, name)) > 100, name)

    def test_reports_of_captures(self):
        shell = blocks("sh")[0]
        for factor, code in ((1.0, 0), (1.8, 1)):
            self.captures(factor)
            ran = self.run_shell(shell)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertIn(f"driftgate ended with {code}\n", ran.stdout)
            self.exists("drift.xml", "drift.md", "drift.html")

    def test_commands_of_the_jobs(self):
        found = commands()
        self.assertEqual(len(found), 3)
        for command in found:
            for factor, code in ((1.0, 0), (1.8, 1)):
                self.captures(factor)
                for name in ("drift.xml", "drift.html"):
                    if os.path.exists(os.path.join(self.folder, name)):
                        os.remove(os.path.join(self.folder, name))
                ran = self.run_shell(command)
                self.assertEqual(ran.returncode, code, command + ran.stderr)
                self.exists("drift.xml", "drift.html")

    def test_the_sample_repository(self):
        try:
            import pytest  # noqa: F401
        except ImportError:
            self.skipTest("there is no pytest")
        ran = self.run_shell(blocks("sh")[1])
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.exists("drift.html", "drift.md", "tests.xml")


if __name__ == "__main__":
    unittest.main()
