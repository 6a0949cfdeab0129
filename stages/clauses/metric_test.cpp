#include "stages/clauses/metric_test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "schema/contract/contract_means.hpp"
#include "schema/contract/least_n.hpp"
#include "stages/clauses/bounded_test.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

using gpu::SequenceRow;
using gpu::TargetTokenSums;
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

/// A per-sequence figure of the target tokens: one unit, the sequence.
double sequence_figure(Metric metric, const TargetTokenSums& r) {
  const auto n = static_cast<double>(r.n);
  if (metric == Metric::chi2_sequence) {
    const double excess = std::expm1(r.log_w);
    return excess * excess;
  }
  if (metric == Metric::tv_sequence) return std::max(0.0, -std::expm1(r.log_w));
  return metric == Metric::log_ppl_diff ? (r.log_q - r.log_p) / n : r.log_w;
}

/// |w − 1| of the three bands of band_retention (docs/design/measurement.md, "Figures of target tokens").
constexpr std::array<double, 3> kBandWidths{0.001, 0.01, 0.05};

constexpr const char* kNoLengthOfRows =
    "the share of all rows is decided exactly only where the contract states assumptions.max_tokens, the "
    "most tokens that a sequence can have";

/// What one sequence adds to the retention of `band`: its tokens within it, or itself.
ClusterSum band_part(schema::Band band, const TargetTokenSums& r) {
  const auto index = static_cast<std::size_t>(band) % kBandWidths.size();
  if (band < schema::Band::sequences_0_1pct) {
    return {static_cast<double>(r.n), static_cast<double>(r.in_band[index])};
  }
  return {1, std::abs(std::expm1(r.log_w)) <= kBandWidths[index] ? 1.0 : 0.0};
}

bool per_sequence(Metric metric) {
  return metric == Metric::chi2_sequence || metric == Metric::tv_sequence || metric == Metric::log_ppl_diff ||
         metric == Metric::sequence_log_ratio;
}

