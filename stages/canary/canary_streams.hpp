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
#include "stages/canary/key_hours.hpp"
#include "stages/canary/repeated_keys.hpp"
#include "stages/dependence/block_process.hpp"
#include "stages/dependence/sign_process.hpp"
#include "stages/dependence/wander.hpp"
#include "stages/shadow_runtime.hpp"
#include "stages/statistics/failure_rate_process.hpp"
#include "stages/statistics/label_process.hpp"
#include "stages/statistics/log_mean_sequence.hpp"
#include "stages/statistics/quantiles.hpp"
#include "stages/statistics/rate_difference_process.hpp"

namespace driftgate::stages {

struct CanaryScopes;
struct WatchedClause;

/// The significance levels of one attempt at a canary, which all of its tests share.
struct CanaryLevels {
  double alpha_harm = 0;     ///< of all tests of harm together, in this attempt
  double alpha_advance = 0;  ///< of each proof that a limit is kept
  /// How α_harm is divided. Half of it belongs to the tests on all traffic, in proportion to their weights:
  /// kHardParts (canary_scopes.hpp) for each limit of a hard clause, 1 for a soft one; `whole_parts` is the
  /// sum of the weights. The other half is shared equally by the `slice_tests` tests on slices, which include
  /// the places reserved for slices that may be found in traffic. If there are no tests of one kind, the
  /// other kind has all of α_harm.
  std::uint32_t whole_parts = 0, slice_tests = 0;
  std::uint64_t planned_keys = 0;  ///< keys of a step, at which the limits of means are tightest
  std::int64_t block_us = 0;       ///< length of a block of time in µs
  double score_inflation = 0;      ///< of the incumbent before the canary, as SignProcess takes it

  /// The share of α_harm that belongs to all tests on slices together (`slices`), or to all tests on all
  /// traffic.
  [[nodiscard]] double share_of(bool slices) const;
  /// The e-value at which one test of this stream proves harm: 1/(α_harm·v), where v is the test's part of
  /// α_harm times level_factor().
  [[nodiscard]] double harm_needed(const WatchedClause& watched) const;
};

/// The levels of the contract's attempt number `attempt`, from 1, with blocks of time of this length.
[[nodiscard]] CanaryLevels canary_levels(const schema::Contract& contract, const CanaryScopes& scopes,
                                         std::uint32_t attempt, std::int64_t block_us);

/// The state of a trip: the order is in force and waits for clean windows (`standing`), its traffic is on the
/// fallback kernel (`on_fallback`), or that traffic was given back and is being tested (`probation`).
enum class TripPhase : std::uint8_t { standing, on_fallback, probation };

/// An order on a violated clause that did not end the canary. It lasts until the clause has recovered
/// (docs/canary.md, "Actions, and when they end").
struct Trip {
  std::int64_t at_ms = 0;           ///< when the present phase began
  std::uint32_t clean_windows = 0;  ///< windows in a row without a sign of harm
  std::uint64_t evidence_seen = 0;  ///< evidence() of the stream at the last window that was counted
  schema::Action action = schema::Action::freeze;
  TripPhase phase = TripPhase::standing;
  std::string rule;     ///< the escalation rule, or the default, that the order follows from
  std::string message;  ///< the message of the violated verdict

  /// Whether the ramp must wait. It does not wait while a slice is on the fallback kernel, nor for an order
  /// to sample.
  [[nodiscard]] bool holds_ramp() const;
};

/// A clause, the slice that it is tested on, and the order that is in force on it. After each order new
/// processes begin at half of the previous level.
struct WatchedClause {
  schema::Clause clause;
  schema::SliceWhere where;
  schema::SliceRole role = schema::SliceRole::corpus;
  bool defers_to_slices = false;  ///< see CanaryScope
  std::optional<Trip> trip;
  std::uint32_t rearms = 0;    ///< how often new processes have begun
  std::uint32_t relapses = 0;  ///< how often its traffic was put on the fallback kernel

