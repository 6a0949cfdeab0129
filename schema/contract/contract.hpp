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

/// Where a value stood in the document, 1-based; 0 when it came from JSON without positions.
struct SourcePosition {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

/// One fault of a document: where, what was found, what is allowed, the nearest valid name.
struct Fault {
  SourcePosition position;
  std::string pointer;  ///< JSON pointer
  std::string message;  ///< found, allowed, nearest: one sentence each
};

enum class Family : std::uint8_t { numerical, statistical, runtime, observability };
enum class Severity : std::uint8_t { hard, soft };
enum class Requirement : std::uint8_t { proof, no_harm };
enum class Horizon : std::uint8_t { token, sequence };
/// Which slices a clause looks at. Without any, the clause is on the whole corpus (or all traffic).
enum class SliceRole : std::uint8_t { corpus, critical, monitored, discovered, described };

struct MetricSubject {
  Metric metric{};
  std::optional<Aggregate> aggregate;
  std::optional<Band> band = std::nullopt;  ///< of band_retention, which is no figure without one
};
struct BoundSubject {
  Bound bound{};
  Horizon horizon = Horizon::token;
};
struct OutcomeSubject {
  std::string outcome;
};  ///< "correct"
struct SignalSubject {
  Metric signal{};
};
/// What an exact clause (`equal`) holds the two kernels to, bit pattern by bit pattern.
enum class ExactTensor : std::uint8_t { logits, logprobs, tokens };
struct ExactSubject {
  ExactTensor tensor{};
};
using Subject = std::variant<MetricSubject, BoundSubject, OutcomeSubject, SignalSubject, ExactSubject>;

/// The limits that a clause states; docs/design/contract.md, "A clause". Only `max` and `max_ratio` may stand
/// together.
struct Limits {
  std::optional<double> max, min, max_ratio, max_delta, non_inferiority_margin, min_coverage;
  std::optional<std::uint64_t> min_count;
  std::optional<std::int64_t> max_staleness_ms;
  std::optional<double> floor_multiple, floor_cap;
};

struct Clause {
  Family family{};
  std::string id;  ///< unique in its family; addressed as `family.id`
  Subject subject;
  Limits limits;
  std::optional<double> clip;  ///< of a sequence_mean: each sequence's mean counts as at most this
  bool over_sequences = false;  ///< `over: sequences`: a quantile of sequences' means, not of rows
  std::optional<std::uint32_t> min_sequences;  ///< of a slice, for this clause; else slices.min_sequences
  Severity severity = Severity::hard;
  std::optional<Requirement> require;  ///< as written; else by metric (stages/canary/traffic_rules.hpp)
  std::vector<SliceRole> slices;       ///< critical, monitored
  StageSet stages = 0;                 ///< where it is decided, defaults filled in
  bool stages_stated = false;          ///< `stages` was written, not filled in
  SourcePosition position;

