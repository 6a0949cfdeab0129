#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "schema/verdict.hpp"
#include "stages/canary/canary.hpp"
#include "stages/canary/key_periods.hpp"
#include "stages/canary/promoted.hpp"
#include "stages/escalation.hpp"

namespace driftgate::stages {

/// How a guard shares its false alarms out: to the tests on all traffic, to those on slices, to the golden
/// probes, to the tests on rescored answers. What has no tests leaves its part to the others; where the parts
/// add up to more than 1, they are divided by their sum.
inline constexpr double kWholeShare = 0.4, kSliceShare = 0.4, kProbeShare = 0.2, kRescoringShare = 0.2;

struct GuardSettings {
  std::int64_t armed_us = 0;  ///< by the router's clock
  std::size_t max_keys = KeyPeriods::kDefaultMost;
};

/// The result of one evaluation of a guard.
struct GuardDecision {
  std::vector<schema::ClauseVerdict> verdicts;  ///< one for each watch: pass until it alarms, then violated
  std::vector<schema::ClauseVerdict> alarms;    ///< those that have just begun to be violated
  std::vector<schema::ClauseVerdict> cleared;   ///< those that have just ceased to be
  EscalationDecision escalation;                ///< what the contract orders for `alarms`
  bool dependent = false;  ///< failures clustered in time within the last day: only blocks of time count
};

/// The tests of a guard on live traffic (docs/guard.md; docs/design/statistics.md, "The guard"): for each
/// clause on a failure rate or on a quantile of a latency, and each slice that its canary tested, a change
/// detector. The mean time until the first false alarm of all of them, the golden probes included, is at
/// least `guard.mean_time_between_false_alarms`.
///
/// Store the serialised state, and the keys of the last two hours, in the transaction of the decision that it
/// led to; a state that was read back makes the same decisions as the original. Not thread-safe.
class GuardState {
 public:
  /// Errors: `invalid_argument` if the contract has no guard or `promoted` names no clause of it.
  [[nodiscard]] static schema::Result<GuardState> create(const schema::Contract& contract,
                                                         const Promoted& promoted,
                                                         const GuardSettings& settings);
  /// Reads what serialise wrote; `keys` is what take_new_keys gave in hour() of the state and in the hour
  /// before, one after another. A state whose unit was a key and day goes on; its keys begin anew. Errors:
  /// `corrupt` for damaged text, `conflict` for the state of another contract, `unsupported` for that of
  /// another version of the program.
  [[nodiscard]] static schema::Result<GuardState> deserialise(const schema::Contract& contract,
                                                              std::string_view text, std::string_view keys);
  [[nodiscard]] std::string serialise() const;
  /// The hour (since the epoch, UTC) of the newest request, and the keys that were counted since the last
  /// call, as bytes; after create, those that it begins with.
  [[nodiscard]] std::int64_t hour() const;
  [[nodiscard]] std::string take_new_keys();

  GuardState(GuardState&&) noexcept;
  GuardState& operator=(GuardState&&) noexcept;
  ~GuardState();

  /// Counts one request that the promoted version served, in routing order; `candidate` and `candidate_bp`
  /// are not looked at. Pinned and excluded requests count nothing.
  void observe(const CanaryObservation& observation);
  /// Evaluates all watches. Not const: an alarm is told once, until its watch has cleared.
  [[nodiscard]] GuardDecision decide();

  [[nodiscard]] std::size_t watches() const;
  [[nodiscard]] bool alarming() const;       ///< an alarm was told and has not cleared
  [[nodiscard]] std::uint64_t seen() const;  ///< requests that counted: one for each key and period
  /// The part of all false alarms that belongs to the golden probes; 0 without any in the contract.
  [[nodiscard]] double probe_share() const;
  /// The same for the tests on rescored answers.
  [[nodiscard]] double rescoring_share() const;
  /// Forgets what the tests have seen, and that they alarm: what was seen of the version is no longer what it
  /// is.
  void restart(std::int64_t now_us);

 private:
  struct Impl;
  explicit GuardState(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace driftgate::stages
