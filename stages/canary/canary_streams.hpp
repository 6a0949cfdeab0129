#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/verdict.hpp"
#include "stages/shadow_runtime.hpp"
#include "stages/statistics/block_process.hpp"
#include "stages/statistics/failure_rate_process.hpp"
#include "stages/statistics/label_process.hpp"
#include "stages/statistics/log_mean_sequence.hpp"
#include "stages/statistics/quantiles.hpp"
#include "stages/statistics/rate_difference_process.hpp"

namespace driftgate::stages {

struct WatchedClause;

/// What a canary's clause streams share: levels that are actually spent.
struct CanaryLevels {
  double alpha_harm = 0;  ///< of the promotion, this attempt
  double alpha_advance = 0;
  /// Parts that the harm tests on all traffic have, over all clauses and limits: kHardParts
  /// (canary_scopes.hpp) where the clause is hard, one where it is soft. They share half of α_harm by them;
  /// the tests on slices share the other half equally, places for slices that are found in traffic counted
  /// whether they are taken or not. Where there are none of one kind the other has all of it.
  std::uint32_t whole_parts = 0, slice_tests = 0;
  std::uint64_t planned_keys = 0;  ///< of a step: where limits of means are to be tightest
  std::int64_t block_us = 0;       ///< length of a block of time

  /// The part of α_harm of all tests on slices together, or of all those on all traffic.
  [[nodiscard]] double share_of(bool slices) const;
  /// The e-value at which one test of this stream shows harm: 1/(α_harm·v), v its part at its level.
  [[nodiscard]] double harm_needed(const WatchedClause& watched) const;
};

/// Where a trip stands: waiting for clean windows, its traffic on the fallback kernel, or given back from
/// there on probation.
enum class TripPhase : std::uint8_t { standing, on_fallback, probation };

/// A clause that was violated and did not end the canary, until it recovered.
struct Trip {
  std::int64_t at_ms = 0;
  std::uint32_t clean_windows = 0;
  std::uint64_t evidence_seen = 0;
  schema::Action action = schema::Action::freeze;
  TripPhase phase = TripPhase::standing;
  std::string rule;
  std::string message;

  /// The ramp waits while this stands; a slice on the fallback kernel lets the rest go on.
  [[nodiscard]] bool holds_ramp() const;
};

/// Which clause on which slice, and its trips. After a trip fresh processes run at half the level of
/// those before, so that recovering spends no more than was planned.
struct WatchedClause {
  schema::Clause clause;
  schema::SliceWhere where;
  schema::SliceRole role = schema::SliceRole::corpus;
  bool defers_to_slices = false;  ///< of all traffic: its slices are to be routed away, and come first
  std::optional<Trip> trip;
  std::uint32_t rearms = 0;
  std::uint32_t relapses = 0;  ///< times that its traffic was put on the fallback kernel

  [[nodiscard]] double level_factor() const;  ///< 2^{−rearms}
};

/// What a rate stream saw since its processes began.
struct RateCounts {
  std::uint64_t all_keys = 0;                          ///< of both arms
  std::uint64_t keys = 0, failed_keys = 0;             ///< of the candidate, one request of each key
  std::uint64_t failures = 0, candidate_failures = 0;  ///< first failures of keys, by arm
  std::uint64_t skipped = 0;                           ///< that were not evaluable
  double expected_candidate = 0;                       ///< Σ f_{r_0}(1) over `failures`
};

/// What holds for the ratios of all streams of a canary.
struct RatioContext {
  /// Whether single failures are counted as evidence of harm: the failures of neither arm are clustered in
  /// time, and the incumbent was observed long enough to tell. Once clustering is seen, false to the end.
  bool labels_count = false;
  bool dependent = false;
  double history_s = 0, longest_stall_s = 0;  ///< of the incumbent
  double dispersion_incumbent = 1, dispersion_candidate = 1;
};

/// error_rate on one slice: the absolute betting process for `max`; for `max_ratio` the label e-process with
/// kLabelPart of the limit's level and the test over blocks of time with the rest; the betting on the
/// difference for `max_delta`. Each is the mean over the planned starts (every step and the bake), those not
/// begun counting as 1; of a ratio the first start has half of the weight.
class RateStream {
 public:
  static constexpr double kLabelPart = 0.6;
  /// Where an arm has less than this share a ratio is not evaluable.
  static constexpr double kLeastOtherShare = LabelProcess::kLeastOtherShare;

  RateStream(WatchedClause watched_clause, const CanaryLevels& levels, std::uint32_t starts)
      : watched(std::move(watched_clause)), levels_(levels), starts_(starts) {}

