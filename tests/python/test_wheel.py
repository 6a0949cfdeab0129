"""The wheel is the same bytes each time, its record is true, and it works where nothing else of driftgate is."""
import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = os.environ["DRIFTGATE_ROOT"]
LIBRARY = os.environ.get("DRIFTGATE_WHEEL_LIBRARY")
TRY = """
import array, driftgate
rows = [memoryview(array.array("f", [0.1 * i * k for i in range(12)])).cast("B").cast("f", (3, 4)) for k in (1.0, 1.01)]
drift = driftgate.drift(*rows, tokens=[0, 1, 2])
print(driftgate.__version__, drift["rows"], driftgate._abi.lib._name)
"""


def wheel(folder):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "wheel"), folder, "--library", LIBRARY],
                          capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout.strip()


@unittest.skipUnless(LIBRARY, "there are no static libraries of yaml-cpp and OpenSSL")
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.made.cleanup)
        cls.path = wheel(os.path.join(cls.made.name, "one"))

    def test_it_is_the_same_each_time(self):
        with open(self.path, "rb") as one, open(wheel(os.path.join(self.made.name, "two")), "rb") as two:
            self.assertEqual(one.read(), two.read())

    def test_its_entry_points_exist(self):
        with zipfile.ZipFile(self.path) as files:
            name = next(name for name in files.namelist() if name.endswith("/entry_points.txt"))
            text = files.read(name).decode()
            self.assertIn("[vllm.general_plugins]\n", text)
            for module, function in re.findall(r"^\w+ = ([\w.]+)(?::(\w+))?$", text, re.M):
                source = files.read(module.replace(".", "/") + ".py").decode()
                self.assertIn(f"def {function}(" if function else "", source)

    def test_it_serves_every_python_of_this_platform(self):
        self.assertRegex(os.path.basename(self.path),
                         r"^driftgate-\d+\.\d+\.\d+-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl$")

    def test_the_record_is_true(self):
        with zipfile.ZipFile(self.path) as files:
            record = next(name for name in files.namelist() if name.endswith("/RECORD"))
            lines = dict(line.split(",", 1) for line in files.read(record).decode().splitlines())
            self.assertEqual(set(lines), set(files.namelist()))
            for name, said in lines.items():
                if name != record:
                    data = files.read(name)
                    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                    self.assertEqual(said, f"sha256={digest},{len(data)}", name)
            package = {os.path.relpath(os.path.join(folder, name), os.path.join(ROOT, "python"))
                       for folder, _, names in os.walk(os.path.join(ROOT, "python", "driftgate"))
                       for name in names if name.endswith((".py", ".typed"))}
            self.assertLessEqual(package, set(lines))
            if "driftgate/pytest_plugin.py" in lines:
                points = files.read(record.replace("RECORD", "entry_points.txt")).decode()
                self.assertIn("[pytest11]\ndriftgate = driftgate.pytest_plugin\n", points)

    def test_a_library_that_needs_others_is_refused(self):
        program = os.environ["DRIFTGATE_BIN"]  # needs libfmt and more
        done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "wheel"), self.made.name, "--library",
                               program], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"needs .*libfmt.*, which other systems have not")

    def test_pip_installs_it_into_a_new_environment(self):
        folder = os.path.join(self.made.name, "venv")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
        python = os.path.join(folder, "bin", "python")
        clean = {name: value for name, value in os.environ.items() if not re.match("DRIFTGATE|PYTHON", name)}
        subprocess.run([python, "-m", "pip", "install", "--no-index", "--quiet", self.path], check=True, env=clean,
                       capture_output=True, cwd=folder)
        said = subprocess.run([python, "-c", TRY], check=True, env=clean, capture_output=True, text=True, cwd=folder)
        version, rows, library = said.stdout.split()
        self.assertEqual((version, rows), (re.search(r"-([\d.]+)-py3", self.path).group(1), "3"))
        self.assertTrue(library.startswith(folder), library)
        subprocess.run([python, "-m", "pip", "uninstall", "--yes", "--quiet", "driftgate"], check=True, env=clean,
                       capture_output=True, cwd=folder)
        gone = subprocess.run([python, "-c", "import driftgate"], env=clean, capture_output=True, text=True, cwd=folder)
        self.assertIn("No module named 'driftgate'", gone.stderr)


class Absent(unittest.TestCase):
    def test_a_missing_library_says_what_to_do(self):
        environment = {**os.environ, "DRIFTGATE_LIBRARY": "/absent/libdriftgate.so.1"}
        done = subprocess.run([sys.executable, "-c", "import driftgate; print('imported'); driftgate.Capture.open('x')"],
                              capture_output=True, text=True, env=environment)
        self.assertEqual(done.stdout, "imported\n")
        self.assertRegex(done.stderr, "LibraryNotFound: .*absent.*DRIFTGATE_LIBRARY")


if __name__ == "__main__":
    unittest.main()
