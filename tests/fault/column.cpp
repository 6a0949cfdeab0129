#include "tests/fault/column.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace driftgate::fault {
namespace {

/// These tests end processes, not machines, so their folders may lie in memory: a sync then costs nothing.
[[gnu::constructor]] void use_memory() {
  if (::access("/dev/shm", W_OK | X_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 0);
}

}  // namespace

int rounds(int ci, int nightly) {
  const char* column = std::getenv("DRIFTGATE_FAULT_COLUMN");
  return column != nullptr && std::string_view(column) == "nightly" ? nightly : ci;
}

std::uint64_t seed_of_run() {
  if (const char* given = std::getenv("DRIFTGATE_TEST_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

void tell(std::string_view name, std::uint64_t seed, std::string_view result) {
  std::printf("fault: %s: %s (seed %llu)\n", std::string(name).c_str(), std::string(result).c_str(),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
}

}  // namespace driftgate::fault
