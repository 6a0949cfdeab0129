#include "schema/metrics.hpp"

#include <limits>

namespace driftgate::schema {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLn2 = 0.69314718055994530942;

constexpr AggregateSet set_of() {
  return 0;
}
template <typename... Rest>
constexpr AggregateSet set_of(Aggregate first, Rest... rest) {
  return static_cast<AggregateSet>(aggregate_bit(first) | set_of(rest...));
}

constexpr AggregateSet kOneFigure = 0;
constexpr AggregateSet kMeans = set_of(Aggregate::mean, Aggregate::sequence_mean);
constexpr AggregateSet kQuantiles =
    set_of(Aggregate::p50, Aggregate::p90, Aggregate::p95, Aggregate::p97, Aggregate::p99,
           Aggregate::p99_9);
constexpr AggregateSet kMinimum = set_of(Aggregate::min);
constexpr AggregateSet kMaximum = set_of(Aggregate::max);
constexpr AggregateSet kSum = set_of(Aggregate::sum);
constexpr AggregateSet kAnyValue = kMeans | kQuantiles | kMinimum | kMaximum;
/// Metrics of target tokens keep one figure for each sequence, so their quantiles are over sequences.
constexpr AggregateSet kTokenFigure = kMeans | kQuantiles;
constexpr AggregateSet kSequenceFigure = kQuantiles | set_of(Aggregate::sequence_mean);
constexpr AggregateSet kSequenceMean = set_of(Aggregate::sequence_mean);
constexpr AggregateSet kMedian = set_of(Aggregate::p50);
constexpr AggregateSet kLatency = kQuantiles | set_of(Aggregate::mean);

constexpr StageSet kOffline = stage_bit(Stage::offline_numeric);
constexpr StageSet kSlice = stage_bit(Stage::statistical_slice);
constexpr StageSet kShadow = stage_bit(Stage::shadow_runtime);
constexpr StageSet kCanary = stage_bit(Stage::canary);
constexpr StageSet kCaptures = kOffline | kSlice;
constexpr StageSet kTokens = kCaptures | kShadow;
constexpr StageSet kTraffic = kShadow | kCanary;

using enum MetricGroup;

// clang-format off
constexpr std::array<MetricInfo, kMetricCount> kRegistry{{
    {Metric::logit_max_abs, "logit_max_abs", "largest absolute logit difference of a row", "logits", 0, kInf, row, kAnyValue, kCaptures, false, false},
    {Metric::logit_rms, "logit_rms", "root mean square of the centred logit differences of a row", "logits", 0, kInf, row, kAnyValue, kCaptures, false, false},
    {Metric::logit_span, "logit_span", "largest minus smallest logit difference of a row", "logits", 0, kInf, row, kAnyValue, kCaptures, false, false},
    {Metric::tv, "tv", "total variation distance of the two next-token distributions", "share", 0, 1, row, kAnyValue, kCaptures, false, true},
    {Metric::kl_train_inf, "kl_train_inf", "KL(p‖q), from train to inf", "nats", 0, kInf, row, kAnyValue, kCaptures, false, false},
    {Metric::kl_inf_train, "kl_inf_train", "KL(q‖p), from inf to train", "nats", 0, kInf, row, kAnyValue, kCaptures, false, false},
    {Metric::js, "js", "Jensen–Shannon divergence", "nats", 0, kLn2, row, kAnyValue, kCaptures, false, true},
    {Metric::hellinger2, "hellinger2", "squared Hellinger distance", "share", 0, 1, row, kAnyValue, kCaptures, false, true},
    {Metric::chi2, "chi2", "χ²(p‖q) = E_q[w²] − 1", "", 0, kInf, row, kAnyValue, kCaptures, false, false},
    {Metric::entropy_train, "entropy_train", "entropy of the training kernel's distribution", "nats", 0, kInf, row, kAnyValue, kCaptures, false, false},
    {Metric::entropy_inf, "entropy_inf", "entropy of the inference kernel's distribution", "nats", 0, kInf, row, kAnyValue, kCaptures, false, false},
    {Metric::top1_flip, "top1_flip", "the greedy token differs, ties to the lowest id", "share", 0, 1, row, kMeans | kSum | kMaximum, kCaptures, false, true},
    {Metric::topk_overlap, "topk_overlap", "share of the top k tokens that both kernels agree on", "share", 0, 1, row, kMeans | kMinimum, kCaptures, false, true},
    {Metric::top1_margin, "top1_margin", "gap between the two largest logits of the training kernel", "logits", 0, kInf, row, kMeans | kMinimum, kCaptures, false, false},
    {Metric::logprob_train, "logprob_train", "log-probability of the target token under the training kernel", "nats", -kInf, 0, row, kMeans | kMinimum, kCaptures, false, false},
    {Metric::logprob_inf, "logprob_inf", "log-probability of the target token under the inference kernel", "nats", -kInf, 0, row, kMeans | kMinimum, kCaptures, false, false},
    {Metric::log_ratio, "log_ratio", "log w = log p_a − log q_a of the target token", "nats", -kInf, kInf, row, kAnyValue, kCaptures, false, false},
    {Metric::nonfinite, "nonfinite", "NaN or infinite logits in either kernel, masked entries not counted", "count", 0, kInf, row, kSum | kMaximum, kCaptures, false, false},

    {Metric::ratio_mean, "ratio_mean", "mean importance ratio w; 1 when the support assumption holds", "", 0, kInf, realised, kOneFigure, kTokens, true, false},
    {Metric::tv_sampled, "tv_sampled", "mean ½|w − 1|: TV without full logits", "share", 0, kInf, realised, kTokenFigure, kTokens, true, false},
    {Metric::kl_inf_train_sampled, "kl_inf_train_sampled", "mean w − 1 − log w: KL(q‖p) without full logits", "nats", 0, kInf, realised, kTokenFigure, kTokens, true, false},
    {Metric::abs_log_ratio, "abs_log_ratio", "mean |log w|", "nats", 0, kInf, realised, kTokenFigure, kTokens, false, false},
    {Metric::mult_prob_error, "mult_prob_error", "mean exp|log w| = M; TV ≤ (M − 1)/2", "", 1, kInf, realised, kTokenFigure, kTokens, true, false},
    {Metric::ess_fraction, "ess_fraction", "effective sample size of correcting with w, as a share", "share", 0, 1, realised, kOneFigure, kTokens, true, false},
    {Metric::clip_budget_used, "clip_budget_used", "share of tokens whose w lies outside the PPO clip range", "share", 0, 1, realised, kTokenFigure, kTokens, false, true},
    {Metric::chi2_sequence, "chi2_sequence", "mean (W − 1)² of whole-sequence ratios", "", 0, kInf, realised, kSequenceFigure, kTokens, true, false},
    {Metric::tv_sequence, "tv_sequence", "mean (1 − W)⁺ of whole-sequence ratios: TV of the sequence distributions", "share", 0, 1, realised, kSequenceFigure, kTokens, true, true},
    {Metric::band_retention, "band_retention", "share of tokens and sequences whose ratio is within 0.1%, 1% and 5% of 1", "share", 0, 1, realised, kMeans, kTokens, false, true},
    {Metric::log_ppl_diff, "log_ppl_diff", "mean log q_a − mean log p_a of a sequence", "nats", -kInf, kInf, realised, kSequenceFigure, kTokens, false, false},
    {Metric::sequence_log_ratio, "sequence_log_ratio", "sum of log w over a sequence", "nats", -kInf, kInf, realised, kSequenceFigure, kTokens, false, false},
    {Metric::prob_pearson, "prob_pearson", "correlation of the two kernels' probabilities of the target tokens", "", -1, 1, realised, kOneFigure, kTokens, false, false},

    {Metric::error_rate, "error_rate", "failed requests divided by all requests", "share", 0, 1, traffic, kOneFigure, kTraffic, false, true},
    {Metric::ttft_ms, "ttft_ms", "time from accepting the request to the first token", "ms", 0, kInf, traffic, kLatency, kTraffic, false, false},
    {Metric::inter_token_ms, "inter_token_ms", "mean gap between the tokens of a response", "ms", 0, kInf, traffic, kLatency, kTraffic, false, false},
    {Metric::total_ms, "total_ms", "time from accepting the request to the last byte", "ms", 0, kInf, traffic, kLatency, kTraffic, false, false},
    {Metric::batch_variant_rate, "batch_variant_rate", "share of prompts whose greedy tokens change with the batch size", "share", 0, 1, batch, kOneFigure, kTokens, false, true},
    {Metric::ece_drift, "ece_drift", "difference of debiased expected calibration error, inf − train", "share", -1, 1, calibration, kOneFigure, kSlice, false, false},

    {Metric::prefix_agreement, "prefix_agreement", "share of two greedy answers' tokens that come before the first difference", "share", 0, 1, greedy, kSequenceMean, kShadow, false, true},
    {Metric::first_divergence, "first_divergence", "tokens before two greedy answers differ, 32 where they do not", "tokens", 0, kGreedyTokens, greedy, kSequenceMean | kMedian, kShadow, false, true},
    {Metric::divergence_rate, "divergence_rate", "share of prompts whose greedy answers differ within 32 tokens", "share", 0, 1, greedy, kOneFigure, kShadow, false, true},

    {Metric::shadow_pairs, "shadow_pairs", "requests answered by both kernels and joined", "count", 0, kInf, signal, kOneFigure, kTraffic, false, false},
    {Metric::logprobs, "logprobs", "share of sampled requests with log-probabilities", "share", 0, 1, signal, kOneFigure, kTraffic, false, true},
    {Metric::telemetry, "telemetry", "age of the newest telemetry window", "s", 0, kInf, signal, kOneFigure, kTraffic, false, false},
}};
// clang-format on

consteval bool in_enum_order() {
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    if (kRegistry[i].metric != static_cast<Metric>(i)) return false;
  }
  return true;
}
static_assert(in_enum_order(), "the registry is indexed by Metric");

