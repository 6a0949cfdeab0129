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
#include "stages/canary/promoted.hpp"
#include "stages/dependence/failure_history.hpp"
#include "stages/dependence/latency_history.hpp"
#include "stages/escalation.hpp"
#include "stages/shadow_runtime.hpp"

namespace driftgate::stages {

/// The number of sticky keys that a canary remembers unless CanarySettings states another one. Once the limit
/// is reached, requests of further keys are not counted, and the decision reports it.
inline constexpr std::size_t kDefaultMaxKeys = 200'000;

/// What a canary needs besides its contract.
struct CanarySettings {
  std::uint32_t attempt = 1;  ///< k, from 1: this attempt spends α·2^{−k} of each level of the contract
  std::uint64_t seed = 0;     ///< selects which of the incumbent's keys the latencies are compared with
  std::size_t max_keys = kDefaultMaxKeys;
  // The incumbent's failures and latencies before the canary began.
  FailureHistory incumbent = {};
  LatencyHistory incumbent_latency = {};
};

/// The time in seconds for which the incumbent must have been observed before single failures count as
/// evidence of harm (docs/design/statistics.md, "Dispersion of failures"), and the time that is asked for: in
/// less, slow changes of its failure rate are not seen, and more canaries of a good candidate are rolled back
/// among them (docs/statistics.md).
inline constexpr double kLeastHistoryS = 1'200, kWantedHistoryS = 14'400;
/// Single failures count for less where the incumbent's failures vary over longer windows by so many standard
/// deviations more than independent ones.
inline constexpr double kSwingsShown = 2;

/// The length of a block of time in ms: the contract's `burst`, else three times the longest stall of the
/// incumbent, at least schema::kLeastBlockMs (docs/design/statistics.md, "Blocks of time").
[[nodiscard]] std::int64_t block_ms(const schema::CanaryPlan& plan, const FailureHistory& incumbent);

/// One request of a user.
struct CanaryObservation {
  std::uint64_t key_hash = 0;  ///< hash of the sticky key
  bool keyless = false;        ///< the request has no sticky key and counts as a key of its own
  bool pinned = false;         ///< the request was pinned to a version; no test counts it
  bool candidate = false;  ///< the candidate was asked first; a retry on the incumbent does not change this
  /// It belongs to the candidate, which was not asked since its breaker was open: a failure of the candidate
  /// and no exposure to it (docs/design/statistics.md, "An opened breaker").
  bool withheld = false;
  std::uint32_t candidate_bp = 0;  ///< the candidate's configured share for this slice when it was routed
  std::string slice;               ///< canonical text, "domain=code;language=de"
  RequestOutcome outcome = RequestOutcome::ok;
  std::int64_t routed_us = 0;  ///< time of routing by the router's clock, in µs
  Latencies latency;
  std::uint32_t prompt_chars = 0;  ///< length of the prompt in characters
};

/// The candidate's engine does not answer: the router's breaker for it is open.
struct EngineDown {
  std::int64_t open_ms = 0;    ///< since the breaker opened, whatever was tried since
  std::uint32_t failures = 0;  ///< in a row
  std::string reason;          ///< of the newest, such as connect or first_byte
  std::int64_t since_us = 0;   ///< when the first of them was seen, by the router's clock
};

/// A breaker that has been open for longer is harm. A shorter stall is left to the tests.
inline constexpr std::int64_t kBreakerPatienceMs = 1'000;
/// The `limit_kind` of the verdict on it: the limit is the time in s for which it may be open.
inline constexpr std::string_view kBreakerLimit = "breaker_open_s";

/// The position of the ramp, which the caller keeps and stores.
struct CanaryContext {
  std::int64_t now_ms = 0;
  std::uint32_t step = 0;            ///< index of the contract's step; the number of steps means the bake
  std::int64_t step_started_ms = 0;  ///< when the router was seen to apply the share of this step or the bake
  std::int64_t telemetry_age_ms = 0;  ///< age of the newest telemetry window
  bool paused = false;                ///< no share grows; harm is acted on as ever
  bool approved = false;              ///< the approval of this step, or of finishing, was given
  /// The verdicts of shadow-runtime on the signals shadow_pairs and logprobs, and their age in ms. A canary
  /// mirrors nothing and cannot count them anew.
  std::vector<schema::ClauseVerdict> carried = {};
  std::int64_t carried_age_ms = 0;
  std::string pause_reason = "the promotion is paused";  ///< told while `paused`
  std::optional<EngineDown> engine_down = {};
};

/// What to do now. `wait_approval`: at a step with `approval: true`, everything but the approval is met; in
/// the bake, everything is met but slices are on the fallback kernel, and a person decides whether to finish.
enum class CanaryAction : std::uint8_t {
  hold,           ///< nothing changes
  advance,        ///< go to the next step, or from the last step to the bake
  wait_approval,  ///< an approval is missing
  freeze,         ///< the share must not grow
  step_back,      ///< go back to the previous step
  rollback,       ///< end the canary with 0% traffic: the candidate is rejected
  finish,         ///< the bake is over and the candidate succeeds
  inconclusive,   ///< end the step undecided: it has reached max_duration or max_exposure
  revert,  ///< give the candidate 0% traffic: telemetry is older than revert_after, or its engine does not
           ///< answer and no clause says what follows
  route_slice,    ///< further slices go to the fallback kernel
  restore_slice,  ///< slices come back from the fallback kernel, on probation
  fallback,       ///< all of the candidate's traffic goes to the fallback kernel
  restore,        ///< all traffic comes back from the fallback kernel, on probation
  block,          ///< roll back; the checkpoint and kernel are not to be promoted again under this contract
};
[[nodiscard]] std::string_view to_string(CanaryAction action);

/// The result of one evaluation of a canary.
struct CanaryDecision {
  CanaryAction action = CanaryAction::hold;
  schema::Verdict verdict = schema::Verdict::inconclusive;  ///< the present verdict of the stage
  std::vector<schema::ClauseVerdict> verdicts;              ///< one for each test, with its e-values
  EscalationDecision escalation;  ///< the new orders; without any, the orders that have not ended
  /// All slices whose requests go to the fallback kernel from now on, sorted. Every route that follows from
  /// this decision must apply `fallback_slices` and `all_to_fallback`, whatever the action is.
  std::vector<schema::SliceWhere> fallback_slices;
  bool all_to_fallback = false;  ///< all of the candidate's traffic goes to the fallback kernel
  bool sample = false;           ///< an order to sample is in force: requests are mirrored to the candidate
  /// New orders of the kinds log, notify and sample; each is listed once.
  std::vector<EscalationOrder> notices;
  std::vector<EscalationOrder> recovered;  ///< the orders that end with this decision
  bool advance_proven = false;       ///< every clause that must be proven before the ramp goes on is proven
  bool split_alarm = false;          ///< the split differs from the configured one: the measurement is broken
  bool keys_full = false;            ///< the limit of remembered keys was reached
  std::vector<std::string> reasons;  ///< sentences, the decisive one first
  std::uint64_t exposed_requests = 0, exposed_keys = 0;  ///< served by the candidate in this canary
  std::uint64_t failed_keys_candidate = 0, failed_requests_candidate = 0, failed_requests_incumbent = 0;
  std::uint64_t keys_in_step = 0;  ///< keys that the candidate served for the first time since the step began
  double split_e_value = 1;        ///< of the traffic split guard (split_guard.hpp)
  /// When the first request that the candidate failed was routed.
  std::optional<std::int64_t> first_failure_us;
  std::uint32_t next_share_bp = 0;  ///< the share to apply, with the holdback kept
  std::uint32_t next_step = 0;  ///< the step after this decision: another one for advance and step_back only
};

/// The tests of one attempt at a canary: log-wealths, counts and hashed keys already seen
/// (docs/design/statistics.md, "State of a stream"). Store the serialised state in the transaction of the
/// decision that it led to; a state that was read back makes the same decisions as the original. Not
/// thread-safe.
class CanaryState {
 public:
  /// Errors: `invalid_argument` if the contract has no canary steps, `unsupported` if it has a clause that a
  /// canary cannot evaluate.
  [[nodiscard]] static schema::Result<CanaryState> create(const schema::Contract& contract,
                                                          const CanarySettings& settings);
  /// Reads what serialise wrote. Errors: those of create; `corrupt` for text that is damaged or does not fit
  /// the clauses of the contract; `conflict` for the state of another contract; `unsupported` for that of
  /// another version of the program.
  [[nodiscard]] static schema::Result<CanaryState> deserialise(const schema::Contract& contract,
                                                               std::string_view text);
  [[nodiscard]] std::string serialise() const;

