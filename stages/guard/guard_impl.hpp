#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stages/dependence/dispersion_process.hpp"
#include "stages/guard/guard.hpp"
#include "stages/guard/rate_watch.hpp"

namespace driftgate::stages {

/// What one watch tests, and what it follows from.
struct WatchPlan {
  schema::Clause clause;
  schema::SliceWhere where;
  schema::SliceRole role = schema::SliceRole::corpus;
  double limit = 0;  ///< of the rate of failures, or of answers slower than `thresholds_ms`
  double share = 0;  ///< of the guard's false alarms
  /// By stratum of prompt length; empty for a failure rate. Answers of other strata are not counted.
  std::map<std::uint32_t, double> thresholds_ms;
  std::uint64_t promoted_keys = 0, promoted_periods = 0, promoted_failed = 0;  ///< of a failure rate
  double promoted_upper = 1;  ///< the upper limit of the promoted failure rate

  [[nodiscard]] bool is_latency() const { return !thresholds_ms.empty(); }
  /// The value of RateWatch from which on it alarms.
  [[nodiscard]] double needed() const { return 1 / share; }
};

/// What a guard tests, with the shares of its false alarms.
struct GuardPlans {
  std::vector<WatchPlan> watches;
  double probe_share = 0, rescoring_share = 0;
};
/// The watches that follow from a contract and what was promoted. Those whose limit could never be exceeded
/// are left out.
[[nodiscard]] schema::Result<GuardPlans> plan_guard(const schema::Contract& contract,
                                                    const Promoted& promoted);

/// Keys as they are stored: 16 bytes each, the key and its period, little-endian.
[[nodiscard]] std::string counted_keys_to_bytes(std::span<const CountedKey> keys);
/// std::nullopt if the bytes are not whole keys.
[[nodiscard]] std::optional<std::vector<CountedKey>> counted_keys_from_bytes(std::string_view bytes);

struct GuardState::Impl {
  struct Watch {
    WatchPlan plan;
    RateWatch rate;
    bool alarming = false;
  };

  std::string contract_digest;
  schema::Escalation escalation;
  std::vector<std::uint32_t> prompt_bounds;  ///< sorted
  std::int64_t mean_time_us = 0, block_us = 0, armed_us = 0;
  std::size_t max_keys = 0;
  double probe_share = 0, rescoring_share = 0;

  std::vector<Watch> watches;
  KeyPeriods keys;
  DispersionProcess dispersion;
  std::int64_t dependent_until_us = 0;  ///< single failures count from then on
  std::int64_t newest_us = 0;
  std::uint64_t seen = 0;

  void add_watch(WatchPlan plan);
  void observe(const CanaryObservation& observation);
  [[nodiscard]] GuardDecision decide();
  [[nodiscard]] schema::ClauseVerdict verdict(const Watch& watch) const;
};

}  // namespace driftgate::stages
