#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace driftgate::schema {

/// Every measured name of docs/design/measurement.md, "Registry of names". The first `kRowMetricCount` values
/// are those of "Figures of one row" in the order of its table: a row's figures are indexed by them.
enum class Metric : std::uint8_t {
  // per row, from full logits
  logit_max_abs, logit_rms, logit_span, tv, kl_train_inf, kl_inf_train, js, hellinger2, chi2,
  entropy_train, entropy_inf, top1_flip, topk_overlap, top1_margin,
  logprob_train, logprob_inf, log_ratio, nonfinite,
  // from target tokens
  ratio_mean, tv_sampled, kl_inf_train_sampled, abs_log_ratio, mult_prob_error, ess_fraction,
  clip_budget_used, chi2_sequence, tv_sequence, band_retention, log_ppl_diff, sequence_log_ratio, prob_pearson,
  // traffic, batches, calibration
  error_rate, ttft_ms, inter_token_ms, total_ms, batch_variant_rate, ece_drift,
  // observability signals
  shadow_pairs, logprobs, telemetry,
};
inline constexpr std::size_t kRowMetricCount = 18;
inline constexpr std::size_t kMetricCount = 40;

/// Aggregates of docs/design/measurement.md, "Registry of names". A quantile is the smallest value of
/// rank ≥ ⌈pn⌉.
enum class Aggregate : std::uint8_t { mean, sequence_mean, min, max, sum, p50, p90, p95, p97, p99, p99_9 };
inline constexpr std::size_t kAggregateCount = 11;

enum class Stage : std::uint8_t { offline_numeric, statistical_slice, shadow_runtime, canary };
inline constexpr std::size_t kStageCount = 4;

/// Bounds of docs/design/measurement.md, "The bound chain", that a clause may limit.
enum class Bound : std::uint8_t { tv, reward, sequence, policy_gradient };
inline constexpr std::size_t kBoundCount = 4;

/// The six values of `band_retention`: the share of tokens, or of whole sequences, whose ratio lies within
/// 0.1%, 1% or 5% of 1. A clause on it names one.
enum class Band : std::uint8_t {
  tokens_0_1pct, tokens_1pct, tokens_5pct, sequences_0_1pct, sequences_1pct, sequences_5pct
};
inline constexpr std::size_t kBandCount = 6;

enum class MetricGroup : std::uint8_t { row, realised, traffic, batch, calibration, signal };

/// A bit for each Stage.
using StageSet = std::uint8_t;
[[nodiscard]] constexpr StageSet stage_bit(Stage s) { return static_cast<StageSet>(1U << static_cast<unsigned>(s)); }
/// A bit for each Aggregate.
using AggregateSet = std::uint16_t;
[[nodiscard]] constexpr AggregateSet aggregate_bit(Aggregate a) {
  return static_cast<AggregateSet>(1U << static_cast<unsigned>(a));
}

/// One row of the registry of names (docs/design/measurement.md, "Registry of names"), from which the JSON
/// Schema, `contract explain`, the API reference and the page's labels are made.
struct MetricInfo {
  Metric metric;
  std::string_view name;
  std::string_view definition;
  std::string_view unit;  ///< "", "nats", "share", "ms", "s", "count"
  double low;             ///< range, closed unless infinite
  double high;
  MetricGroup group;
  AggregateSet aggregates;  ///< those that make sense in a clause; 0 = the metric is one figure by itself
  StageSet stages;          ///< stages that can supply it
  bool needs_sampled_tokens;  ///< †: tokens sampled by K_inf without filters
  bool bounded;               ///< has a finite range, so that betting bounds apply
};

[[nodiscard]] std::span<const MetricInfo, kMetricCount> metric_registry();
[[nodiscard]] const MetricInfo& info(Metric metric);
/// Zero where the two kernels agree bit for bit, and known without sampled tokens: what a noise floor can be
/// measured in (docs/design/statistics.md, "Noise floor").
[[nodiscard]] bool is_distance(Metric metric);
[[nodiscard]] std::optional<Metric> metric_from_name(std::string_view name);
[[nodiscard]] std::string_view to_string(Metric metric);
[[nodiscard]] std::string_view to_string(Aggregate aggregate);
[[nodiscard]] std::optional<Aggregate> aggregate_from_name(std::string_view name);
/// The Q of a quantile aggregate (p99_9 → 0.999), nothing for the others.
[[nodiscard]] std::optional<double> quantile_of(Aggregate aggregate);
[[nodiscard]] std::string_view to_string(Stage stage);  ///< "offline-numeric" …
[[nodiscard]] std::optional<Stage> stage_from_name(std::string_view name);
[[nodiscard]] std::string_view to_string(Bound bound);
[[nodiscard]] std::optional<Bound> bound_from_name(std::string_view name);
[[nodiscard]] std::string_view to_string(Band band);  ///< "tokens.0_1pct" …
[[nodiscard]] std::optional<Band> band_from_name(std::string_view name);

}  // namespace driftgate::schema
