#include "daemon/cli/output_files.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "daemon/cli/exit_codes.hpp"
#include "gpu/capture/safetensors.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;
using cli::check_outputs;
using driftgate::gpu::test::TemporaryFolder;
using driftgate::gpu::test::write_bytes;
using schema::ErrorCode;

namespace {

/// The code of the error with which one output is refused.
ErrorCode refused(const std::string& path, const std::vector<std::string>& inputs = {},
                  bool renamed = false) {
  const auto ok = check_outputs({{"--json", path, renamed}}, inputs);
  REQUIRE_FALSE(ok);
  CHECK(ok.error().message.find(path) != std::string::npos);
  return ok.error().code;
}

/// What a process ends with that has printed `bytes` letters to `path` as its standard output.
int exit_code_of_writer(const char* path, std::size_t bytes) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = ::open(path, O_WRONLY);
    const int quiet = ::open("/dev/null", O_WRONLY);
    if (file < 0 || ::dup2(file, STDOUT_FILENO) < 0 || ::dup2(quiet, STDERR_FILENO) < 0) ::_exit(99);
    for (std::size_t i = 0; i < bytes; ++i) std::fputc('x', stdout);
    ::_exit(cli::finish_output(cli::kExitOk));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("an output that is an input is refused by every name that leads to it") {
  TemporaryFolder folder;
  const std::string input = folder / "a.safetensors";
  write_bytes(input, "x");
  std::filesystem::create_symlink(input, folder / "link");
  std::filesystem::create_hard_link(input, folder / "second");
  for (const std::string& path : {input, (folder / "./a.safetensors").string(), (folder / "link").string(),
                                  (folder / "second").string()}) {
    CHECK(refused(path, {"", input}) == ErrorCode::invalid_argument);
  }
  CHECK(check_outputs({{"--json", folder / "b.json"}}, {input}));
  // A folder of captures: a file that is not there yet would be read as a part of it the next time.
  std::filesystem::create_directory(folder / "captures");
  CHECK(refused(folder / "captures/new.safetensors", {folder / "captures"}) == ErrorCode::invalid_argument);
  CHECK(check_outputs({{"--json", folder / "captures/o.json"}}, {folder / "captures"}));
}

TEST_CASE("two outputs of one name, and standard output where a file is needed, are refused") {
  TemporaryFolder folder;
  const auto both = check_outputs(
      {{"--json", folder / "o"}, {"--certificate", folder / "../" / folder.path().filename() / "o"}}, {});
  REQUIRE_FALSE(both);
  CHECK(both.error().code == ErrorCode::invalid_argument);
  CHECK(both.error().message.find("--json and --certificate") != std::string::npos);
  CHECK(refused("-") == ErrorCode::invalid_argument);
  CHECK(check_outputs({{"--json", ""}, {"--certificate", ""}}, {""}));
}

TEST_CASE("what can not be written is said before any work, and nothing is touched") {
  TemporaryFolder folder;
  CHECK(refused(folder.path()) == ErrorCode::io);
  CHECK(refused(folder / "none/o.json") == ErrorCode::io);
  write_bytes(folder / "file", "kept");
  CHECK(refused(folder / "file/o.json") == ErrorCode::io);
  CHECK(check_outputs({{"--json", folder / "file"}}, {}));
  CHECK(std::filesystem::file_size(folder / "file") == 4);
  CHECK(check_outputs({{"--json", folder / "new"}}, {}));
  CHECK_FALSE(std::filesystem::exists(folder / "new"));
  CHECK(check_outputs({{"--json", "/dev/null"}}, {}));
}

TEST_CASE("a capture is not renamed over a pipe or a device") {
  TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refused(pipe, {}, true) == ErrorCode::io);
  const auto writer = gpu::SafetensorsWriter::create(pipe, {}, {});
  REQUIRE_FALSE(writer);
  CHECK(writer.error().message.find("not a regular file") != std::string::npos);
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK_FALSE(std::filesystem::exists(pipe + ".partial"));
}

TEST_CASE("standard output that takes no more is exit 74, also of what only the buffer held") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 20}) {
    CHECK(exit_code_of_writer("/dev/full", bytes) == cli::kExitIo);
    CHECK(exit_code_of_writer("/dev/null", bytes) == cli::kExitOk);
  }
}
