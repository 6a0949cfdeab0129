#include "schema/contract/least_n.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schema/contract/contract_means.hpp"

namespace driftgate::schema {
namespace {

// Thresholds of docs/design/statistics.md, "Means" and "Calibration".
constexpr std::uint64_t kClustersForBootstrap = 50;
constexpr std::uint64_t kOutcomesForCalibration = 150;  ///< ten for each of 15 bins
constexpr double kBetCap = 0.99;
constexpr double kVocabulary = 150'000;  ///< of a usual model: entropies end at ln V, which captures tell
constexpr double kMaxN = 1e15;

std::optional<std::uint64_t> whole(double n) {
  if (!(n > 0) || n > kMaxN) return std::nullopt;
  return static_cast<std::uint64_t>(std::ceil(n));
}

// What a run of a clause's stage spends of α, and what it counts there.
struct Setting {
  Stage stage;
  double alpha;
  std::string unit;
};

Setting setting_of(Stage stage, const Contract& contract, const Runs& runs) {
  const bool canary = stage == Stage::canary;
  const double alpha = canary ? contract.confidence.alpha_advance : contract.confidence.alpha;
  const char* const captured = stage == Stage::shadow_runtime ? "pairs" : "sequences";
  return {stage, spent_alpha(stage, alpha, runs.of(stage)), canary ? "sticky keys" : captured};
}

LeastN answer(const Setting& setting, std::optional<std::uint64_t> n, std::string why) {
  return {setting.stage, n, setting.unit, setting.alpha, std::move(why), false};
}

// A mean difference in [−1, 1] that is 0 in every pair, against a limit of `delta`.
std::optional<std::uint64_t> least_n_delta_mean(double delta, double alpha) {
  if (delta <= 0) return std::nullopt;
  return whole(-std::log(alpha) / std::log1p(kBetCap * delta / (1 - delta)));
}

// A mean whose limit leaves the share `tau` of its range for events.
LeastN bounded_mean(const Setting& setting, double tau, std::string why) {
  if (tau <= 0)
    return answer(setting, std::nullopt, "a limit at the end of the range cannot be proven by sampling");
  return answer(setting, least_n_betting(tau, setting.alpha), std::move(why));
}

// Bounded by ln V, which the contract does not know.
bool has_entropy_range(Metric metric) {
  return metric == Metric::entropy_train || metric == Metric::entropy_inf;
}

bool is_derived(Metric metric) {
  return metric == Metric::ess_fraction || metric == Metric::prob_pearson;
}

std::string exact_words(const MetricSubject& subject, const Clause& clause) {
  if (weighs_tokens(subject))
    return "betting on tokens, bets sized for max_tokens: more are needed where sequences are shorter";
  if (clause.clip) return "betting on sequences counted as at most the clip";
  if (!has_entropy_range(subject.metric)) return "betting on sequences over the whole range";
  return "betting on sequences over [0, ln V], here with V = 150,000";
}

std::string quantile_words(QuantileOver over) {
  if (over == QuantileOver::sequences) return "betting on the share of sequences beyond the limit";
  if (over == QuantileOver::average_sequence)
    return "betting on each sequence's share of rows beyond the limit";
  return "betting on rows, bets sized for max_tokens: more are needed where sequences are shorter";
}

// With every value at that end the p-value is (1 − tau)^n. A difference in [−range, range] that is 0 in every
// pair has the same, tau being the limit's share of one side.
LeastN gaffke_mean(const Setting& setting, double tau) {
  if (tau <= 0) return bounded_mean(setting, tau, {});
  return answer(setting, least_n_binomial(tau, setting.alpha),
                "Gaffke's bound, approximate (its validity is conjectured)");
}

// In the best case no value lies beyond the end of the range that the limit is near to.
LeastN mean_in_captures(const Setting& setting, const MetricSubject& subject, const Clause& clause,
                        const Contract& contract) {
  const std::optional<double> tau = share_left(clause);
  const bool approximate = contract.confidence.means == Means::approximate;
  if (is_derived(subject.metric)) {
    return answer(setting, kClustersForBootstrap, "bootstrap of the whole figure, approximate");
  }
  if (approximate && tau && !weighs_tokens(subject)) return gaffke_mean(setting, *tau);
  if (approximate && !(tau && counts_events(subject.metric))) {
    const auto betting =
        tau && !clause.limits.max_delta ? least_n_betting(*tau, setting.alpha) : std::nullopt;
    const std::uint64_t n = std::min(betting.value_or(kClustersForBootstrap), kClustersForBootstrap);
    return answer(setting, n, "bootstrap-t, approximate, betting under 50; heavier tails need more");
  }
  if (!tau) {
    return answer(setting, std::nullopt,
                  "values without a largest one have no exact limit; state clip, or confidence.means");
  }
  if (*tau >= 1) return answer(setting, 1, "the limit is at the end of the range");
  if (clause.limits.max_delta) {
    return answer(setting, least_n_delta_mean(*tau, setting.alpha), exact_words(subject, clause));
  }
  if (approximate) {
    return bounded_mean(setting, *tau, "betting with no event; resampling only where 25 sequences have one");
  }
  return bounded_mean(setting, *tau, exact_words(subject, clause));
}

LeastN metric_in_captures(const Setting& setting, const MetricSubject& subject, const Clause& clause,
                          const Contract& contract) {
  const bool census = subject.aggregate == Aggregate::sum || subject.aggregate == Aggregate::min ||
                      subject.aggregate == Aggregate::max;
  if (census) {
    return answer(setting, clause.limits.min_count.value_or(min_sequences_of(clause, contract)),
                  "census: no event in at least this many");
  }
  if (const auto q = subject.aggregate ? quantile_of(*subject.aggregate) : std::nullopt) {
    const double tolerated = clause.limits.min ? *q : 1 - *q;
    return answer(setting, least_n_betting(tolerated, setting.alpha), quantile_words(clause.over));
  }
  if (subject.metric == Metric::ece_drift) {
    LeastN needs = answer(setting, kOutcomesForCalibration, "bootstrap of 15 bins, approximate");
    needs.unit = "outcomes";
    return needs;
  }
  return mean_in_captures(setting, subject, clause, contract);
}

LeastN bound_needs(const Setting& setting, const BoundSubject& subject, const Clause& clause,
                   const Assumptions& assumptions) {
  const double max = clause.limits.max.value_or(0);
  if (subject.horizon == Horizon::sequence) {
    return answer(setting, kClustersForBootstrap, "approximate limits of the drift of whole sequences");
  }
  double tau = max;
  if (subject.bound == Bound::reward && assumptions.reward) {
    tau = max / (assumptions.reward->max - assumptions.reward->min);
  } else if (subject.bound == Bound::policy_gradient && assumptions.policy) {
    tau = max / (2 * assumptions.policy->advantage_max * assumptions.policy->score_norm_max);
  }
  if (tau >= 1) return answer(setting, 1, "the limit is beyond the largest possible value");
  return bounded_mean(setting, tau, "betting on sequences over the whole range");
}

// In the canary a process starts with each step and with the bake (docs/design/statistics.md, "Planned
// starts").
std::uint32_t planned_starts(const Contract& contract) {
  return contract.canary ? static_cast<std::uint32_t>(contract.canary->steps.size()) + 1 : 1;
}

// Paired differences in [−1, 1], none of them different from 0.
std::optional<std::uint64_t> least_n_delta(const Setting& setting, double delta) {
  if (delta <= 0) return std::nullopt;
  if (delta >= 1) return 1;
  if (setting.stage != Stage::canary) return least_n_outcome(delta, setting.alpha);
  return whole(-std::log(setting.alpha) / std::log1p(0.5 * delta / (1 - delta)));
}

LeastN traffic_needs(const Setting& setting, const MetricSubject& subject, const Clause& clause,
                     const Contract& contract) {
  if (requirement_of(clause) == Requirement::no_harm) {
    return answer(setting, 1, "no_harm passes unless it is violated");
  }
  if (subject.metric == Metric::error_rate && clause.limits.max_delta) {
    return answer(setting, least_n_delta(setting, *clause.limits.max_delta),
                  "no pair of which only one failed");
  }
  if (subject.metric == Metric::error_rate) {
    const double max = clause.limits.max.value_or(1);
    if (setting.stage == Stage::canary) {
      return answer(setting,
                    max >= 1 ? std::optional<std::uint64_t>(1)
                             : least_n_betting_mixture(max, setting.alpha, planned_starts(contract)),
                    "betting on the failure rate with no failure");
    }
    return answer(setting, max >= 1 ? std::optional<std::uint64_t>(1) : least_n_binomial(max, setting.alpha),
                  "Clopper–Pearson with no failure");
  }
  const auto q = subject.aggregate ? quantile_of(*subject.aggregate) : std::nullopt;
  if (!q && setting.stage == Stage::canary)
    return answer(setting, 500, "asymptotic limits of log-latency, no look before 500");
  if (!q) return answer(setting, 50, "Student's t on log-latency, approximate");
  // The largest of n values is above the quantile with probability 1 − Q^n; two arms share α in a ratio.
  const bool two_arms = clause.limits.max_ratio || clause.limits.max_delta;
  const double alpha = two_arms ? setting.alpha / 2 : setting.alpha;
  return answer(setting, least_n_binomial(1 - *q, alpha), "order statistics of the quantile");
}

// In the best case no answers differ.
LeastN greedy_needs(Setting setting, const MetricSubject& subject, const Clause& clause) {
  if (clause.limits.floor_multiple) setting.alpha /= 2;  // the other half is spent on the floor
  if (subject.metric == Metric::divergence_rate) {
    const double max = clause.limits.max.value_or(1);
    return answer(setting, max >= 1 ? std::optional<std::uint64_t>(1) : least_n_binomial(max, setting.alpha),
                  "Clopper–Pearson with no answers that differ");
  }
  if (const auto q = subject.aggregate ? quantile_of(*subject.aggregate) : std::nullopt) {
    return answer(setting, least_n_binomial(*q, setting.alpha),
                  "Clopper–Pearson with no answers that differ sooner");
  }
  return bounded_mean(setting, share_left(clause).value_or(0), "betting on prompts over the whole range");
}

LeastN needs_in(Stage stage, const Clause& clause, const Contract& contract, const Runs& runs) {
  Setting setting = setting_of(stage, contract, runs);
  if (std::holds_alternative<OutcomeSubject>(clause.subject)) {
    setting.unit = "outcomes";
    const double margin = clause.limits.non_inferiority_margin.value_or(0);
    if (margin <= 0) {
      return answer(setting, 1, "a margin of 0 passes only when the inference kernel is shown to be better");
    }
    return answer(setting, least_n_outcome(margin, setting.alpha), "Clopper–Pearson with all outcomes alike");
  }
  if (const auto* signal = std::get_if<SignalSubject>(&clause.subject)) {
    const bool counted = signal->signal == Metric::shadow_pairs;
    LeastN needs = answer(setting, counted ? clause.limits.min_count.value_or(1) : 1, "counted, not tested");
    needs.counted = true;
    return needs;
  }
  if (const auto* bound = std::get_if<BoundSubject>(&clause.subject)) {
    return bound_needs(setting, *bound, clause, contract.assumptions);
  }
  if (std::holds_alternative<ExactSubject>(clause.subject)) {
    return answer(setting, clause.limits.min_count.value_or(min_sequences_of(clause, contract)),
                  "census: no row that differs in at least this many");
  }
  const auto& metric = std::get<MetricSubject>(clause.subject);
  if (info(metric.metric).group == MetricGroup::traffic)
    return traffic_needs(setting, metric, clause, contract);
  if (info(metric.metric).group == MetricGroup::batch) {
    setting.unit = stage == Stage::shadow_runtime ? "prompts" : setting.unit;
    const double max = clause.limits.max.value_or(1);
    return answer(setting, max >= 1 ? std::optional<std::uint64_t>(1) : least_n_binomial(max, setting.alpha),
                  "Clopper–Pearson with no prompt that varies");
  }
  if (info(metric.metric).group == MetricGroup::greedy) return greedy_needs(setting, metric, clause);
  if (clause.limits.floor_multiple) setting.alpha /= 2;  // the other half is spent on the floor
  return metric_in_captures(setting, metric, clause, contract);
}

}  // namespace

std::optional<ValueEnds> ends_of(const Clause& clause) {
  const auto* subject = std::get_if<MetricSubject>(&clause.subject);
  if (subject == nullptr || (!clause.clip && !has_finite_range(subject->metric))) return std::nullopt;
  const MetricInfo& entry = info(subject->metric);
  const double end = has_entropy_range(subject->metric) ? std::log(kVocabulary) : entry.high;
  return ValueEnds{entry.low, clause.clip.value_or(end)};
}

std::optional<double> share_left(const Clause& clause) {
  const auto ends = ends_of(clause);
  if (!ends) return std::nullopt;
  const double width = ends->high - ends->low;
  if (clause.limits.max) return (*clause.limits.max - ends->low) / width;
  if (clause.limits.min) return (ends->high - *clause.limits.min) / width;
  return clause.limits.max_delta.value_or(0) / width;
}

bool counts_events(Metric metric) {
  return metric == Metric::top1_flip || metric == Metric::topk_overlap ||
         metric == Metric::clip_budget_used || metric == Metric::band_retention;
}

bool discovery_searches(const Clause& clause) {
  if ((clause.stages & stage_bit(Stage::statistical_slice)) == 0) return false;
  if (std::holds_alternative<OutcomeSubject>(clause.subject)) return true;
  const auto* metric = std::get_if<MetricSubject>(&clause.subject);
  const bool plain = (clause.limits.max || clause.limits.min) && !clause.limits.floor_multiple;
  if (metric == nullptr || !plain) return false;
  if (metric->aggregate && quantile_of(*metric->aggregate)) return true;
  const bool mean = !metric->aggregate || metric->aggregate == Aggregate::mean ||
                    metric->aggregate == Aggregate::sequence_mean;
  return mean && (clause.clip || has_finite_range(metric->metric));
}

std::optional<std::uint64_t> least_n_betting(double tau, double alpha) {
  if (tau <= 0) return std::nullopt;
  if (tau >= 1) return 1;
  return whole(-std::log(alpha) / std::log1p(kBetCap * tau / (1 - tau)));
}

std::optional<std::uint64_t> least_n_betting_mixture(double tau, double alpha, std::uint32_t starts) {
  if (tau <= 0) return std::nullopt;
  if (tau >= 1) return 1;
  const double slow = std::log1p(0.5 * tau / (1 - tau)), fast = std::log1p(kBetCap * tau / (1 - tau));
  const double wanted = starts / alpha - (starts - 1.0);
  const auto proven = [&](double n) { return 0.5 * (std::exp(n * slow) + std::exp(n * fast)) >= wanted; };
  double low = 0, high = std::ceil(std::log(2 * wanted) / fast);
  if (high > kMaxN) return std::nullopt;
  while (high - low > 1) {
    const double middle = std::floor((low + high) / 2);
    (proven(middle) ? high : low) = middle;
  }
  return whole(high);
}

std::optional<std::uint64_t> least_n_binomial(double rate, double alpha) {
  if (rate <= 0) return std::nullopt;
  if (rate >= 1) return 1;
  return whole(std::log(alpha) / std::log1p(-rate));
}

std::optional<std::uint64_t> least_n_outcome(double margin, double alpha) {
  return least_n_binomial(margin, alpha / 2);
}

std::vector<LeastN> least_n(const Clause& clause, const Contract& contract, const Runs& runs) {
  std::vector<LeastN> needs;
  for (std::size_t i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    if ((clause.stages & stage_bit(stage)) != 0) needs.push_back(needs_in(stage, clause, contract, runs));
  }
  return needs;
}

std::uint32_t min_sequences_of(const Clause& clause, const Contract& contract) {
  return clause.min_sequences.value_or(contract.slices.min_sequences);
}

Requirement requirement_of(const Clause& clause) {
  if (clause.require) return *clause.require;
  const auto* metric = std::get_if<MetricSubject>(&clause.subject);
  if (metric == nullptr || info(metric->metric).group != MetricGroup::traffic) return Requirement::proof;
  if (metric->metric != Metric::error_rate) return Requirement::no_harm;
  return clause.limits.max_ratio && !clause.limits.max ? Requirement::no_harm : Requirement::proof;
}

}  // namespace driftgate::schema
