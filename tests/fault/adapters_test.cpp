#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "daemon/jobs/program.hpp"
#include "tests/daemon/store/temp_dir.hpp"
#include "tests/fault/column.hpp"

using namespace driftgate;
using store::testing::TempDir;

namespace {

constexpr std::int64_t kWall_ms = 250;
constexpr int kTimes = 10;

/// Runs the script under the limits and gives the pids that it wrote to the file "pids".
schema::Result<jobs::ProgramEnd> run(const TempDir& dir, const std::string& script) {
  jobs::Program program;
  program.argv = {"/bin/sh", "-c", script};
  program.working_folder = dir.path().string();
  program.limits.wall_ms = kWall_ms;
  program.limits.output_bytes = 4'096;
  return jobs::run_program(program);
}

/// No process that wrote its number lives on; returns how many there were.
int check_gone(const TempDir& dir) {
  std::ifstream file(dir.path() / "pids");
  int count = 0;
  for (int pid = 0; file >> pid; ++count) CHECK_MESSAGE(::kill(pid, 0) == -1, "process ", pid, " lives on");
  return count;
}

}  // namespace

TEST_CASE("an adapter that hangs is killed at its limit, whatever it ignores") {
  for (int i = 0; i < kTimes; ++i) {
    TempDir dir;
    const auto began = std::chrono::steady_clock::now();
    const auto ended = run(dir, "trap '' TERM INT HUP; echo $$ >> pids; while :; do sleep 1000; done");
    const auto took = std::chrono::steady_clock::now() - began;
    REQUIRE_FALSE(ended.has_value());
    CHECK(ended.error().code == schema::ErrorCode::deadline_exceeded);
    CHECK(took >= std::chrono::milliseconds(kWall_ms));
    CHECK(check_gone(dir) == 1);
  }
  fault::tell("adapters that hang", 0, fmt::format("{} killed at their limit", kTimes));
}

TEST_CASE("an adapter that floods its output is cut, and killed at its limit when it does not end") {
  for (int i = 0; i < kTimes; ++i) {
    TempDir dir;
    const bool ends = i % 2 == 0;
    const auto ended = run(dir, ends ? "echo $$ >> pids; head -c 3000000 /dev/zero; exit 5"
                                     : "echo $$ >> pids; exec cat /dev/zero");
    CHECK(ended.has_value() == ends);
    if (ends) {
      CHECK(ended->exit_code == 5);
      CHECK(ended->output_cut);
      CHECK(ended->output.size() == 4'096);
    }
    CHECK(check_gone(dir) == 1);
  }
  fault::tell("adapters that flood", 0,
              fmt::format("{}, output cut, half of them killed at their limit", kTimes));
}

TEST_CASE("an adapter that forks, in new sessions and from orphans, leaves no process behind") {
  constexpr const char* kForks =
      "echo $$ >> pids; i=0; while [ $i -lt 6 ]; do i=$((i+1)); "
      "(setsid sh -c 'trap \"\" TERM HUP; echo $$ >> pids; (sleep 1000 & echo $! >> pids); sleep 1000' &) ; "
      "done; ";
  int processes = 0;
  for (int i = 0; i < kTimes; ++i) {
    TempDir dir;
    const auto ended = run(dir, std::string(kForks) + (i % 2 == 0 ? "sleep 1000" : "sleep 0.1; exit 0"));
    CHECK(ended.has_value() == (i % 2 != 0));
    const int count = check_gone(dir);
    CHECK(count > 1);
    processes += count;
  }
  fault::tell("adapters that fork", 0, fmt::format("{}, {} processes, none left", kTimes, processes));
}