/// A sum over target tokens whose mean is the metric.
double token_sum(Metric metric, const TargetTokenSums& r) {
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

/// The units of a sequence and their sum, tokens or the sequence itself.
ClusterSum whole_part(const schema::MetricSubject& subject, const SequenceRow& row) {
  const Metric metric = subject.metric;
  if (is_row_metric(metric)) {
    const gpu::Moments& moments = row.metrics[index_of(metric)];
    return {static_cast<double>(moments.n), moments.n == 0 ? 0 : moments.sum};
  }
  if (row.target.n == 0) return {};
  if (subject.band) return band_part(*subject.band, row.target);
  if (per_sequence(metric)) return {1, sequence_figure(metric, row.target)};
  return {static_cast<double>(row.target.n), token_sum(metric, row.target)};
}

/// What one sequence adds to the mean of a metric: its units, or its own mean, capped, once.
ClusterSum metric_part(const schema::MetricSubject& subject, const MeanRules& rules, const SequenceRow& row) {
  ClusterSum part = whole_part(subject, row);
  if (part.n <= 0 || schema::weighs_tokens(subject)) return part;
  const double mean = part.sum / part.n;
  return {1, rules.clip ? std::min(mean, *rules.clip) : mean};
}

/// What one sequence adds to the share beyond a quantile's limit: `column` counts its rows there, and without
/// one its mean is looked at.
ClusterSum quantile_part(Metric metric, std::optional<std::size_t> column, const MetricLimit& limit,
                         const SequenceRow& row) {
  if (!column) {
    const ClusterSum whole = whole_part({metric, Aggregate::sequence_mean}, row);
    return whole.n > 0 ? ClusterSum{1, mean_beyond(whole.sum, whole.n, limit) ? 1.0 : 0.0} : ClusterSum{};
  }
  const double count = *column < row.beyond.size() ? row.beyond[*column] : 0;
  return {static_cast<double>(row.metrics[index_of(metric)].n), count};
}

bool is_quantile(const schema::MetricSubject& subject) {
  return subject.aggregate && schema::quantile_of(*subject.aggregate);
}

/// The table's column that counts rows beyond the limit; none where sequences are counted.
schema::Result<std::optional<std::size_t>> quantile_column(const gpu::MeasurementTable& table,
                                                           const schema::MetricSubject& subject,
                                                           const MetricLimit& limit, const MeanRules& rules) {
  if (rules.over == schema::QuantileOver::sequences) return std::nullopt;
  if (!is_row_metric(subject.metric)) {
    return schema::fail(schema::ErrorCode::unsupported,
                        std::string(schema::to_string(subject.metric)) +
                            " is known once for each sequence and has no quantiles over rows: write over: "
                            "sequences");
  }
  const auto column = TRY(threshold_column(table, subject, limit));
  return std::optional(column);
}

MeanQuestion question_of(const gpu::MeasurementTable& table, const schema::MetricSubject& subject,
                         const MetricLimit& limit, const MeanRules& rules) {
  return {limit.value,
          clipped_range(finite_range(table, subject.metric), schema::info(subject.metric).low, rules.clip),
          !schema::weighs_tokens(subject), schema::counts_events(subject.metric)};
}

/// A mean ratio says something only while the ratios' weight does not lie on a few of them.
void judge_ratio(const gpu::MeasurementTable& table, const Selection& selection, MeanTest& test) {
  double n = 0, w = 0, squares = 0;
  for (const std::size_t i : selection) {
    const TargetTokenSums& r = table.sequences[i].target;
    n += static_cast<double>(r.n);
    w += r.w;
    squares += r.w_squares;
  }
  if (n <= 0) return;
  const double ess = squares > 0 ? w * w / (n * squares) : 0;
  test.details["ess_fraction"] = ess;
  if (ess > kLeastEssFraction || !test.undecidable.empty()) return;
  test.undecidable = fmt::format("ess_fraction is {}, and a mean ratio is judged only above {}", figure(ess),
                                 figure(kLeastEssFraction));
  test.lower.reset();
  test.upper.reset();
  test.p_low = test.p_high = 1;
}

schema::Result<void> check_supply(const gpu::MeasurementTable& table, Metric metric) {
  const schema::MetricInfo& entry = schema::info(metric);
  const std::string name(entry.name);
  if (table.bounded(metric)) {
    return schema::fail(schema::ErrorCode::unsupported, name +
                                                            " is known only by bounds in captures of mode " +
                                                            table.partial.mode + "; capture full logits");
  }
  if (!is_row_metric(metric) && entry.group != schema::MetricGroup::realised) {
    return schema::fail(schema::ErrorCode::unsupported, name + " cannot be measured from captures");
  }
  const bool tokens = entry.group == schema::MetricGroup::realised || metric == Metric::log_ratio ||
                      metric == Metric::logprob_train || metric == Metric::logprob_inf;
  if (tokens && !table.has_tokens) {
    return schema::fail(schema::ErrorCode::unsupported,
                        name + " needs target tokens, which these captures do not hold (tensor token_ids)");
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

schema::Result<std::size_t> threshold_column(const gpu::MeasurementTable& table,
                                             const schema::MetricSubject& subject, const MetricLimit& limit) {
  const gpu::Threshold wanted{subject.metric, limit.value, limit.is_max};
  const auto found = std::ranges::find(table.thresholds, wanted);
  if (found == table.thresholds.end()) {
    return schema::fail(
        schema::ErrorCode::invalid_argument,
        fmt::format("the measurement table has no count of rows with {} {} {}: measure again with "
                    "this contract's thresholds",
                    schema::to_string(subject.metric), limit.is_max ? "over" : "under", figure(limit.value)));
  }
  return static_cast<std::size_t>(found - table.thresholds.begin());
}

std::optional<std::pair<double, double>> finite_range(const gpu::MeasurementTable& table, Metric metric) {
  const schema::MetricInfo& entry = schema::info(metric);
  const bool entropy = metric == Metric::entropy_train || metric == Metric::entropy_inf;
  if (entropy && table.vocabulary == 0) return std::nullopt;
  if (entropy) return std::pair(0.0, std::log(std::max(2.0, static_cast<double>(table.vocabulary))));
  if (!entry.bounded || !std::isfinite(entry.low) || !std::isfinite(entry.high)) return std::nullopt;
  return std::pair(entry.low, entry.high);
}

double tolerated_fraction(Aggregate quantile, bool is_max) {
  const double q = schema::quantile_of(quantile).value_or(0.5);
  return is_max ? 1 - q : q;
}

std::optional<double> sequence_value(Metric metric, const SequenceRow& row) {
  return sequence_value(schema::MetricSubject{metric, Aggregate::sequence_mean}, row);
}

std::optional<double> sequence_value(const schema::MetricSubject& subject, const SequenceRow& row) {
  const ClusterSum whole = whole_part(subject, row);
  if (whole.n <= 0) return std::nullopt;
  return whole.sum / whole.n;
}

schema::Result<MeanTest> test_metric(const gpu::MeasurementTable& table, const Selection& selection,
                                     const schema::MetricSubject& subject, const MetricLimit& limit,
                                     const MeanRules& rules, double alpha, std::uint64_t seed) {
  TRY(check_supply(table, subject.metric));
  if (is_quantile(subject)) {
    const auto column = TRY(quantile_column(table, subject, limit, rules));
    const auto clusters = collect(table, selection, [&](const SequenceRow& row) {
      return quantile_part(subject.metric, column, limit, row);
    });
    return test_share(clusters, tolerated_fraction(*subject.aggregate, limit.is_max), rules, alpha, seed);
  }
  if (is_derived(subject.metric))
    return test_derived(table, selection, subject.metric, limit.value, alpha, seed);
  auto clusters =
      collect(table, selection, [&](const SequenceRow& row) { return metric_part(subject, rules, row); });
  MeanTest test =
      test_mean(std::move(clusters), question_of(table, subject, limit, rules), rules, alpha, seed);
  if (subject.metric == Metric::ratio_mean) judge_ratio(table, selection, test);
  return test;
}

MeanTest test_share(std::span<const ClusterSum> clusters, double tolerated, const MeanRules& rules,
                    double alpha, std::uint64_t seed) {
  if (rules.over == schema::QuantileOver::rows) {
    // With max_tokens 0 every sequence is longer than the range allows, so that nothing is decided.
    MeanTest test =
        betting_mean(clusters, tolerated, {0, 1, static_cast<double>(rules.max_tokens)}, alpha, seed);
    if (rules.max_tokens == 0) test.undecidable = kNoLengthOfRows;
    return test;
  }
  MeanTest test = exceedance(clusters, tolerated, alpha, seed);
  if (rules.over == schema::QuantileOver::average_sequence)
    test.details["share_of_rows"] = ratio_mean(clusters);
  return test;
}

schema::Result<void> weigh_share(const MeanRules& rules, BoundedFigures& figures) {
  if (rules.over != schema::QuantileOver::rows) return {};
  if (rules.max_tokens == 0) return schema::fail(schema::ErrorCode::unsupported, kNoLengthOfRows);
  figures.once = false;
  figures.most = rules.max_tokens;
  return {};
}

std::optional<MeanAdvice> advise_metric(const gpu::MeasurementTable& table, const Selection& selection,
                                        const schema::MetricSubject& subject, const MetricLimit& limit,
                                        const MeanRules& rules, double alpha, std::uint64_t seed) {
  if (is_quantile(subject) || is_derived(subject.metric) || !check_supply(table, subject.metric))
    return std::nullopt;
  auto clusters =
      collect(table, selection, [&](const SequenceRow& row) { return metric_part(subject, rules, row); });
  return advise_mean(std::move(clusters), question_of(table, subject, limit, rules), rules, limit.is_max,
                     alpha, seed);
}

schema::Result<BoundedFigures> bounded_figures(const gpu::MeasurementTable& table,
                                               const schema::MetricSubject& subject, const MetricLimit& limit,
                                               const MeanRules& rules) {
  if (table.bounded(subject.metric)) return harm_figures(table, subject, limit, rules);
  TRY(check_supply(table, subject.metric));
  BoundedFigures out;
  out.parts.reserve(table.sequences.size());
  if (is_quantile(subject)) {
    const auto column = TRY(quantile_column(table, subject, limit, rules));
    for (const SequenceRow& row : table.sequences) {
      out.parts.push_back(quantile_part(subject.metric, column, limit, row));
    }
    out.tau = tolerated_fraction(*subject.aggregate, limit.is_max);
    TRY(weigh_share(rules, out));
    return out;
  }
  const MeanQuestion question = question_of(table, subject, limit, rules);
  if (!question.range || (!question.once && rules.max_tokens == 0)) {
    return schema::fail(schema::ErrorCode::unsupported, std::string(schema::to_string(subject.metric)) +
                                                            " has no range that is known beforehand");
  }
  for (const SequenceRow& row : table.sequences) out.parts.push_back(metric_part(subject, rules, row));
  out.low = question.range->first;
  out.high = question.range->second;
  out.once = question.once;
  out.most = question.once ? 1 : rules.max_tokens;
  out.tau = limit.value;
  out.harm_above = limit.is_max;
  return out;
}

}  // namespace driftgate::stages