  CanaryState(CanaryState&&) noexcept;
  CanaryState& operator=(CanaryState&&) noexcept;
  ~CanaryState();

  /// Begins a step, or the bake if `step` is the number of steps: starts the processes that are planned for
  /// it unless they have run before, begins a new block of time and sets keys_in_step to 0. Call it once the
  /// router was seen to apply the share.
  void begin_step(std::uint32_t step);
  /// Registers a telemetry window; call it before the window's observations. False if the window was counted
  /// before, and must be skipped: this makes replaying windows idempotent.
  [[nodiscard]] bool begin_window(std::string_view router_id, std::uint64_t number);
  /// Counts one request. Requests come in the order in which they were routed.
  void observe(const CanaryObservation& observation);
  /// Evaluates all clauses. Not const, since a decision changes the state: orders begin and end, and tests
  /// begin afresh after an order.
  [[nodiscard]] CanaryDecision decide(const CanaryContext& context);

  /// What was seen of the candidate, for the guard after its promotion. What the fallback kernel serves is
  /// left out.
  [[nodiscard]] Promoted promoted() const;

  /// Which run's levels it tests at: CanarySettings::attempt.
  [[nodiscard]] std::uint32_t run() const;

  /// The share of a step (of the last one for the bake) in basis points, reduced where the holdback demands
  /// it.
  [[nodiscard]] std::uint32_t share_of_step(std::uint32_t step) const;

 private:
  struct Impl;
  static schema::Result<CanaryState> make(const schema::Contract& contract, const CanarySettings& settings,
                                          std::int64_t block_us, double score_inflation);
  explicit CanaryState(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace driftgate::stages
