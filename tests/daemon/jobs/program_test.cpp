#include "daemon/jobs/program.hpp"

#include <signal.h>

#include <cerrno>

#include "tests/daemon/jobs/temp_folder.hpp"

using namespace driftgate::jobs;
using driftgate::jobs::testing::TempFolder;
using driftgate::schema::ErrorCode;

namespace {

Program shell(const TempFolder& folder, const std::string& script) {
  Program program;
  program.argv = {"/bin/sh", "-c", script};
  program.working_folder = folder.path.string();
  program.limits.wall_ms = 60'000;
  return program;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

TEST_CASE("a program's exit code and output come back, and its environment is cleared") {
  const TempFolder folder;
  ::setenv("DRIFTGATE_SECRET", "1", 1);
  const auto ended = run_program(shell(folder, "env; echo out; echo err >&2; exit 3"));
  ::unsetenv("DRIFTGATE_SECRET");
  REQUIRE(ended.has_value());
  CHECK(ended->exit_code == 3);
  CHECK(ended->output.find("out\n") != std::string::npos);
  CHECK(ended->output.find("err\n") != std::string::npos);
  CHECK(ended->output.find("DRIFTGATE_SECRET") == std::string::npos);
}

TEST_CASE("a program is told which GPUs Slurm gave its job") {
  const TempFolder folder;
  ::setenv("CUDA_VISIBLE_DEVICES", "3", 1);
  ::setenv("SLURM_JOB_ID", "17", 1);
  ::setenv("SLURM_CONF", "/nowhere", 1);
  const auto ended = run_program(shell(folder, "env"));
  for (const auto* name : {"CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "SLURM_CONF"}) ::unsetenv(name);
  REQUIRE(ended.has_value());
  CHECK(ended->output.find("CUDA_VISIBLE_DEVICES=3\n") != std::string::npos);
  CHECK(ended->output.find("SLURM_JOB_ID=17\n") != std::string::npos);
  CHECK(ended->output.find("SLURM_CONF") == std::string::npos);
}

TEST_CASE("a program that uses too much CPU time is ended by a signal that says so") {
  const TempFolder folder;
  auto program = shell(folder, "while :; do :; done");
  program.limits.cpu_seconds = 1;
  const auto ended = run_program(program);
  REQUIRE(ended.has_value());
  CHECK(ended->signal == SIGXCPU);
}

TEST_CASE("a program that floods its output is cut at the limit and still ends") {
  const TempFolder folder;
  auto program = shell(folder, "head -c 5000000 /dev/zero; exit 0");
  program.limits.output_bytes = 1'000;
  const auto ended = run_program(program);
  REQUIRE(ended.has_value());
  CHECK(ended->exit_code == 0);
  CHECK(ended->output_cut);
  CHECK(ended->output.size() == 1'000);
}

TEST_CASE("a program that hangs is killed at its wall-clock limit with all that it started") {
  const TempFolder folder;
  auto program = shell(folder, "setsid sleep 1000 & echo $! > child; sleep 1000");
  std::string child;
  // A limit that comes before the program got as far as its child is doubled.
  for (std::int64_t wall_ms = 300; !child.ends_with('\n') && wall_ms < 100'000; wall_ms *= 2) {
    program.limits.wall_ms = wall_ms;
    const auto ended = run_program(program);
    REQUIRE_FALSE(ended.has_value());
    CHECK(ended.error().code == ErrorCode::deadline_exceeded);
    child = text_of(folder.path / "child");
  }
  REQUIRE_FALSE(child.empty());
  CHECK(::kill(std::stoi(child), 0) == -1);
  CHECK(errno == ESRCH);
}

TEST_CASE("what a program leaves behind is killed when it ends") {
  const TempFolder folder;
  const auto ended =
      run_program(shell(folder, "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > child; exit 0"));
  REQUIRE(ended.has_value());
  CHECK(::kill(std::stoi(text_of(folder.path / "child")), 0) == -1);
}

TEST_CASE("a program that is no program is refused by name") {
  const TempFolder folder;
  Program program;
  program.argv = {"/nowhere/adapter"};
  CHECK(run_program(program).error().code == ErrorCode::not_found);
  program.argv = {"adapter"};
  CHECK(run_program(program).error().code == ErrorCode::invalid_argument);
}