constexpr std::array<std::string_view, kAggregateCount> kAggregates{
    "mean", "sequence_mean", "min", "max", "sum", "p50", "p90", "p95", "p97", "p99", "p99_9"};
constexpr std::array<std::string_view, kStageCount> kStages{"offline-numeric", "statistical-slice",
                                                            "shadow-runtime", "canary"};
constexpr std::array<std::string_view, kBoundCount> kBounds{"tv", "reward", "sequence", "policy_gradient"};
constexpr std::array<std::string_view, kBandCount> kBandNames{"tokens.0_1pct",  "tokens.1pct",
                                                              "tokens.5pct",    "sequences.0_1pct",
                                                              "sequences.1pct", "sequences.5pct"};

template <typename Enum, std::size_t N>
std::optional<Enum> find_name(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::span<const MetricInfo, kMetricCount> metric_registry() {
  return kRegistry;
}
const MetricInfo& info(Metric metric) {
  return kRegistry.at(static_cast<std::size_t>(metric));
}

bool is_distance(Metric metric) {
  switch (metric) {
    case Metric::logit_max_abs:
    case Metric::logit_rms:
    case Metric::logit_span:
    case Metric::tv:
    case Metric::kl_train_inf:
    case Metric::kl_inf_train:
    case Metric::js:
    case Metric::hellinger2:
    case Metric::chi2:
    case Metric::top1_flip:
    case Metric::abs_log_ratio:
    case Metric::clip_budget_used:
    case Metric::divergence_rate:
      return true;
    default:
      return false;
  }
}

std::optional<Metric> metric_from_name(std::string_view name) {
  for (const MetricInfo& entry : kRegistry) {
    if (entry.name == name) return entry.metric;
  }
  return std::nullopt;
}

std::string_view to_string(Metric metric) {
  return info(metric).name;
}
std::string_view to_string(Aggregate aggregate) {
  return kAggregates.at(static_cast<std::size_t>(aggregate));
}
std::optional<Aggregate> aggregate_from_name(std::string_view name) {
  return find_name<Aggregate>(kAggregates, name);
}

std::optional<double> quantile_of(Aggregate aggregate) {
  switch (aggregate) {
    case Aggregate::p50:
      return 0.5;
    case Aggregate::p90:
      return 0.9;
    case Aggregate::p95:
      return 0.95;
    case Aggregate::p97:
      return 0.97;
    case Aggregate::p99:
      return 0.99;
    case Aggregate::p99_9:
      return 0.999;
    case Aggregate::mean:
    case Aggregate::sequence_mean:
    case Aggregate::min:
    case Aggregate::max:
    case Aggregate::sum:
      return std::nullopt;
  }
  return std::nullopt;
}

std::string_view to_string(Stage stage) {
  return kStages.at(static_cast<std::size_t>(stage));
}
std::optional<Stage> stage_from_name(std::string_view name) {
  return find_name<Stage>(kStages, name);
}
std::string_view to_string(Bound bound) {
  return kBounds.at(static_cast<std::size_t>(bound));
}
std::optional<Bound> bound_from_name(std::string_view name) {
  return find_name<Bound>(kBounds, name);
}
std::string_view to_string(Band band) {
  return kBandNames.at(static_cast<std::size_t>(band));
}
std::optional<Band> band_from_name(std::string_view name) {
  return find_name<Band>(kBandNames, name);
}

}  // namespace driftgate::schema
