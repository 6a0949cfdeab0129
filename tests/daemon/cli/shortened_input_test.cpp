#include "daemon/cli/contract/shortened_input.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "daemon/cli/exit_codes.hpp"
#include "tests/gpu/temporary.hpp"

using namespace driftgate;

TEST_CASE("a file that is shortened while it is mapped is exit 74") {
  constexpr std::size_t kBytes = 1 << 16;
  gpu::test::TemporaryFolder folder;
  const std::string path = folder / "capture";
  gpu::test::write_bytes(path, std::string(kBytes, 'x'));
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = ::open(path.c_str(), O_RDWR);
    const int quiet = ::open("/dev/null", O_WRONLY);
    void* map = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (map == MAP_FAILED || ::dup2(quiet, STDERR_FILENO) < 0) ::_exit(99);
    cli::explain_shortened_inputs();
    if (::ftruncate(file, 0) != 0) ::_exit(98);
    ::_exit(static_cast<const volatile char*>(map)[kBytes / 2] == 'x' ? 97 : 96);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == cli::kExitIo);
}