  void open(std::uint32_t started);
  void observe_key(bool failed);                                  ///< a candidate key's first counted request
  void observe_first(bool candidate, bool failed, double share);  ///< a key's first counted request
  void observe_failure(bool candidate, double share);             ///< a key's first failure
  /// A request of a key that had not failed before; `failed` if it does now.
  void observe_at_risk(bool candidate, bool failed, double share, std::int64_t routed_us);
  void end_block();  ///< a step begins: what comes now belongs to a new block
  void rearm();                                                   ///< fresh processes at half the level
  void restart();  ///< fresh processes at the same level; those before were not acted on

  [[nodiscard]] double e_proof() const;        ///< of `max`
  [[nodiscard]] double e_harm() const;         ///< of `max`
  [[nodiscard]] double e_label() const;        ///< of `max_ratio`, from single failures
  [[nodiscard]] double e_blocks() const;       ///< of `max_ratio`, from blocks of time
  [[nodiscard]] double e_delta_proof() const;  ///< of `max_delta`
  [[nodiscard]] double e_delta_harm() const;   ///< of `max_delta`
  [[nodiscard]] std::uint64_t evidence() const;
  [[nodiscard]] std::uint32_t tests() const;
  [[nodiscard]] const RateCounts& counts() const { return counts_; }
  /// One verdict for each limit of the clause.
  void verdicts(std::uint64_t seed, const RatioContext& ratios,
                std::vector<schema::ClauseVerdict>& out) const;
  [[nodiscard]] bool clean() const;

  [[nodiscard]] nlohmann::json to_json() const;
  void restore(const nlohmann::json& json);  ///< throws nlohmann::json::exception

  WatchedClause watched;

 private:
  [[nodiscard]] schema::ClauseVerdict begin(std::uint64_t seed, const char* limit_kind, double limit) const;
  [[nodiscard]] schema::ClauseVerdict max_verdict(std::uint64_t seed) const;
  [[nodiscard]] schema::ClauseVerdict ratio_verdict(std::uint64_t seed, const RatioContext& ratios) const;
  [[nodiscard]] schema::ClauseVerdict delta_verdict(std::uint64_t seed) const;

  CanaryLevels levels_;
  std::uint32_t starts_;
  std::vector<FailureRateProcess> rate_;
  std::vector<LabelProcess> label_;
  std::vector<BlockProcess> blocks_;
  std::vector<RateDifferenceProcess> difference_;
  BlockCounts open_;  ///< the block that has not ended
  std::int64_t open_index_ = 0;
  RateCounts counts_;
};

/// A latency on one slice against one limit (max, max_ratio or max_delta), by strata of prompt length:
/// confidence sequences of a quantile, or of the geometric mean, of both arms, the baseline a pool of the
/// candidate's size drawn from the incumbent's keys by hash.
class LatencyStream {
 public:
  static constexpr std::uint32_t kMaxStrata = 16;
  /// Above this share the incumbent's pool is smaller than the candidate's: nothing relative is evaluable.
  static constexpr std::uint32_t kMaxShareBp = 5'000;

  LatencyStream(WatchedClause watched_clause, const CanaryLevels& levels, std::uint32_t strata);

  void observe(bool candidate, double value, std::uint32_t share_bp, std::uint32_t stratum,
               double key_uniform);
  void rearm();
  void restart();
  [[nodiscard]] std::uint64_t evidence() const;
  [[nodiscard]] schema::ClauseVerdict verdict(std::uint64_t seed) const;
  [[nodiscard]] bool clean() const;

  [[nodiscard]] nlohmann::json to_json() const;
  void restore(const nlohmann::json& json);  ///< throws nlohmann::json::exception

  WatchedClause watched;

 private:
  /// One arm of one stratum; a clause on the mean fills `mean`, any other `quantiles`.
  struct Arm {
    QuantileSequence quantiles;
    LogMeanSequence mean;
  };
  [[nodiscard]] bool relative() const;
  [[nodiscard]] std::uint64_t count(const Arm& arm) const;
  [[nodiscard]] QuantileLimits limits(const Arm& arm) const;
  [[nodiscard]] schema::ClauseVerdict stratum_verdict(std::uint32_t stratum, const std::array<Arm, 2>& arms,
                                                      std::uint64_t seed) const;

  CanaryLevels levels_;
  std::uint32_t strata_;
  std::optional<double> quantile_;                      ///< nothing for the mean
  std::map<std::uint32_t, std::array<Arm, 2>> values_;  ///< [incumbent, candidate]
  std::uint64_t skipped_ = 0;                           ///< while the candidate had more than kMaxShareBp
};

/// An O clause: nothing is tested, and an order other than a freeze on it recovers as any other.
struct SignalStream {
  WatchedClause watched;
  std::uint64_t looks = 0;
  bool last_clean = false;

  void rearm() { ++watched.rearms; }
  void restart() {}
  [[nodiscard]] std::uint64_t evidence() const { return looks; }
  [[nodiscard]] bool clean() const { return last_clean; }

  [[nodiscard]] nlohmann::json to_json() const;
  void restore(const nlohmann::json& json);  ///< throws nlohmann::json::exception
};

}  // namespace driftgate::stages
