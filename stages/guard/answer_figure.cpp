#include "stages/guard/answer_figure.hpp"

#include <algorithm>
#include <cmath>

#include "schema/contract/contract_guard.hpp"
#include "schema/contract/contract_means.hpp"
#include "stages/clauses/metric_test.hpp"

namespace driftgate::stages {
namespace {

using schema::Metric;
using schema::MetricSubject;

/// A figure of whole distributions, of which the log-probabilities of sampled tokens are an unbiased
/// estimate.
bool is_estimated(Metric metric) {
  return metric == Metric::tv || metric == Metric::kl_inf_train;
}

/// With w = p/q of a token that was drawn from q: E[(1 − w)⁺] is their total variation, and E[w − 1 − log w]
/// is KL(q‖p) (docs/design/statistics.md, "Rescored answers").
std::optional<double> figure_of(const MetricSubject& subject, const gpu::SequenceRow& row) {
  if (!is_estimated(subject.metric)) return sequence_value(subject, row);
  const gpu::TargetTokenSums& sums = row.target;
  if (sums.n == 0) return std::nullopt;
  const auto n = static_cast<double>(sums.n);
  if (subject.metric == Metric::kl_inf_train) return sums.k3 / n;
  return std::max(0.0, (sums.abs_w_minus_1 - (sums.w - n)) / (2 * n));
}

struct Range {
  double low = 0, high = 1;
  [[nodiscard]] double scaled(double value) const {
    return std::clamp((value - low) / (high - low), 0.0, 1.0);
  }
};

Range range_of(const schema::Clause& clause, Metric metric) {
  const schema::MetricInfo& entry = schema::info(metric);
  const double low = std::isfinite(entry.low) ? entry.low : 0;
  return {low, clause.clip.value_or(std::isfinite(entry.high) ? entry.high : low + 1)};
}

const MetricSubject& subject_of(const schema::Clause& clause) {
  return std::get<MetricSubject>(clause.subject);
}

MetricLimit stated_limit(const schema::Limits& limits) {
  if (!limits.max) return {limits.min.value_or(0), false};
  return {limits.floor_cap.value_or(*limits.max), true};
}

}  // namespace

std::optional<AnswerLimit> answer_limit(const schema::Clause& clause, const schema::Contract& contract) {
  if (!schema::is_rescored(clause, contract)) return std::nullopt;
  const MetricSubject& subject = subject_of(clause);
  const MetricLimit stated = stated_limit(clause.limits);
  AnswerLimit limit{.stated = stated.value, .is_max = stated.is_max};
  limit.events = schema::quantile_of(*subject.aggregate).has_value();
  limit.weighted = !limit.events && schema::weighs_tokens(subject);
  limit.unfiltered = is_estimated(subject.metric) || schema::info(subject.metric).needs_sampled_tokens;
  limit.approximate = is_estimated(subject.metric) && clause.clip.has_value();
  if (limit.events) {
    limit.limit = tolerated_fraction(*subject.aggregate, stated.is_max);
  } else {
    const double scaled = range_of(clause, subject.metric).scaled(stated.value);
    limit.limit = stated.is_max ? scaled : 1 - scaled;
  }
  return limit.limit < 1 ? std::optional(limit) : std::nullopt;
}

std::optional<AnswerFigure> answer_figure(const schema::Clause& clause, const AnswerLimit& limit,
                                          std::uint32_t max_tokens, const gpu::SequenceRow& row) {
  const MetricSubject& subject = subject_of(clause);
  const auto figure = figure_of(subject, row);
  if (!figure || std::isnan(*figure)) return std::nullopt;
  if (limit.events) {
    const double event = beyond(*figure, {limit.stated, limit.is_max}) ? 1 : 0;
    return AnswerFigure{event, event, 1};
  }
  const double scaled = range_of(clause, subject.metric).scaled(*figure);
  const double value = limit.is_max ? scaled : 1 - scaled;
  const double capped = clause.clip ? std::min(*figure, *clause.clip) : *figure;
  if (!limit.weighted) return AnswerFigure{value, capped, 1};
  // With m of at most L tokens, (x·m + limit·(L − m))/L has a mean above the limit if and only if the mean of
  // x over tokens has.
  const double most = max_tokens;
  const double tokens = std::min(static_cast<double>(row.target.n), most);
  return AnswerFigure{(value * tokens + limit.limit * (most - tokens)) / most, capped, tokens};
}

}  // namespace driftgate::stages
