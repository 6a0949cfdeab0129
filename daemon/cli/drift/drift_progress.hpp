#pragma once

#include <chrono>
#include <cstdint>

namespace driftgate::cli {

/// A progress bar on standard error: only on a terminal, and only when the work takes over a second.
class DriftProgress {
 public:
  DriftProgress();
  ~DriftProgress();
  DriftProgress(const DriftProgress&) = delete;
  DriftProgress& operator=(const DriftProgress&) = delete;
  void update(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool shown_ = false;
  Clock::time_point start_, last_;
};

}  // namespace driftgate::cli
