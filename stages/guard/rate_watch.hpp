#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "stages/guard/e_detector.hpp"

namespace driftgate::stages {

/// Whether single events count as evidence, or only blocks of time do.
enum class Events : std::uint8_t { single_and_blocks, blocks };

/// Detects that events have become more frequent than `limit`: failures, or answers slower than a threshold.
/// One observation for each sticky key and hour (docs/design/statistics.md, "The guard").
/// - Single events: exact and fastest where events are independent in time, which failures of an engine that
///   stalls are not. What they have shown within seconds counts kMostSudden-fold at most: until it has
///   settled, a stall shows as one (DispersionProcess), and forget_single is called.
/// - Blocks of time: the share of events in each block is one value, so that what comes together counts once.
///
/// `value` is a weighted sum of both detectors in units of the mean time between false alarms, and is
/// alarming from the reciprocal of the watch's share of false alarms on.
class RateWatch {
 public:
  /// The parts of both detectors. Without single events blocks have all.
  static constexpr double kSinglePart = 0.7;
  /// Single events settle in periods of this length: the value is at most kMostSudden times that of all
  /// events up to the end of the period before the last one.
  static constexpr std::int64_t kSuddenUs = 16'000'000;
  static constexpr double kMostSudden = 20;

  /// `limit` in [0, 1); `mean_time_us` is the mean time between false alarms of the whole guard; `block_us`
  /// the length of a block; observations begin at `armed_us` or later.
  RateWatch(double limit, Events events, std::int64_t mean_time_us, std::int64_t block_us,
            std::int64_t armed_us);

  /// Adds the observation of one key, in routing order. `single`: whether single events count as evidence
  /// now; when they do not, what they had shown is forgotten.
  void observe(bool event, std::int64_t routed_us, bool single);
  /// Forgets what single events have shown: they turned out to be dependent.
  void forget_single();

  [[nodiscard]] double value() const;
  [[nodiscard]] double single_value() const;  ///< of the detector of single events, once they settled
  [[nodiscard]] double block_value() const;   ///< of the detector of blocks
  [[nodiscard]] double single_part() const;   ///< weights of both in `value`
  [[nodiscard]] double block_part() const;
  [[nodiscard]] double limit() const { return single_.limit(); }
  [[nodiscard]] std::uint64_t seen() const { return seen_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] std::uint64_t blocks() const { return blocks_.seen(); }
  /// When the rate seems to have changed, and what it has been since: by single events where they count, else
  /// by blocks.
  [[nodiscard]] EDetector::Change change() const;

  [[nodiscard]] nlohmann::json to_json() const;
  /// Throws nlohmann::json::exception for a malformed value; the caller catches it.
  void restore(const nlohmann::json& json);

 private:
  void settle(std::int64_t routed_us);
  void end_block();

  Events kind_;
  std::int64_t mean_time_us_, block_us_;
  EDetector single_, blocks_;
  bool single_counts_ = false;
  std::int64_t period_ = -1;          ///< index of the newest one
  double waiting_ = 0, settled_ = 0;  ///< the detector's sum before this period, and before the last one
  std::int64_t newest_us_;            ///< of the last observation
  std::int64_t block_newest_us_;      ///< the end of the last block that counted
  std::int64_t block_ = -1;           ///< index of the block that has not ended
  std::uint64_t block_seen_ = 0, block_events_ = 0;
  std::uint64_t seen_ = 0, events_ = 0;
};

}  // namespace driftgate::stages
