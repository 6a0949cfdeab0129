#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/contract/contract.hpp"
#include "schema/error.hpp"
#include "schema/verdict.hpp"
#include "stages/escalation.hpp"
#include "stages/shadow_runtime.hpp"
#include "stages/statistics/failure_history.hpp"

namespace driftgate::stages {

/// Most sticky keys that one canary remembers; further unseen keys are not counted, and the decision
/// says so.
inline constexpr std::size_t kDefaultMaxKeys = 200'000;

struct CanarySettings {
  std::uint32_t attempt = 1;  ///< k: the stage spends α·2^{−k} of each of the contract's levels
  std::uint64_t seed = 0;
  std::size_t max_keys = kDefaultMaxKeys;
  FailureHistory incumbent = {};  ///< what was seen of it before the canary
};

/// Single failures are counted as evidence of harm only after the incumbent was observed for this long,
/// seconds.
inline constexpr double kLeastHistoryS = 1'200;

/// The length of a block: the contract's `burst`, else three times the longest stall of the incumbent.
[[nodiscard]] std::int64_t block_ms(const schema::CanaryPlan& plan, const FailureHistory& incumbent);

/// One request, in routing order.
struct CanaryObservation {
  std::uint64_t key_hash = 0;
  bool keyless = false;
  bool pinned = false;             ///< not counted by any test
  bool candidate = false;          ///< the arm that was asked first
  std::uint32_t candidate_bp = 0;  ///< configured share for its slice when it was routed
  std::string slice;               ///< canonical "domain=code;language=de"
  RequestOutcome outcome = RequestOutcome::ok;
  std::int64_t routed_us = 0;
  Latencies latency;
  std::uint32_t prompt_chars = 0;
};

/// Where the ramp stands; kept by the caller, durable there.
struct CanaryContext {
  std::int64_t now_ms = 0;
  std::uint32_t step = 0;            ///< index into the contract's steps; steps.size() = the bake
  std::int64_t step_started_ms = 0;  ///< when the share of this step (or the bake) was read back as applied
  std::int64_t telemetry_age_ms = 0;
  bool paused = false;    ///< no weight increase; harm still acts
  bool approved = false;  ///< this step's approval was given
  /// O clauses as shadow-runtime decided them and how long ago: shadow_pairs and logprobs, which a canary,
  /// that mirrors nothing, cannot count anew.
  std::vector<schema::ClauseVerdict> carried = {};
  std::int64_t carried_age_ms = 0;
};

/// What to do now. `advance` goes from step i to i + 1 and from the last step to the bake.
/// A step with `approval: true` is left only with an approval: `wait_approval` says that all else is met; in
/// the bake it says that only slices on the fallback kernel stand against finishing, which a person decides.
/// `route_slice`, `fallback`, `restore_slice` and `restore` say that the route's fallback part changes as
/// CanaryDecision::fallback_slices and all_to_fallback say, at `next_step` and `next_share_bp`. `block` is a
/// rollback after which this checkpoint and kernel may not be promoted again under the contract.
enum class CanaryAction : std::uint8_t {
  hold,
  advance,
  wait_approval,
  freeze,
  step_back,
  rollback,
  finish,
  inconclusive,
  revert,
  route_slice,
  restore_slice,
  fallback,
  restore,
  block,
};
[[nodiscard]] std::string_view to_string(CanaryAction action);

struct CanaryDecision {
  CanaryAction action = CanaryAction::hold;
  schema::Verdict verdict = schema::Verdict::inconclusive;  ///< of the stage as it stands
  std::vector<schema::ClauseVerdict> verdicts;              ///< with e-values
  EscalationDecision escalation;  ///< new orders, or what still stands while clauses recover
  /// Slices whose requests go to the fallback kernel from now on: all of them, sorted. Every route that this
  /// decision leads to carries them (SliceWeight::to_fallback) and `all_to_fallback`, whatever the action.
  std::vector<schema::SliceWhere> fallback_slices;
  bool all_to_fallback = false;
  bool sample = false;  ///< a sample order stands: raise the share that is logged and mirrored
  std::vector<EscalationOrder> notices;    ///< log, notify and sample orders, each once when it is given
  std::vector<EscalationOrder> recovered;  ///< orders that end with this decision
  bool advance_proven = false;             ///< every clause that needs a proof has one
  bool split_alarm = false;  ///< the observed split is not the configured one: the measurement is broken
  bool keys_full = false;    ///< the set of remembered keys is at its limit
  std::vector<std::string> reasons;                      ///< plain sentences, the decisive one first
  std::uint64_t exposed_requests = 0, exposed_keys = 0;  ///< served by the candidate in this stage
  std::uint64_t failed_keys_candidate = 0, failed_requests_candidate = 0, failed_requests_incumbent = 0;
  std::uint64_t keys_in_step = 0;  ///< new candidate keys since the step began
  double split_e_value = 1;
  std::optional<std::int64_t> first_failure_us;  ///< routing time of the candidate's first failure
  std::uint32_t next_share_bp = 0;  ///< for advance and step_back: the share to apply, holdback respected
  std::uint32_t next_step = 0;      ///< for advance and step_back
};

/// The stream state of one canary attempt: log-wealths, counts and the hashed keys already seen
/// (docs/design/statistics.md, "State of a stream"). Serialise it in the transaction of the decision; a
/// restart deserialises it and goes on, with identical decisions. Not thread-safe.
class CanaryState {
 public:
  /// Fails when the contract has no canary plan or a clause that a canary cannot evaluate.
  [[nodiscard]] static schema::Result<CanaryState> create(const schema::Contract& contract,
                                                          const CanarySettings& settings);
  /// Fails (`corrupt`) when `text` is damaged, and (`conflict`) when it belongs to another contract.
  [[nodiscard]] static schema::Result<CanaryState> deserialise(const schema::Contract& contract,
                                                               std::string_view text);
  [[nodiscard]] std::string serialise() const;

  CanaryState(CanaryState&&) noexcept;
  CanaryState& operator=(CanaryState&&) noexcept;
  ~CanaryState();

  /// A step or the bake (step = number of steps) begins: starts its processes if they never ran and
  /// counts keys of this step from zero. Call it once the share was read back.
  void begin_step(std::uint32_t step);
  /// False when this window was counted before: replay is idempotent. Call before its observations.
  [[nodiscard]] bool begin_window(std::string_view router_id, std::uint64_t number);
  /// One request, in routing order.
  void observe(const CanaryObservation& observation);
  /// One tick. Not const: freezes, dwell times and fresh processes after an action are state.
  [[nodiscard]] CanaryDecision decide(const CanaryContext& context);

  /// The share of a step with the holdback kept.
  [[nodiscard]] std::uint32_t share_of_step(std::uint32_t step) const;

 private:
  struct Impl;
  static schema::Result<CanaryState> make(const schema::Contract& contract, const CanarySettings& settings,
                                          std::int64_t block_us);
  explicit CanaryState(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace driftgate::stages
