#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "gpu/drift.hpp"
#include "gpu/ranks/collective.hpp"

namespace driftgate::gpu {

/// Exchanges the progress of ranks that measure rows of their own. A thread of each rank tells the others, in
/// rounds that all ranks reach at about the same time, how many rows are done. A rank that does not reach a
/// round within the timeout, counted from when this rank reached it, is an error that names it. The
/// computation itself never waits for the others.
class RankProgress {
 public:
  static constexpr std::uint64_t kMaxRounds = 4'096;

  /// Number of rows of this rank (`own`) and of all ranks (`total`), and of batches of the rank that has most
  /// (`longest`): at most so many rounds.
  /// `progress` is called at rank 0. When `stop`, which may be empty, is true at one rank, all ranks are told
  /// in the next round.
  RankProgress(Collective& collective, std::chrono::milliseconds timeout, std::uint64_t own,
               std::uint64_t longest, std::uint64_t total, Progress progress,
               std::function<bool()> stop = {});
  RankProgress(const RankProgress&) = delete;
  RankProgress& operator=(const RankProgress&) = delete;
  /// Ends the rounds early unless `finish` was called.
  ~RankProgress();

  /// Reports that this rank has measured `rows` rows.
  void reached(std::uint64_t rows);
  /// Errors: that of the first round that failed, if any.
  [[nodiscard]] schema::Result<void> failure();
  /// Whether `stop` was true at any rank.
  [[nodiscard]] bool stopping();
  /// Counts all rows as done and waits for the last round. A rank that stops early calls it too.
  [[nodiscard]] schema::Result<void> finish();

 private:
  void run();
  [[nodiscard]] schema::Result<void> round(std::uint64_t number);

  Collective& collective_;
  const std::chrono::milliseconds timeout_;
  const std::uint64_t own_, rounds_, total_;
  const Progress progress_;
  const std::function<bool()> stop_asked_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t reached_ = 0;
  bool stop_ = false;
  bool stopping_ = false;
  std::optional<schema::Error> error_;
  std::thread thread_;
};

}  // namespace driftgate::gpu
