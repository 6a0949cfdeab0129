#pragma once
/// Faults that the engine injects on request, to test the programs that watch it.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tinylm {

struct FaultOptions {
  double fail_share = 0, delay_share = 0, garbage_share = 0;
  std::uint64_t fail_after_requests = 0, delay_after_requests = 0, garbage_after_requests = 0;
  std::chrono::milliseconds delay{0};
  std::string fail_text{};  ///< only requests whose body contains it fail; empty: any request
  std::string fail_file{};  ///< failures begin once this file exists; empty: at once
  std::uint64_t seed = 1;
};

struct FaultPlan {
  bool fails = false, garbage = false;
  std::chrono::milliseconds delay{0};
};

/// Chooses faults by the number of the request and the seed, so that a run with the same order of arrival
/// repeats. Only requests that generate tokens are counted and can fail; rescoring (max_tokens 0) never does.
class Faults {
 public:
  explicit Faults(const FaultOptions& options) : options_(options) {}
  FaultPlan next(std::string_view body);

 private:
  [[nodiscard]] bool failures_begun() const;

  FaultOptions options_;
  std::atomic<std::uint64_t> number_{0};
};

}  // namespace tinylm
