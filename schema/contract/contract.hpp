#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schema/error.hpp"
#include "schema/metrics.hpp"

namespace driftgate::schema {

/// The position of a value in the document: line and column, both counted from 1. Both are 0 for a fault that
/// has no position of its own, such as one of the document as a whole.
struct SourcePosition {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

/// One violation of a rule by a document.
struct Fault {
  SourcePosition position;
  std::string pointer;  ///< JSON pointer (RFC 6901) of the value
  std::string message;  ///< what was found, what is allowed, and where it helps the nearest valid name
};

/// The family of a clause: the parts N, S, R and O of a contract (docs/design/contract.md, "The five parts").
enum class Family : std::uint8_t { numerical, statistical, runtime, observability };
/// Whether a violation of the clause makes its stage violated (`hard`), or is reported and escalated without
/// doing so (`soft`).
enum class Severity : std::uint8_t { hard, soft };
/// Whether a clause passes only once its limit is shown to be kept (`proof`), or already when the limit is
/// not shown to be exceeded (`no_harm`).
enum class Requirement : std::uint8_t { proof, no_harm };
/// Whether a bound is on the distribution of the next token or on that of a whole sequence.
enum class Horizon : std::uint8_t { token, sequence };
/// Why a verdict is on the slice that it is on. `corpus`: all data, no slice. `critical`: named in
/// `slices.critical`. `monitored`: a single value of a declared dimension. `discovered`: found by
/// `slices.discover`. `described`: shown in a report and not decided. A clause can ask for `critical` and
/// `monitored` only.
enum class SliceRole : std::uint8_t { corpus, critical, monitored, discovered, described };

/// A metric of the registry and how its values are aggregated; no aggregate where the metric is one figure by
/// itself.
struct MetricSubject {
  Metric metric{};
  std::optional<Aggregate> aggregate;
  std::optional<Band> band = std::nullopt;  ///< required for band_retention, absent for every other metric
};
struct BoundSubject {
  Bound bound{};
  Horizon horizon = Horizon::token;
};
/// A task outcome of each sequence. The only outcome is "correct".
struct OutcomeSubject {
  std::string outcome;
};
/// An observability signal: shadow_pairs, logprobs or telemetry.
struct SignalSubject {
  Metric signal{};
};
/// The values that an exact clause (`equal: true`) requires to be the same bit for bit in both kernels.
enum class ExactTensor : std::uint8_t { logits, logprobs, tokens };
struct ExactSubject {
  ExactTensor tensor{};
};
/// What a clause limits.
using Subject = std::variant<MetricSubject, BoundSubject, OutcomeSubject, SignalSubject, ExactSubject>;

/// The limits that a clause states; an absent one was not stated. Only `max` and `max_ratio` may be stated
/// together, and then both must hold. `floor_multiple` and `floor_cap` modify `max`, and `min_count` is the
/// sample size of a census (docs/design/contract.md, "A clause"; docs/design/statistics.md, "Noise floor" and
/// "Census clauses").
struct Limits {
  std::optional<double> max, min, max_ratio, max_delta, non_inferiority_margin, min_coverage;
  std::optional<std::uint64_t> min_count;
  std::optional<std::int64_t> max_staleness_ms;
  std::optional<double> floor_multiple, floor_cap;
};

/// What a quantile clause on captures limits the share of (`over`; docs/design/statistics.md, "Quantiles").
enum class QuantileOver : std::uint8_t {
  average_sequence,  ///< rows in an average sequence: each sequence counts once, by its own share
  rows,              ///< all rows, so that a sequence counts by its length; needs assumptions.max_tokens
  sequences          ///< sequences, by their means
};
[[nodiscard]] std::string_view to_string(QuantileOver over);

/// One demand of a contract.
struct Clause {
  Family family{};
  std::string id;  ///< unique in its family
  Subject subject;
  Limits limits;
  std::optional<double> clip;  ///< with sequence_mean only: each sequence's mean counts as at most this
  QuantileOver over = QuantileOver::average_sequence;  ///< of a quantile
  std::optional<std::uint32_t> min_sequences;  ///< the least size of a slice; absent: slices.min_sequences
  Severity severity = Severity::hard;
  std::optional<Requirement> require;  ///< as stated; requirement_of (least_n.hpp) gives the default
  std::vector<SliceRole> slices;       ///< critical, monitored; empty: the clause is on all data
  StageSet stages = 0;                 ///< the stages that decide it, defaults included
  bool stages_stated = false;          ///< false: `stages` is the default of the family
  SourcePosition position;