  [[nodiscard]] double level_factor() const;  ///< 2^{−rearms}
};

/// What a rate stream has counted since its processes began.
struct RateCounts {
  std::uint64_t all_keys = 0;  ///< keys of both arms
  /// The candidate's keys, and those whose first request with it failed.
  std::uint64_t keys = 0, failed_keys = 0;
  /// First failures of keys on either arm, and on the candidate.
  std::uint64_t failures = 0, candidate_failures = 0;
  std::uint64_t skipped = 0;      ///< first failures that were not evaluable as a ratio
  double expected_candidate = 0;  ///< the expectation of candidate_failures at r₀ = max_ratio: Σ f_{r₀}(1)
};

/// How the weight of a test of `max_ratio` is divided among its three parts. It is fixed before the first
/// request reaches the candidate, so that the sum is an e-value.
struct RatioPlan {
  /// The incumbent's failures had not shown clusters when the canary began.
  bool labels = true;
  bool signs = true;  ///< false in canaries that an earlier version of this program began
};
struct RatioParts {
  double label = 0, blocks = 0, signs = 0;
};
/// Signs are compared at a limit of 1 alone: at another one a candidate may stall more often than the
/// incumbent.
[[nodiscard]] RatioParts ratio_parts(const RatioPlan& plan, double max_ratio);

/// What the tests of `max_ratio` on failure rates have in common, whatever their clause and slice.
struct RatioContext {
  RatioPlan plan;
  /// Whether single failures count as evidence of harm: the plan has a part for them, failures cluster in
  /// time in neither arm, and the incumbent was observed for kLeastHistoryS. Once failures were seen to
  /// cluster it stays false.
  bool labels_count = false;
  bool dependent = false;  ///< failures of an arm cluster in time
  schema::Swings swings = schema::Swings::own;
  double history_s = 0, longest_stall_s = 0;  ///< time of observation and longest stall of the incumbent
  double dispersion_incumbent = 1, dispersion_candidate = 1;  ///< e-values of clustering
  /// Of the incumbent, before the canary and in it; none where both arms are taken to swing alike.
  Wander::Excess wander = {};
};

/// The tests of error_rate on one slice (docs/design/statistics.md, "Absolute failure rate", "Single
/// failures", "Blocks of time", "Signs of blocks" and "Differences of failure rates").
/// - `max`: betting on one request of each key.
/// - `max_ratio`: the label e-process, the test over blocks of time and the signs of the blocks, each with
/// its
///   part of the level (ratio_parts).
/// - `max_delta`: betting on the difference of the rates.
///
/// Each e-value is the mean over the planned starts (every step and the bake), where a start that has not
/// begun counts as 1; for a ratio the first start has half of the weight ("Planned starts" there).
class RateStream {
 public:
  /// A ratio is not evaluable while the incumbent has less than this share.
  static constexpr double kLeastOtherShare = LabelProcess::kLeastOtherShare;

  RateStream(WatchedClause watched_clause, const CanaryLevels& levels, std::uint32_t starts)
      : watched(std::move(watched_clause)), levels_(levels), starts_(starts) {}

  /// Begins the processes of the first `started` planned starts, except those that have begun. After `rearm`
  /// or `restart` there is only one start.
  void open(std::uint32_t started);
  void observe_key(bool failed);  ///< the first request of a key that the candidate serves
  void observe_first(bool candidate, bool failed, double share);  ///< the first request of a key
  /// The first failure of a key. `excess` is what was known before it of the incumbent's swings.
  void observe_failure(bool candidate, double share, double excess = 0);
  /// A request of a key that had not failed before. `share` is the candidate's configured share in [0, 1]
  /// when the request was routed, here and above.
  void observe_at_risk(bool candidate, bool failed, double share, std::int64_t routed_us);
  /// The first request of a key's period that the candidate serves (KeyHours).
  void observe_period(std::uint64_t key, bool keyless, bool failed);
  void end_block();  ///< ends the block of time: later requests belong to another one
  void rearm();      ///< begins new processes at half the level
  void restart();    ///< begins new processes at the same level; no order followed from those before

