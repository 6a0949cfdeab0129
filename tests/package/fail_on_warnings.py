"""A warning stops a build with DRIFTGATE_WERROR=ON and no other, and both share ccache's results: a project of one source
with the flags of cmake/driftgate.cmake. Usage: fail_on_warnings.py"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(one LANGUAGES C CXX)
include({ROOT}/cmake/driftgate.cmake)
add_library(one STATIC one.cpp)
target_link_libraries(one PRIVATE driftgate_flags)
"""
WARNS = "int one(int unused) { return 1; }\n"
CLEAN = "int one(int) { return 1; }\n"


class Project:
    def __init__(self, folder):
        self.folder, self.build = folder, folder / "build"
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("CCACHE_")}
        self.environment |= {"CCACHE_DIR": str(folder / "ccache"), "CCACHE_DEPEND": "1"}
        (folder / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")

    def run(self, *words):
        return subprocess.run(words, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def made(self, source, option):
        """Exit code and output of the build of this source in the one build folder."""
        (self.folder / "one.cpp").write_text(source, encoding="utf-8")
        configured = self.run("cmake", "-S", str(self.folder), "-B", str(self.build), "-G", "Ninja", f"-DDRIFTGATE_WERROR={option}")
        assert configured.returncode == 0, configured.stdout
        done = self.run("cmake", "--build", str(self.build))
        return done.returncode, done.stdout

    def hits(self):
        counts = dict(line.split("\t") for line in self.run("ccache", "--print-stats").stdout.splitlines())
        return int(counts["direct_cache_hit"])


def main():
    with tempfile.TemporaryDirectory(prefix="dg-warnings-") as name:
        project = Project(pathlib.Path(name))
        code, said = project.made(WARNS, "OFF")
        assert code == 0 and "-Wunused-parameter" in said, f"a warning stops a build that does not ask for it ({code}):\n{said}"
        # What was compiled before the option was set is judged as well.
        code, said = project.made(WARNS, "ON")
        assert code != 0 and "-Wunused-parameter" in said, f"a warning does not stop a build that asks for it:\n{said}"
        if shutil.which("ccache"):
            assert project.hits() == 1, f"the option makes ccache compile again ({project.hits()} hits)"
        else:
            print("ccache is not installed: what it repeats is not tested")
        code, said = project.made(CLEAN, "ON")
        assert code == 0, f"a source without warnings does not compile:\n{said}"
        code, said = project.made("no source\n", "ON")
        assert code != 0 and "error:" in said, f"an error does not stop the build:\n{said}"


if __name__ == "__main__":
    sys.exit(main())
