#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace driftgate::schema {

/// Every measured name (docs/design/measurement.md, "Registry of names"). The first `kRowMetricCount` values
/// are the figures of one row, in the order of the table in "Figures of one row" there; arrays of a row's
/// figures are indexed by them.
enum class Metric : std::uint8_t {
  // per row, from full logits
  logit_max_abs,
  logit_rms,
  logit_span,
  tv,
  kl_train_inf,
  kl_inf_train,
  js,
  hellinger2,
  chi2,
  entropy_train,
  entropy_inf,
  top1_flip,
  topk_overlap,
  top1_margin,
  logprob_train,
  logprob_inf,
  log_ratio,
  nonfinite,
  // from target tokens
  ratio_mean,
  tv_sampled,
  kl_inf_train_sampled,
  abs_log_ratio,
  mult_prob_error,
  ess_fraction,
  clip_budget_used,
  chi2_sequence,
  tv_sequence,
  band_retention,
  log_ppl_diff,
  sequence_log_ratio,
  prob_pearson,
  // traffic, batches, calibration
  error_rate,
  ttft_ms,
  inter_token_ms,
  total_ms,
  batch_variant_rate,
  ece_drift,
  // greedy answers of both kernels to the same prompts
  prefix_agreement,
  first_divergence,
  divergence_rate,
  // observability signals
  shadow_pairs,
  logprobs,
  telemetry,
};
inline constexpr std::size_t kRowMetricCount = 18;
inline constexpr std::size_t kMetricCount = 43;

/// The tokens of a greedy answer that are asked for and compared: the horizon of the metrics of greedy
/// answers.
inline constexpr std::uint32_t kGreedyTokens = 32;

/// How values of a metric become one figure (docs/design/measurement.md, "Registry of names"). A quantile is
/// the smallest value of rank ≥ ⌈pn⌉.
enum class Aggregate : std::uint8_t { mean, sequence_mean, min, max, sum, p50, p90, p95, p97, p99, p99_9 };
inline constexpr std::size_t kAggregateCount = 11;

/// The stages of a promotion (docs/design/pipeline.md, "The four stages").
enum class Stage : std::uint8_t { offline_numeric, statistical_slice, shadow_runtime, canary };
inline constexpr std::size_t kStageCount = 4;

/// The bounds that a clause may limit (docs/design/measurement.md, "The bound chain").
enum class Bound : std::uint8_t { tv, reward, sequence, policy_gradient };
inline constexpr std::size_t kBoundCount = 4;

/// The six figures of `band_retention`: the share of tokens, or of whole sequences, whose importance ratio is
/// within 0.1%, 1% or 5% of 1. A clause on band_retention names one of them.
enum class Band : std::uint8_t {
  tokens_0_1pct, tokens_1pct, tokens_5pct, sequences_0_1pct, sequences_1pct, sequences_5pct
};
inline constexpr std::size_t kBandCount = 6;

/// Where a metric is measured: on each row of full logits, on target tokens (`realised`), on live traffic, on
/// batches, on task outcomes (`calibration`), on greedy answers of both kernels to the same prompts, or on
/// the observation itself (`signal`).
enum class MetricGroup : std::uint8_t { row, realised, traffic, batch, calibration, greedy, signal };

/// A set of stages, one bit each.
using StageSet = std::uint8_t;
[[nodiscard]] constexpr StageSet stage_bit(Stage s) { return static_cast<StageSet>(1U << static_cast<unsigned>(s)); }
/// A set of aggregates, one bit each.
using AggregateSet = std::uint16_t;
[[nodiscard]] constexpr AggregateSet aggregate_bit(Aggregate a) {
  return static_cast<AggregateSet>(1U << static_cast<unsigned>(a));
}

/// One row of the registry of names (docs/design/measurement.md, "Registry of names"). The JSON Schema of
/// contracts is generated from the registry; `contract lint` and `contract explain` read it.
struct MetricInfo {
  Metric metric;
  std::string_view name;
  std::string_view definition;
  std::string_view unit;  ///< "", "nats", "share", "tokens", "ms", "s", "count"
  double low;             ///< the smallest value of the range, included unless infinite
  double high;            ///< the largest value of the range, included unless infinite
  MetricGroup group;
  AggregateSet aggregates;  ///< those that a clause may ask for; 0: the metric is one figure by itself
  StageSet stages;          ///< the stages that can supply it
  /// Meaningful only for tokens that K_inf sampled without filters (marked † in the docs).
  bool needs_sampled_tokens;
  bool bounded;  ///< has a finite range, so that exact limits by betting exist
};

[[nodiscard]] std::span<const MetricInfo, kMetricCount> metric_registry();
[[nodiscard]] const MetricInfo& info(Metric metric);
/// Whether the metric is zero where the two kernels agree bit for bit, and is known without sampled tokens: a
/// noise floor exists only for such metrics (docs/design/statistics.md, "Noise floor").
[[nodiscard]] bool is_distance(Metric metric);
[[nodiscard]] std::optional<Metric> metric_from_name(std::string_view name);
[[nodiscard]] std::string_view to_string(Metric metric);
[[nodiscard]] std::string_view to_string(Aggregate aggregate);
[[nodiscard]] std::optional<Aggregate> aggregate_from_name(std::string_view name);
/// The Q of a quantile (0.999 for p99_9); std::nullopt for other aggregates.
[[nodiscard]] std::optional<double> quantile_of(Aggregate aggregate);
[[nodiscard]] std::string_view to_string(Stage stage);  ///< "offline-numeric" and so on
[[nodiscard]] std::optional<Stage> stage_from_name(std::string_view name);
[[nodiscard]] std::string_view to_string(Bound bound);
[[nodiscard]] std::optional<Bound> bound_from_name(std::string_view name);
[[nodiscard]] std::string_view to_string(Band band);  ///< "tokens.0_1pct" and so on
[[nodiscard]] std::optional<Band> band_from_name(std::string_view name);

}  // namespace driftgate::schema