  [[nodiscard]] double e_proof() const;  ///< against "rate ≥ max"
  [[nodiscard]] double e_harm() const;   ///< against "rate ≤ max"
  [[nodiscard]] double e_label() const;  ///< against "ratio ≤ max_ratio", from single failures
  /// Against "ratio ≤ max_ratio", from blocks of time, `excess` as in BlockProcess, and from their signs.
  [[nodiscard]] double e_blocks(double excess) const;
  [[nodiscard]] double e_signs() const;
  [[nodiscard]] double e_delta_proof() const;    ///< against "difference ≥ max_delta"
  [[nodiscard]] double e_delta_harm() const;     ///< against "difference ≤ max_delta"
  [[nodiscard]] std::uint64_t evidence() const;  ///< the number of observations; it grows when there is news
  [[nodiscard]] std::uint32_t tests() const;     ///< the number of limits of the clause
  [[nodiscard]] const RateCounts& counts() const { return counts_; }
  /// What a guard will be held against. It decides nothing here.
  [[nodiscard]] const KeyHours& hours() const { return hours_; }
  /// Appends one verdict for each limit of the clause.
  void verdicts(std::uint64_t seed, const RatioContext& ratios,
                std::vector<schema::ClauseVerdict>& out) const;
  [[nodiscard]] bool clean() const;  ///< there is no sign of harm: no e-value of harm is above 1

  [[nodiscard]] nlohmann::json to_json() const;
  void restore(const nlohmann::json& json);  ///< throws nlohmann::json::exception

  WatchedClause watched;

 private:
  [[nodiscard]] schema::ClauseVerdict begin(std::uint64_t seed, const char* limit_kind, double limit) const;
  [[nodiscard]] schema::ClauseVerdict max_verdict(std::uint64_t seed) const;
  /// The e-value of a ratio, and its parts as details.
  void add_e_value(const RatioContext& ratios, schema::ClauseVerdict& verdict) const;
  [[nodiscard]] schema::ClauseVerdict ratio_verdict(std::uint64_t seed, const RatioContext& ratios) const;
  [[nodiscard]] schema::ClauseVerdict delta_verdict(std::uint64_t seed) const;

  CanaryLevels levels_;
  std::uint32_t starts_;
  std::vector<FailureRateProcess> rate_;
  std::vector<LabelProcess> label_;
  std::vector<BlockProcess> blocks_;
  std::vector<SignProcess> signs_;
  std::vector<RateDifferenceProcess> difference_;
  BlockCounts open_;             ///< the block of time that has not ended
  std::int64_t open_index_ = 0;  ///< its index: time of routing over the length of a block
  RateCounts counts_;
  KeyHours hours_;
};

/// The first good answer of a key in one of its periods of kLatencyPeriodUs on one arm.
struct LatencyAnswer {
  std::uint64_t key = 0;
  bool keyless = false, candidate = false;
  double value = 0;            ///< in ms
  std::uint32_t share_bp = 0;  ///< the candidate's configured share
  std::uint32_t stratum = 0;   ///< index of the prompt-length stratum
  double uniform = 0;          ///< a hash of key and period, in [0, 1)
};

/// The test of a latency on one slice against one limit (`max`, `max_ratio` or `max_delta`), separately for
/// each stratum of prompt length: confidence sequences of a quantile, or of the geometric mean, in each arm
/// (docs/design/statistics.md, "Latency"). Relative limits compare the candidate with as many keys of the
/// incumbent, which are drawn by a hash. Keys that return give several values, which are not independent of
/// each other, and neither are those of one time where the incumbent's latency wanders: the limits are those
/// of fewer values then (RepeatedKeys, LatencyHistory).
class LatencyStream {
 public:
  static constexpr std::uint32_t kMaxStrata = 16;
  /// Relative limits are not evaluable above this share of the candidate, in basis points: the incumbent has
  /// fewer keys than the candidate there.
  static constexpr std::uint32_t kMaxShareBp = 5'000;

