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

constexpr std::int64_t kWall_ms = 250;          ///< at first, of what never ends
constexpr std::int64_t kPatience_ms = 120'000;  ///< of what ends on its own
constexpr int kTimes = 10;

/// Runs the script under the limits; it writes the numbers of its processes to the file "pids".
schema::Result<jobs::ProgramEnd> run(const TempDir& dir, const std::string& script, std::int64_t wall_ms) {
  jobs::Program program;
  program.argv = {"/bin/sh", "-c", script};
  program.working_folder = dir.path().string();
  program.limits.wall_ms = wall_ms;
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

/// A script that never ends is killed at its limit with all of its `processes`. A limit that came before they
/// had written their numbers shows too little, and a longer one follows.
void check_killed(const std::string& script, int processes) {
  int count = 0;
  for (auto wall_ms = kWall_ms; count < processes && wall_ms <= kPatience_ms; wall_ms *= 4) {
    TempDir dir;
    const auto began = std::chrono::steady_clock::now();
    const auto ended = run(dir, script, wall_ms);
    CHECK(std::chrono::steady_clock::now() - began >= std::chrono::milliseconds(wall_ms));
    REQUIRE_FALSE(ended.has_value());
    CHECK(ended.error().code == schema::ErrorCode::deadline_exceeded);
    count = check_gone(dir);
  }
  CHECK(count == processes);
}

}  // namespace

TEST_CASE("an adapter that hangs is killed at its limit, whatever it ignores") {
  for (int i = 0; i < kTimes; ++i)
    check_killed("trap '' TERM INT HUP; echo $$ >> pids; while :; do sleep 1000; done", 1);
  fault::tell("adapters that hang", 0, fmt::format("{} killed at their limit", kTimes));
}

TEST_CASE("an adapter that floods its output is cut, and killed at its limit when it does not end") {
  for (int i = 0; i < kTimes; i += 2) {
    check_killed("echo $$ >> pids; exec cat /dev/zero", 1);
    TempDir dir;
    const auto ended = run(dir, "echo $$ >> pids; head -c 3000000 /dev/zero; exit 5", kPatience_ms);
    REQUIRE_MESSAGE(ended.has_value(), ended.error().describe());
    CHECK(ended->exit_code == 5);
    CHECK(ended->output_cut);
    CHECK(ended->output.size() == 4'096);
    CHECK(check_gone(dir) == 1);
  }
  fault::tell("adapters that flood", 0,
              fmt::format("{}, output cut, half of them killed at their limit", kTimes));
}

TEST_CASE("an adapter that forks, in new sessions and from orphans, leaves no process behind") {
  constexpr int kProcesses = 13;
  const std::string forks =
      "echo $$ >> pids; i=0; while [ $i -lt 6 ]; do i=$((i+1)); "
      "(setsid sh -c 'trap \"\" TERM HUP; echo $$ >> pids; (sleep 1000 & echo $! >> pids); sleep 1000' &) ; "
      "done; ";
  for (int i = 0; i < kTimes; i += 2) {
    check_killed(forks + "sleep 1000", kProcesses);
    TempDir dir;
    const auto ended =
        run(dir, forks + fmt::format("until [ $(wc -l < pids) = {} ]; do sleep 0.02; done", kProcesses),
            kPatience_ms);
    REQUIRE_MESSAGE(ended.has_value(), ended.error().describe());
    CHECK(check_gone(dir) == kProcesses);
  }
  fault::tell("adapters that fork", 0,
              fmt::format("{}, {} processes, none left", kTimes, kTimes * kProcesses));
}
