#include "tests/fuzz/unit.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

namespace driftgate::fuzz {
namespace {

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "the rule does not hold: %s\n", std::string(what).c_str());
  std::abort();
}

void run_measured(std::string_view bytes) {
  double least = 0;
  for (int i = 0; i < kUnitTries; ++i) {
    const double began = cpu_seconds();
    run(bytes);
    const double took = cpu_seconds() - began;
    least = i == 0 ? took : std::min(least, took);
    if (least <= kMaxUnitSeconds) return;
  }
  std::fprintf(stderr, "one unit took %.0f ms of CPU time, more than %.0f, %d times\n", least * 1e3,
               kMaxUnitSeconds * 1e3, kUnitTries);
  std::abort();
}

std::string_view Pieces::next() {
  if (rest_.empty()) return {};
  std::size_t size = static_cast<unsigned char>(rest_.front());
  rest_.remove_prefix(1);
  if (size == 0 || size > rest_.size()) size = rest_.size();
  const auto piece = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return piece;
}

}  // namespace driftgate::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  driftgate::fuzz::run_measured({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
