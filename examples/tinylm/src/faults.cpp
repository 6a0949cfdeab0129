#include "examples/tinylm/src/faults.hpp"

#include <filesystem>
#include <system_error>

namespace tinylm {
namespace {

// SplitMix64 (Steele, Lea, Flood, 2014) as a hash to [0, 1).
double uniform(std::uint64_t seed, std::uint64_t kind, std::uint64_t number) {
  std::uint64_t x = seed * 0x9E3779B97F4A7C15U + kind * 0xD1B54A32D192ED03U + number;
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return static_cast<double>((x ^ (x >> 31U)) >> 11U) * 0x1p-53;
}

}  // namespace

bool Faults::failures_begun() const {
  std::error_code ignored;
  return options_.fail_file.empty() || std::filesystem::exists(options_.fail_file, ignored);
}

FaultPlan Faults::next(std::string_view body) {
  const std::uint64_t number = number_++;
  FaultPlan plan;
  plan.fails = number >= options_.fail_after_requests &&
               uniform(options_.seed, 1, number) < options_.fail_share &&
               body.find(options_.fail_text) != std::string_view::npos && failures_begun();
  plan.garbage =
      number >= options_.garbage_after_requests && uniform(options_.seed, 2, number) < options_.garbage_share;
  const bool delays =
      number >= options_.delay_after_requests && uniform(options_.seed, 3, number) < options_.delay_share;
  if (delays) plan.delay = options_.delay;
  return plan;
}

}  // namespace tinylm
