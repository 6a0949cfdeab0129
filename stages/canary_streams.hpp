#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "schema/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/shadow_runtime.hpp"
#include "stages/statistics/failure_rate_process.hpp"
#include "stages/statistics/label_process.hpp"
#include "stages/statistics/quantiles.hpp"

namespace driftgate::stages {

/// What a canary's clause streams share: levels that are actually spent.
struct CanaryLevels {
  double alpha_harm = 0;  ///< of the promotion, this attempt
  double alpha_advance = 0;
  std::uint32_t tests = 1;  ///< harm tests over all clauses and slices, each with an equal part
};

/// A clause that was violated and did not end the canary: it keeps the ramp still until it recovered.
struct Trip {
  std::int64_t at_ms = 0;
  std::uint32_t clean_windows = 0;
  std::uint64_t evidence_seen = 0;
  schema::Action action = schema::Action::freeze;
  std::string message;
};

/// Which clause on which slice, and its trips. After a trip fresh processes run at half the level of
/// those before, so that recovering spends no more than was planned.
struct StreamHead {
  schema::Clause clause;
  schema::SliceWhere where;
  schema::SliceRole role = schema::SliceRole::corpus;
  std::optional<Trip> trip;
  std::uint32_t rearms = 0;

  [[nodiscard]] double level_factor() const;  ///< 2^{−rearms}
  /// The verdict is of this clause, slice and limit. A latency clause with two limits has two streams.
  [[nodiscard]] bool made(const schema::ClauseVerdict& verdict) const;
};

/// error_rate on one slice: the absolute betting process for `max`, the label e-process for `max_ratio`;
/// each the mean over the planned starts (every step and the bake), those not begun counting as 1.
class RateStream {
 public:
  RateStream(StreamHead stream_head, std::uint32_t starts) : head(std::move(stream_head)), starts_(starts) {}

  void open(std::uint32_t started);
  void observe_key(bool failed);                       ///< a candidate key's first counted request
  void observe_failure(bool candidate, double share);  ///< a key's first failure
  void rearm();

  [[nodiscard]] double e_proof() const;
  [[nodiscard]] double e_harm() const;   ///< of `max`
  [[nodiscard]] double e_label() const;  ///< of `max_ratio`
  [[nodiscard]] std::uint64_t evidence() const { return keys_ + failures_seen_; }
  [[nodiscard]] std::uint32_t tests() const;
  /// One verdict for each limit of the clause.
  void verdicts(const CanaryLevels& levels, std::uint64_t seed,
                std::vector<schema::ClauseVerdict>& out) const;
  [[nodiscard]] bool clean() const;

  [[nodiscard]] nlohmann::json to_json() const;
  void restore(const nlohmann::json& json);  ///< throws nlohmann::json::exception

  StreamHead head;

 private:
  [[nodiscard]] schema::ClauseVerdict max_verdict(const CanaryLevels& levels, std::uint64_t seed) const;
  [[nodiscard]] schema::ClauseVerdict ratio_verdict(const CanaryLevels& levels, std::uint64_t seed) const;

  std::uint32_t starts_;
  std::vector<FailureRateProcess> rate_;
  std::vector<LabelProcess> label_;
  std::uint64_t keys_ = 0, failed_keys_ = 0, failures_seen_ = 0, failures_skipped_ = 0;
};

/// A latency quantile on one slice against one limit (max or max_ratio), by strata of prompt length: quantile
/// confidence sequences of both arms, the baseline a pool of the candidate's size drawn from the incumbent's
/// keys by hash.
class LatencyStream {
 public:
  static constexpr std::uint32_t kMaxStrata = 16;
  /// Above this share the incumbent's pool is smaller than the candidate's: a ratio is not evaluable.
  static constexpr std::uint32_t kMaxShareBp = 5'000;

  LatencyStream(StreamHead stream_head, std::uint32_t strata)
      : head(std::move(stream_head)), strata_(strata) {}

  void observe(bool candidate, double value, std::uint32_t share_bp, std::uint32_t stratum,
               double key_uniform);
  void rearm();
  [[nodiscard]] std::uint64_t evidence() const;
  [[nodiscard]] schema::ClauseVerdict verdict(const CanaryLevels& levels, std::uint64_t seed) const;
  [[nodiscard]] bool clean(const CanaryLevels& levels) const;

  [[nodiscard]] nlohmann::json to_json() const;
  void restore(const nlohmann::json& json);  ///< throws nlohmann::json::exception

  StreamHead head;

 private:
  std::uint32_t strata_;
  std::map<std::uint32_t, std::array<QuantileSequence, 2>> values_;  ///< [incumbent, candidate]
};

}  // namespace driftgate::stages