  [[nodiscard]] std::string address() const;  ///< "numerical.kl"
};

using SliceWhere = std::map<std::string, std::string>;

struct Assumptions {
  struct Reward {
    double min = 0, max = 1;
  };
  struct Policy {
    double advantage_max = 1, score_norm_max = 1, ppo_clip = 0.2;
    std::optional<double> is_clip;
  };
  std::optional<Reward> reward;
  std::optional<Policy> policy;
  std::uint32_t max_tokens = 0;  ///< 0 = not stated
};

struct Slices {
  std::vector<std::string> dimensions;
  std::uint32_t min_sequences = 10;
  std::vector<SliceWhere> critical;
  struct Discover {
    std::uint32_t depth = 2;
    bool block = false;  ///< action: report | block
    std::optional<double> max_ratio;  ///< of a slice's mean over the rest's; without it a finding is reported only
  };
  std::optional<Discover> discover;
  std::vector<std::uint32_t> prompt_length_bounds;  ///< edges, in characters, of the derived dimension
};

struct ShadowPlan {
  std::uint32_t mirror_bp = 2'000;
  std::int64_t min_duration_ms = 120'000;
  std::int64_t max_duration_ms = 3'600'000;
  std::uint64_t mirror_token_budget = 1'000'000;
};
struct CanaryStep {
  std::uint32_t share_bp = 0;
  bool approval = false;
  std::uint32_t approvals = 1;  ///< distinct people that it takes, where `approval` is set
};
struct CanaryPlan {
  std::vector<CanaryStep> steps;  ///< strictly increasing, ends at 10,000
  std::int64_t soak_ms = 60'000;
  std::int64_t bake_ms = 300'000;
  std::uint32_t holdback_bp = 100;
  std::uint64_t min_keys = 300;                 ///< per step
  std::optional<std::uint64_t> max_exposure;    ///< keys served by the candidate, per step
  std::optional<std::int64_t> max_duration_ms;  ///< per step
  std::int64_t freeze_after_ms = 30'000;
  std::int64_t revert_after_ms = 120'000;
  std::optional<std::int64_t> burst_ms;  ///< length of a block of time; else from the incumbent's longest stall
  std::int64_t approval_deadline_ms = 86'400'000;
  std::int64_t approval_valid_ms = 86'400'000;  ///< an approval older than this counts no more
};

/// How means of fixed data are decided (docs/design/statistics.md, "Means").
enum class Means : std::uint8_t { exact, approximate };
struct Confidence {
  double alpha = 0.05, alpha_harm = 0.01, alpha_advance = 0.05;
  Means means = Means::exact;
};

/// Escalation actions, weakest first (docs/design/pipeline.md, "Escalation ladder").
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

struct EscalationRule {
  std::string match;  ///< "family.id" or "family.*"
  std::optional<Stage> stage;
  std::optional<Severity> severity;
  bool any_slice = false;  ///< slice: any → matches verdicts on slices as well as on the whole
  std::optional<SliceWhere> slice;
  Action action = Action::log;
  SourcePosition position;
};
struct Recovery {
  std::uint32_t clean_windows = 12;
  std::int64_t min_dwell_ms = 120'000;
};
struct Escalation {
  std::vector<EscalationRule> rules;
  Action hard_default = Action::rollback;
  Action soft_default = Action::freeze;
  Recovery recovery;
};

/// A parsed and checked contract C = (N, S, R, O, Π).
struct Contract {
  std::string name, description;
  std::vector<std::string> owners;
  std::string train_kernel, inf_kernel, fallback_kernel;  ///< refs; fallback empty when absent
  std::uint32_t top_k = 10;                               ///< of topk_overlap; `measurement: {top_k: N}`
  Assumptions assumptions;
  Slices slices;
  std::vector<Clause> clauses;  ///< all families, in document order within each
  ShadowPlan shadow;
  std::optional<CanaryPlan> canary;
  Confidence confidence;
  Escalation escalation;
  std::string digest;          ///< "sha256:…" of `canonical_json`
  std::string canonical_json;  ///< RFC 8785 of the parsed document, no defaults filled in
};

/// What parsing found: a contract when `faults` is empty. Warnings never block (docs/design/contract.md,
/// "Rules at registration").
struct ContractReport {
  std::optional<Contract> contract;
  std::vector<Fault> faults;
  std::vector<Fault> warnings;
};

/// Parses YAML or JSON (told apart by the first character `{`) under the limits of docs/design/contract.md,
/// "Limits of the document", and checks every rule of "Rules at registration" there. `name` is used in
/// messages.
[[nodiscard]] ContractReport parse_contract(std::string_view text, std::string_view name);

/// "FILE:line:column: message" for each fault, one a line.
[[nodiscard]] std::string format_faults(const std::vector<Fault>& faults, std::string_view name);

/// The JSON Schema published at /schemas/contract.json, as text, made from the registry.
[[nodiscard]] std::string contract_json_schema();

[[nodiscard]] std::string_view to_string(Family value);
[[nodiscard]] std::string_view to_string(ExactTensor value);
[[nodiscard]] std::string_view to_string(Means value);
[[nodiscard]] std::string_view to_string(Severity value);
[[nodiscard]] std::string_view to_string(SliceRole value);
[[nodiscard]] std::string_view to_string(Action value);
/// "language=de;domain=code" → sorted "domain=code;language=de".
[[nodiscard]] std::string slice_text(const SliceWhere& where);

}  // namespace driftgate::schema