  LatencyStream(WatchedClause watched_clause, const CanaryLevels& levels, std::uint32_t strata);

  void observe(const LatencyAnswer& answer);
  /// A good answer of either arm, whether it is observed or not: what is observed is a part of all.
  void count_answer(std::uint32_t share_bp);
  /// How the incumbent's latency wanders, for the verdicts that follow.
  void allow_for(const Wander::Excess& excess) { wander_ = excess; }
  [[nodiscard]] schema::Metric metric() const;
  [[nodiscard]] std::optional<double> quantile() const { return quantile_; }
  void rearm();                                  ///< as in RateStream
  void restart();                                ///< as in RateStream
  [[nodiscard]] std::uint64_t evidence() const;  ///< the number of latencies of both arms
  /// The upper limit of the candidate's quantile or mean in ms, by stratum; infinite where nothing was seen.
  [[nodiscard]] std::map<std::uint32_t, double> candidate_upper() const;
  /// The worst verdict of all strata.
  [[nodiscard]] schema::ClauseVerdict verdict(std::uint64_t seed) const;
  [[nodiscard]] bool clean() const;  ///< not violated, and the estimate is within the limit

  [[nodiscard]] nlohmann::json to_json() const;
  void restore(const nlohmann::json& json);  ///< throws nlohmann::json::exception

  WatchedClause watched;

 private:
  /// One arm of one stratum. `mean` is used for a clause on the mean, `quantiles` for one on a quantile.
  struct Arm {
    QuantileSequence quantiles;
    LogMeanSequence mean;
    RepeatedKeys repeated;
  };
  [[nodiscard]] bool relative() const;
  [[nodiscard]] bool evaluable(std::uint32_t share_bp) const;
  [[nodiscard]] std::uint64_t count(const Arm& arm) const;
  [[nodiscard]] double wander_inflation(const Arm& arm) const;
  [[nodiscard]] double inflation(const Arm& arm) const;
  [[nodiscard]] QuantileLimits limits(const Arm& arm) const;
  [[nodiscard]] schema::ClauseVerdict stratum_verdict(std::uint32_t stratum, const std::array<Arm, 2>& arms,
                                                      std::uint64_t seed) const;

  CanaryLevels levels_;
  std::uint32_t strata_;
  std::optional<double> quantile_;                      ///< absent: the clause is on the mean
  std::map<std::uint32_t, std::array<Arm, 2>> values_;  ///< [incumbent, candidate] by stratum
  std::uint64_t skipped_ = 0;  ///< latencies seen while a relative limit was not evaluable
  std::uint64_t answers_ = 0;  ///< good answers of both arms while it was
  Wander::Excess wander_;
};

/// How many strata of prompt length a contract has: one more than its bounds, at most
/// LatencyStream::kMaxStrata.
[[nodiscard]] std::uint32_t prompt_strata(const schema::Contract& contract);

/// A clause on an observability signal. The signal is compared with its limit and not tested; an order on the
/// clause lasts until it has recovered, except a freeze because the signal is absent, which lasts as long as
/// that.
struct SignalStream {
  WatchedClause watched;
  std::uint64_t looks = 0;  ///< windows read when it was last evaluated
  bool last_clean = false;  ///< it passed then

  void rearm() { ++watched.rearms; }
  void restart() {}
  [[nodiscard]] std::uint64_t evidence() const { return looks; }
  [[nodiscard]] bool clean() const { return last_clean; }

  [[nodiscard]] nlohmann::json to_json() const;
  void restore(const nlohmann::json& json);  ///< throws nlohmann::json::exception
};

}  // namespace driftgate::stages