  [[nodiscard]] std::string address() const;  ///< "family.id", such as "numerical.kl"
};

/// A slice: the value of each dimension that defines it. Empty: the whole corpus or all traffic.
using SliceWhere = std::map<std::string, std::string>;

/// What makes failure rates and latencies swing for minutes: something in each engine by itself, so that the
/// candidate may swing as the incumbent was seen to, or something that reaches both of them alike, such as
/// their users (docs/canary.md, "Swings").
enum class Swings : std::uint8_t { own, shared };

/// What cannot be seen in captures or traffic and is taken for granted: by the bound chain
/// (docs/design/measurement.md, "The bound chain") and, `swings`, in a canary.
struct Assumptions {
  /// The range of rewards.
  struct Reward {
    double min = 0, max = 1;
  };
  /// Policy-gradient training: the bounds of |advantage| and of the norm of ∇ log π, the clip c of the PPO
  /// ratio, and the clip of importance weights.
  struct Policy {
    double advantage_max = 1, score_norm_max = 1, ppo_clip = 0.2;
    std::optional<double> is_clip;
  };
  std::optional<Reward> reward;
  std::optional<Policy> policy;
  std::uint32_t max_tokens = 0;  ///< the longest possible sequence, in tokens; 0: not stated
  Swings swings = Swings::own;
};

/// How the corpus and traffic are divided into slices.
struct Slices {
  std::vector<std::string> dimensions;  ///< the attributes that slices are made of
  std::uint32_t min_sequences = 10;     ///< smaller slices are not decided
  std::vector<SliceWhere> critical;
  /// The search for slices that nobody named (docs/slices.md).
  struct Discover {
    std::uint32_t depth = 2;  ///< the most dimensions that are combined in one slice
    /// `action: block`: a violation on a slice that was found blocks; else it is reported.
    bool block = false;
    /// Limit of a slice's mean over the mean of the rest; absent: only reported.
    std::optional<double> max_ratio;
  };
  std::optional<Discover> discover;
  /// Edges, in characters, of the dimension `prompt_length`.
  std::vector<std::uint32_t> prompt_length_bounds;
};

/// How long shadow-runtime runs and how much it mirrors. Suffix `_bp`: basis points (1/10,000); `_ms`:
/// milliseconds.
struct ShadowPlan {
  std::uint32_t mirror_bp = 2'000;  ///< the share of requests that is mirrored
  std::int64_t min_duration_ms = 120'000;
  std::int64_t max_duration_ms = 3'600'000;
  /// The most tokens that the mirroring of the stage may cost.
  std::uint64_t mirror_token_budget = 1'000'000;
};
/// One step of the ramp.
struct CanaryStep {
  std::uint32_t share_bp = 0;   ///< the candidate's share of traffic
  bool approval = false;        ///< the step is left only with approval
  std::uint32_t approvals = 1;  ///< the number of different people who must approve, if `approval` is set
};
/// The ramp of a canary (docs/canary.md).
struct CanaryPlan {
  SourcePosition position;
  std::vector<CanaryStep> steps;    ///< shares increase strictly and end at 10,000
  std::int64_t soak_ms = 60'000;    ///< the least duration of a step
  std::int64_t bake_ms = 300'000;   ///< how long the last share is held before the promotion succeeds
  std::uint32_t holdback_bp = 100;  ///< the share of users who stay on the incumbent until the end
  std::uint64_t min_keys = 300;     ///< new sticky keys that the candidate must serve in each step
  /// A step in which the candidate has served so many new keys ends as inconclusive unless it can be left.
  std::optional<std::uint64_t> max_exposure;
  std::optional<std::int64_t> max_duration_ms;  ///< of a step or the bake; then it ends as inconclusive
  std::int64_t freeze_after_ms = 30'000;        ///< age of telemetry at which the ramp freezes
  std::int64_t revert_after_ms = 120'000;  ///< age of telemetry at which the candidate gets no more traffic
  /// Length of a block of time; absent: derived from the incumbent's stalls.
  std::optional<std::int64_t> burst_ms;
  std::int64_t approval_deadline_ms = 86'400'000;  ///< how long a step may wait for its approval
  std::int64_t approval_valid_ms = 86'400'000;     ///< an approval older than this does not count
};

/// Whether means of fixed data are decided by an exact method or by resampling (docs/design/statistics.md,
/// "Means").
enum class Means : std::uint8_t { exact, approximate };
/// Significance levels: `alpha` of each fixed-data stage, `alpha_harm` of false proofs of harm in a canary,
/// `alpha_advance` of false proofs that a limit is kept in a canary.
struct Confidence {
  double alpha = 0.05, alpha_harm = 0.01, alpha_advance = 0.05;
  Means means = Means::exact;
};

/// Escalation actions, from the weakest to the strongest (docs/design/pipeline.md, "Escalation ladder").
enum class Action : std::uint8_t {
  log,
  notify,
  sample,
  freeze,
  step_back,
  route_slice,
  fallback,
  rollback,
  block
};

/// The golden probes of a guard: prompts that are put to the engine again and again, since its answers to
/// them should never change (docs/guard.md).
struct ProbePlan {
  std::int64_t every_ms = 10'000;           ///< one prompt is asked in this time
  std::uint32_t prompts = 64;               ///< how many different ones; 0: no probes
  std::uint64_t budget_tokens = 1'000'000;  ///< the most tokens of prompts and answers in a day (UTC)
  Action action = Action::notify;           ///< `notify` or `rollback`
};
/// How often a guard asks the engine what it is, and what a difference orders.
struct IdentityPlan {
  std::int64_t every_ms = 60'000;
  Action action = Action::notify;  ///< `notify` or `rollback`
};
/// How many live answers of the promoted version the training kernel's engine scores again (docs/guard.md,
/// "What is watched"). `_bp`: basis points.
struct RescoringPlan {
  std::uint32_t share_bp = 10;              ///< the share of sticky keys whose answers are kept for it
  std::uint64_t budget_tokens = 1'000'000;  ///< the most tokens of prompts and answers in a day (UTC)
};
/// What goes on being watched once a promotion has succeeded (docs/guard.md).
struct GuardPlan {
  SourcePosition position;
  /// The least mean time between two false alarms of the guard, all of its detectors together.
  std::int64_t mean_time_between_false_alarms_ms = std::int64_t{365} * 86'400'000;
  ProbePlan probes;
  IdentityPlan identity;
  std::optional<RescoringPlan> rescoring;  ///< absent: no answer is kept, and none is scored again
};

/// What is done when a clause that the rule matches is violated.
struct EscalationRule {
  std::string match;                 ///< "family.id" or "family.*"
  std::optional<Stage> stage;        ///< absent: any stage, or the guard if `guard` is set
  bool guard = false;                ///< `stage: guard`: matches in the guard only
  std::optional<Severity> severity;  ///< absent: any severity
  bool any_slice = false;            ///< `slice: any`: matches verdicts on every slice and on all data
  /// Matches verdicts on this slice only; absent, without any_slice: on all data only.
  std::optional<SliceWhere> slice;
  Action action = Action::log;
  SourcePosition position;
};
/// When an action ends: after so many windows without a sign of harm, and not before the dwell is over.
struct Recovery {
  std::uint32_t clean_windows = 12;
  std::int64_t min_dwell_ms = 120'000;
};
/// The part Π of a contract: its rules, and the actions for violations that no rule matches, by severity.
struct Escalation {
  std::vector<EscalationRule> rules;
  Action hard_default = Action::rollback;
  Action soft_default = Action::freeze;
  Recovery recovery;
};

/// A parsed and checked contract C = (N, S, R, O, Π). The clauses of N, S, R and O are in `clauses`.
struct Contract {
  std::string name, description;
  std::vector<std::string> owners;
  std::string train_kernel, inf_kernel, fallback_kernel;  ///< names; fallback_kernel may be empty
  std::uint32_t top_k = 10;                               ///< k of topk_overlap (`measurement: {top_k: N}`)
  Assumptions assumptions;
  Slices slices;
  std::vector<Clause> clauses;  ///< by family, and within a family in the order of the document
  ShadowPlan shadow;
  std::optional<CanaryPlan> canary;  ///< absent: no promotion can end under this contract
  std::optional<GuardPlan> guard;    ///< absent: nothing is watched after a promotion
  Confidence confidence;
  Escalation escalation;
  std::string digest;          ///< "sha256:…" of `canonical_json`
  std::string canonical_json;  ///< the document as written in the form of RFC 8785, without defaults
};

/// The result of parsing: a contract if and only if `faults` is empty. Warnings do not prevent registration
/// (docs/design/contract.md, "Rules at registration").
struct ContractReport {
  std::optional<Contract> contract;
  std::vector<Fault> faults;
  std::vector<Fault> warnings;
};

/// Parses a contract in YAML, or in JSON if the first character other than white space is `{`, and checks the
/// limits and all rules of docs/design/contract.md ("Limits of the document", "Rules at registration"). A
/// document that can be read is checked against every rule, and all faults are reported. `name` names the
/// document in messages.
[[nodiscard]] ContractReport parse_contract(std::string_view text, std::string_view name);

/// One line for each fault: "NAME:line:column: message", or "NAME: pointer: message" or "NAME: message" where
/// the position is not known.
[[nodiscard]] std::string format_faults(const std::vector<Fault>& faults, std::string_view name);

/// The JSON Schema of contracts as text, generated from the registry of metrics. It is published at
/// /schemas/contract.json.
[[nodiscard]] std::string contract_json_schema();

[[nodiscard]] std::string_view to_string(Family value);
[[nodiscard]] std::string_view to_string(ExactTensor value);
[[nodiscard]] std::string_view to_string(Means value);
[[nodiscard]] std::string_view to_string(Swings value);
[[nodiscard]] std::string_view to_string(Severity value);
[[nodiscard]] std::string_view to_string(SliceRole value);
[[nodiscard]] std::string_view to_string(Action value);
/// The canonical text of a slice: "domain=code;language=de", sorted by dimension.
[[nodiscard]] std::string slice_text(const SliceWhere& where);

}  // namespace driftgate::schema
