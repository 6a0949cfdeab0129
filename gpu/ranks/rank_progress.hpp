#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "gpu/drift.hpp"
#include "gpu/ranks/collective.hpp"

namespace driftgate::gpu {

/// While each rank measures rows of its own, a thread of each tells the others how many are done, in rounds
/// that all ranks reach at about the same time. A rank that does not reach a round within the timeout after
/// this one is a failure, which names it; the computation itself never waits.
class RankProgress {
 public:
  static constexpr std::uint64_t kMaxRounds = 4'096;

  /// `own` rows are this rank's, `longest` those of the rank with most, `total` those of all.
  RankProgress(Collective& collective, std::chrono::milliseconds timeout, std::uint64_t own,
               std::uint64_t longest, std::uint64_t total, Progress progress);
  RankProgress(const RankProgress&) = delete;
  RankProgress& operator=(const RankProgress&) = delete;
  /// Ends the rounds early unless `finish` was called.
  ~RankProgress();

  void reached(std::uint64_t rows);
  /// The error of a round so far.
  [[nodiscard]] schema::Result<void> failure();
  /// Counts all rows as done and waits for the last round.
  [[nodiscard]] schema::Result<void> finish();

 private:
  void run();
  [[nodiscard]] schema::Result<void> round(std::uint64_t number);

  Collective& collective_;
  const std::chrono::milliseconds timeout_;
  const std::uint64_t own_, rounds_, total_;
  const Progress progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t reached_ = 0;
  bool stop_ = false;
  std::optional<schema::Error> error_;
  std::thread thread_;
};

}  // namespace driftgate::gpu
