#include "stages/metric_test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "schema/least_n.hpp"
#include "stages/wording.hpp"

namespace driftgate::stages {
namespace {

using gpu::RealisedSums;
using gpu::SequenceRow;
using schema::Aggregate;
using schema::Metric;

std::size_t index_of(Metric metric) {
  return static_cast<std::size_t>(metric);
}
bool is_row_metric(Metric metric) {
  return index_of(metric) < schema::kRowMetricCount;
}

bool is_derived(Metric metric) {
  return metric == Metric::ess_fraction || metric == Metric::prob_pearson;
}

/// A per-sequence figure of the realised tokens: one unit, the sequence.
double sequence_figure(Metric metric, const RealisedSums& r) {
  const auto n = static_cast<double>(r.n);
  if (metric == Metric::chi2_sequence) {
    const double excess = std::expm1(r.log_w);
    return excess * excess;
  }
  return metric == Metric::log_ppl_diff ? (r.log_q - r.log_p) / n : r.log_w;
}

bool per_sequence(Metric metric) {
  return metric == Metric::chi2_sequence || metric == Metric::log_ppl_diff ||
         metric == Metric::sequence_log_ratio;
}

/// A sum over realised tokens whose mean is the metric.
double token_sum(Metric metric, const RealisedSums& r) {
  switch (metric) {
    case Metric::ratio_mean:
      return r.w;
    case Metric::tv_sampled:
      return r.abs_w_minus_1 / 2;
    case Metric::kl_inf_train_sampled:
      return r.k3;
    case Metric::abs_log_ratio:
      return r.abs_log_w;
    case Metric::mult_prob_error:
      return r.exp_abs_log_w;
    case Metric::clip_budget_used:
      return static_cast<double>(r.outside_clip);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

std::vector<ClusterSum> collect_metric(const gpu::MeasurementTable& table, const Selection& selection,
                                       const schema::MetricSubject& subject) {
  const Metric metric = subject.metric;
  if (!is_row_metric(metric)) {
    return collect(table, selection, [metric](const SequenceRow& row) {
      if (row.realised.n == 0) return ClusterSum{};
      if (per_sequence(metric)) return ClusterSum{1, sequence_figure(metric, row.realised)};
      return ClusterSum{static_cast<double>(row.realised.n), token_sum(metric, row.realised)};
    });
  }
  const bool by_sequence = subject.aggregate == Aggregate::sequence_mean;
  return collect(table, selection, [=](const SequenceRow& row) {
    const gpu::Moments& moments = row.metrics[index_of(metric)];
    if (moments.n == 0) return ClusterSum{};
    if (by_sequence) return ClusterSum{1, moments.sum / static_cast<double>(moments.n)};
    return ClusterSum{static_cast<double>(moments.n), moments.sum};
  });
}

schema::Result<MeanTest> test_quantile(const gpu::MeasurementTable& table, const Selection& selection,
                                       const schema::MetricSubject& subject, const MetricLimit& limit,
                                       double alpha, std::uint64_t seed) {
  const gpu::Threshold wanted{subject.metric, limit.value, limit.is_max};
  const auto found = std::ranges::find(table.thresholds, wanted);
  if (found == table.thresholds.end()) {
    return schema::fail(
        schema::ErrorCode::invalid_argument,
        fmt::format("the measurement table has no count of rows with {} {} {}: measure again with "
                    "this contract's thresholds",
                    schema::to_string(subject.metric), limit.is_max ? "over" : "under", figure(limit.value)));
  }
  const auto column = static_cast<std::size_t>(found - table.thresholds.begin());
  const auto clusters = collect(table, selection, [&](const SequenceRow& row) {
    const double beyond = column < row.beyond.size() ? row.beyond[column] : 0;
    return ClusterSum{static_cast<double>(row.metrics[index_of(subject.metric)].n), beyond};
  });
  return exceedance(clusters, tolerated_fraction(*subject.aggregate, limit.is_max), alpha, seed);
}

schema::Result<void> check_supply(const gpu::MeasurementTable& table, Metric metric) {
  const schema::MetricInfo& entry = schema::info(metric);
  const std::string name(entry.name);
  if (metric == Metric::band_retention) {
    return schema::fail(schema::ErrorCode::unsupported,
                        "band_retention is several figures: a clause cannot limit it; use clip_budget_used");
  }
  if (!is_row_metric(metric) && entry.group != schema::MetricGroup::realised) {
    return schema::fail(schema::ErrorCode::unsupported, name + " cannot be had from captures");
  }
  const bool tokens = entry.group == schema::MetricGroup::realised || metric == Metric::log_ratio ||
                      metric == Metric::logprob_train || metric == Metric::logprob_inf;
  if (tokens && !table.has_tokens) {
    return schema::fail(
        schema::ErrorCode::unsupported,
        name + " needs the realised tokens, which these captures do not hold (tensor token_ids)");
  }
  if (entry.needs_sampled_tokens && !table.sampled_by_inf()) {
    return schema::fail(
        schema::ErrorCode::unsupported,
        fmt::format(
            "{} estimates what it says only when the tokens were sampled by K_inf without filters; these "
            "come "
            "from '{}' with filter '{}', so it is descriptive and cannot be a clause: capture rollouts of "
            "the inference kernel (token_source)",
            name, table.inf.token_source.empty() ? "corpus" : table.inf.token_source,
            table.inf.sampling_filter.empty() ? "none" : table.inf.sampling_filter));
  }
  return {};
}

}  // namespace

double tolerated_fraction(Aggregate quantile, bool is_max) {
  const double q = schema::quantile_of(quantile).value_or(0.5);
  return is_max ? 1 - q : q;
}

schema::Result<MeanTest> test_metric(const gpu::MeasurementTable& table, const Selection& selection,
                                     const schema::MetricSubject& subject, const MetricLimit& limit,
                                     double alpha, std::uint64_t seed) {
  if (auto supplied = check_supply(table, subject.metric); !supplied)
    return std::unexpected(supplied.error());
  if (subject.aggregate && schema::quantile_of(*subject.aggregate)) {
    if (!is_row_metric(subject.metric)) {
      return schema::fail(schema::ErrorCode::unsupported, std::string(schema::to_string(subject.metric)) +
                                                              " is one figure and has no quantiles");
    }
    return test_quantile(table, selection, subject, limit, alpha, seed);
  }
  if (is_derived(subject.metric))
    return test_derived(table, selection, subject.metric, limit.value, alpha, seed);
  const std::vector<ClusterSum> clusters = collect_metric(table, selection, subject);
  const schema::MetricInfo& entry = schema::info(subject.metric);
  double high = entry.high;
  const bool entropy = subject.metric == Metric::entropy_train || subject.metric == Metric::entropy_inf;
  if (entropy) high = std::log(std::max(2.0, static_cast<double>(table.vocabulary)));
  if ((entry.bounded || entropy) && std::isfinite(entry.low) && std::isfinite(high)) {
    return bounded_mean(clusters, limit.value, entry.low, high, alpha, seed,
                        schema::counts_events(subject.metric));
  }
  return bootstrap_t(clusters, limit.value, alpha, seed);
}

}  // namespace driftgate::stages
