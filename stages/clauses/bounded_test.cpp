#include "stages/clauses/bounded_test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "schema/contract/contract_means.hpp"
#include "schema/contract/least_n.hpp"
#include "stages/clauses/clause_rules.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::Aggregate;
using schema::ClauseVerdict;
using schema::Verdict;
using schema::VerdictRule;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum class Side { lower, upper };

/// Harm is shown by the bound that is better for the clause, proof by the worse one.
Side harm_side(const MetricLimit& limit) {
  return limit.is_max ? Side::lower : Side::upper;
}
Side proof_side(const MetricLimit& limit) {
  return limit.is_max ? Side::upper : Side::lower;
}

bool is_quantile(const schema::MetricSubject& subject) {
  return subject.aggregate && schema::quantile_of(*subject.aggregate);
}

const gpu::Moments& moments_of(const gpu::SequenceRow& row, std::size_t index, Side side) {
  const gpu::BoundMoments& bounds = row.bounds->metrics[index];
  return side == Side::lower ? bounds.lower : bounds.upper;
}

/// A sequence's part of the mean by that side's bounds: its units, or its own mean, capped, once. An infinite
/// bound that is capped is the cap.
ClusterSum mean_part(const gpu::SequenceRow& row, std::size_t index, Side side,
                     const schema::MetricSubject& subject, const MeanRules& rules) {
  const gpu::Moments& moments = moments_of(row, index, side);
  if (moments.n == 0) return {};
  const auto n = static_cast<double>(moments.n);
  if (schema::weighs_tokens(subject)) return {n, moments.sum};
  const double mean = moments.sum / n;
  return {1, rules.clip ? std::min(mean, *rules.clip) : mean};
}

/// Rows beyond the limit by the bound of that side: certainly, where it is the one that shows harm. Without a
/// column the sequence is counted, by the mean of its bounds.
ClusterSum count_part(const gpu::SequenceRow& row, std::size_t index, std::optional<std::size_t> column,
                      const MetricLimit& limit, bool certainly) {
  if (!column) {
    const Side side = certainly ? harm_side(limit) : proof_side(limit);
    const gpu::Moments& moments = moments_of(row, index, side);
    if (moments.n == 0) return {};
    return {1, mean_beyond(moments.sum, static_cast<double>(moments.n), limit) ? 1.0 : 0.0};
  }
  const double count = certainly ? row.beyond[*column] : row.bounds->maybe_beyond[*column];
  return {static_cast<double>(row.bounds->metrics[index].lower.n), count};
}

std::optional<std::pair<double, double>> range_of(const gpu::MeasurementTable& table,
                                                  const schema::MetricSubject& subject,
                                                  const MeanRules& rules) {
  return clipped_range(finite_range(table, subject.metric), schema::info(subject.metric).low, rules.clip);
}

/// The figure of one side and what the sample says of it.
MeanTest test_side(const ClauseData& data, const MetricQuestion& question, const Selection& selection,
                   Side side) {
  const schema::MetricSubject& subject = question.subject;
  const std::size_t index = *data.table->bounded(subject.metric);
  auto clusters = collect(*data.table, selection, [&](const gpu::SequenceRow& row) {
    return mean_part(row, index, side, subject, question.rules);
  });
  if (std::ranges::any_of(clusters, [](const ClusterSum& c) { return !std::isfinite(c.sum); })) {
    MeanTest none;  // an infinite bound shows nothing
    none.clusters = clusters.size();
    for (const ClusterSum& c : clusters) none.n += static_cast<std::uint64_t>(c.n);
    none.estimate = kInfinity;
    none.method = "no bound";
    return none;
  }
  const MeanQuestion asked{question.limit.value, range_of(*data.table, subject, question.rules),
                           !schema::weighs_tokens(subject), schema::counts_events(subject.metric)};
  return test_mean(std::move(clusters), asked, question.rules, data.alpha, data.seed);
}

/// "with k = 20 and 3% tail mass tv is known only to 0.03".
std::string knowledge(const ClauseData& data, const Selection& selection,
                      const schema::MetricSubject& subject, double width, ClauseVerdict& verdict) {
  gpu::Moments train, inf;
  for (const std::size_t i : selection) {
    const gpu::SequenceBounds& bounds = *data.table->sequences[i].bounds;
    if (bounds.tail_train.n > 0) train.merge(bounds.tail_train);
    if (bounds.tail_inf.n > 0) inf.merge(bounds.tail_inf);
  }
  const double tail = train.n == 0 ? 1 : std::max(train.mean(), inf.mean());
  verdict.details["tail_mass"] = tail;
  verdict.details["listed"] = data.table->partial.listed;
  const std::string mode = data.table->partial.mode;
  const std::string means = mode == "realised"
                                ? std::string("from the target tokens alone")
                                : fmt::format("with k = {} and {:.{}g}% tail mass",
                                              data.table->partial.listed, 100 * tail, tail < 0.1 ? 2 : 3);
  const std::string_view name = schema::to_string(subject.metric);
  if (std::isinf(width)) return fmt::format("{} {} has no upper bound", means, name);
  return fmt::format("{} {} is known only to {:.2g}", means, name, width);
}

void record(const char* name, double value, ClauseVerdict& verdict) {
  if (std::isfinite(value)) verdict.details[name] = value;
}

std::string advice(const MetricQuestion& question, double high) {
  if (!std::isinf(high)) return " A longer list narrows it, full logits decide it.";
  const bool sampled = question.subject.metric == schema::Metric::kl_inf_train;
  return sampled ? " Capture full logits, or put the clause on kl_inf_train_sampled."
                 : " Full logits decide it.";
}

/// A clause whose figures are known: the words for what became of it.
void explain(const MetricQuestion& question, const std::string& what, double tau, double low, double high,
             const std::string& known, ClauseVerdict& verdict) {
  const bool quantile = is_quantile(question.subject);
  const bool at_most = question.limit.is_max || quantile;
  const std::string limit = fmt::format("the {} of {}", at_most ? "max" : "min", figure(tau));
  const std::string rows =
      fmt::format("{} rows, {} independent sequences", count_text(verdict.n), count_text(verdict.clusters));
  const std::string start =
      std::isinf(high)
          ? fmt::format("{}{} is at least {} ({})", what, on_slice(verdict.where), figure(low), rows)
          : fmt::format("{}{} lies between {} and {} ({})", what, on_slice(verdict.where), figure(low),
                        figure(high), rows);
  if (verdict.verdict == Verdict::pass) {
    verdict.message = fmt::format("{}; by its {} bound and with {} confidence it is within {}.", start,
                                  at_most ? "upper" : "lower", percent(1 - verdict.alpha), limit);
  } else if (verdict.verdict == Verdict::violated) {
    verdict.message = fmt::format("{}; by its {} bound and with {} confidence it is beyond {}.", start,
                                  at_most ? "lower" : "upper", percent(1 - verdict.alpha), limit);
  } else if (low <= tau && tau <= high) {
    verdict.message = fmt::format("{}: {}, and {} lies between, so this is inconclusive.{}", start, known,
                                  limit, advice(question, high));
  } else {
    verdict.message = fmt::format("{}: {}, and these data cannot decide about {}. More sequences are needed.",
                                  start, known, limit);
  }
}

ClauseVerdict apply_tests(const ClauseData& data, const MetricQuestion& question, const Selection& selection,
                          const MeanTest& harm, const MeanTest& proof, ClauseVerdict verdict) {
  const auto& [clause, subject, limit, rules] = question;
  const bool quantile = is_quantile(subject);
  const bool at_most = limit.is_max || quantile;
  verdict.n = harm.n;
  verdict.clusters = harm.clusters;
  verdict.method =
      fmt::format("harm by the {} bound: {}; proof by the {} bound: {}", at_most ? "lower" : "upper",
                  harm.method, at_most ? "upper" : "lower", proof.method);
  verdict.approximate = harm.approximate || proof.approximate;
  if (harm.n == 0) {
    return error_verdict(
        verdict, fmt::format("{}{} cannot be decided: the captures hold no values of it for these sequences.",
                             subject_text(clause), on_slice(verdict.where)));
  }
  verdict.estimate = std::isfinite(harm.estimate) ? std::optional(harm.estimate) : std::nullopt;
  const double low = at_most ? harm.estimate : proof.estimate;
  const double high = at_most ? proof.estimate : harm.estimate;
  record("estimate_lower", low, verdict);
  record("estimate_upper", high, verdict);
  verdict.lower = at_most ? harm.lower : proof.lower;
  verdict.upper = at_most ? proof.upper : harm.upper;
  const std::string known = knowledge(data, selection, subject, high - low, verdict);
  verdict.rule = VerdictRule::bounded_test;
  verdict.p_value = at_most ? harm.p_high : harm.p_low;
  const double tau = quantile ? tolerated_fraction(*subject.aggregate, limit.is_max) : limit.value;
  const double p_proof = at_most ? proof.p_low : proof.p_high;
  verdict.details["p_proof"] = p_proof;
  if (const auto found = harm.details.find("replicates"); found != harm.details.end()) {
    verdict.details["replicates"] = found->second;
  }
  if (const auto found = proof.details.find("share_of_rows"); found != proof.details.end())
    verdict.details["share_of_rows"] = found->second;
  if (p_proof <= verdict.alpha && share_of_rows_within(tau, verdict)) {
    verdict.verdict = Verdict::pass;
  } else if (*verdict.p_value <= verdict.alpha) {
    verdict.verdict = Verdict::violated;
  }
  std::string what = subject_text(clause);
  if (quantile) {
    verdict.details["tolerated_fraction"] = tau;
    what = fmt::format("the share of {} {} {} {} (clause: {})", share_of(rules.over),
                       schema::to_string(subject.metric), limit.is_max ? "over" : "under",
                       figure(limit.value), what);
  }
  explain(question, what, tau, low, high, known, verdict);
  if (p_proof <= verdict.alpha && verdict.verdict == Verdict::inconclusive)
    verdict.message = long_sequences_text(what, tau, verdict);
  if (verdict.verdict == Verdict::inconclusive && !harm.undecidable.empty()) {
    verdict.message += fmt::format(" ({}.)", harm.undecidable);
  }
  allow_no_harm(clause, verdict);
  return verdict;
}

struct Extremes {
  double low = 0, high = 0;  ///< the aggregate by the lower and by the upper bounds
};

Extremes census_of(const ClauseData& data, const MetricQuestion& question, const Selection& selection,
                   ClauseVerdict& verdict) {
  const std::size_t index = *data.table->bounded(question.subject.metric);
  gpu::BoundMoments all;
  const std::vector<std::size_t> numbers = cluster_numbers(*data.table, selection);
  std::unordered_set<std::size_t> seen;
  for (std::size_t i = 0; i < selection.size(); ++i) {
    const gpu::BoundMoments& part = data.table->sequences[selection[i]].bounds->metrics[index];
    if (part.lower.n == 0) continue;
    all.lower.merge(part.lower);
    all.upper.merge(part.upper);
    seen.insert(numbers[i]);
  }
  verdict.n = all.lower.n;
  verdict.clusters = seen.size();
  const auto aggregate = question.subject.aggregate.value_or(Aggregate::sum);
  if (aggregate == Aggregate::max) return {all.lower.max, all.upper.max};
  if (aggregate == Aggregate::min) return {all.lower.min, all.upper.min};
  return {all.lower.sum, all.upper.sum};
}

ClauseVerdict decide_census(const ClauseData& data, const MetricQuestion& question,
                            const Selection& selection, ClauseVerdict verdict) {
  const auto& [clause, subject, limit, rules] = question;
  const Extremes values = census_of(data, question, selection, verdict);
  verdict.method = "census of bounds";
  const std::string what = subject_text(clause);
  if (verdict.n == 0) {
    return error_verdict(std::move(verdict), what + " cannot be decided: the captures hold no values of it.");
  }
  const std::uint64_t least =
      clause.limits.min_count.value_or(schema::min_sequences_of(clause, *data.contract));
  verdict.rule = VerdictRule::bounded_census;
  verdict.details["least_units"] = static_cast<double>(least);
  const double harm = limit.is_max ? values.low : values.high;
  const double proof = limit.is_max ? values.high : values.low;
  record("harm_estimate", harm, verdict);
  record("proof_estimate", proof, verdict);
  if (std::isfinite(harm)) verdict.estimate = harm;
  const auto within = [&](double value) {
    return limit.is_max ? value <= limit.value : value >= limit.value;
  };
  verdict.p_value = within(harm) ? 1 : 0;
  const std::string known = knowledge(data, selection, subject, values.high - values.low, verdict);
  if (!within(harm)) {
    verdict.verdict = Verdict::violated;
  } else if (within(proof) && verdict.clusters >= least) {
    verdict.verdict = Verdict::pass;
  }
  explain(question, what, limit.value, values.low, values.high, known, verdict);
  if (verdict.verdict == Verdict::inconclusive && within(proof)) {
    verdict.details["missing_sequences"] = static_cast<double>(least - verdict.clusters);
    verdict.message = fmt::format(
        "{}{} is within the limit by both bounds, but only {} independent sequences were looked at and {} "
        "are "
        "asked for: {} are missing.",
        what, on_slice(verdict.where), count_text(verdict.clusters), count_text(least),
        count_text(least - verdict.clusters));
  }
  return verdict;
}

bool is_census(const schema::MetricSubject& subject) {
  return subject.aggregate == Aggregate::sum || subject.aggregate == Aggregate::min ||
         subject.aggregate == Aggregate::max;
}

}  // namespace

ClauseVerdict decide_bounded(const ClauseData& data, const MetricQuestion& question,
                             const Selection& selection, ClauseVerdict verdict) {
  const auto& [clause, subject, limit, rules] = question;
  if (is_census(subject)) return decide_census(data, question, selection, std::move(verdict));
  if (!is_quantile(subject)) {
    return apply_tests(data, question, selection, test_side(data, question, selection, harm_side(limit)),
                       test_side(data, question, selection, proof_side(limit)), std::move(verdict));
  }
  std::optional<std::size_t> column;
  if (rules.over != schema::QuantileOver::sequences) {
    const auto found = threshold_column(*data.table, subject, limit);
    if (!found) return error_verdict(std::move(verdict), "Not decided: " + found.error().message + ".");
    column = *found;
  }
  const std::size_t index = *data.table->bounded(subject.metric);
  const double tolerated = tolerated_fraction(*subject.aggregate, limit.is_max);
  const auto count = [&](bool certainly) {
    const auto clusters = collect(*data.table, selection, [&](const gpu::SequenceRow& row) {
      return count_part(row, index, column, limit, certainly);
    });
    return test_share(clusters, tolerated, rules, data.alpha, data.seed);
  };
  return apply_tests(data, question, selection, count(true), count(false), std::move(verdict));
}

schema::Result<BoundedFigures> harm_figures(const gpu::MeasurementTable& table,
                                            const schema::MetricSubject& subject, const MetricLimit& limit,
                                            const MeanRules& rules) {
  BoundedFigures out;
  out.harm_only = true;
  const std::size_t index = *table.bounded(subject.metric);
  if (is_quantile(subject)) {
    std::optional<std::size_t> column;
    if (rules.over != schema::QuantileOver::sequences) {
      const auto found = TRY(threshold_column(table, subject, limit));
      column = found;
    }
    for (const gpu::SequenceRow& row : table.sequences) {
      out.parts.push_back(count_part(row, index, column, limit, true));
    }
    out.tau = tolerated_fraction(*subject.aggregate, limit.is_max);
    TRY(weigh_share(rules, out));
    return out;
  }
  const auto range = range_of(table, subject, rules);
  out.once = !schema::weighs_tokens(subject);
  if (!range || (!out.once && rules.max_tokens == 0)) {
    return schema::fail(schema::ErrorCode::unsupported, std::string(schema::to_string(subject.metric)) +
                                                            " has no range that is known beforehand");
  }
  out.most = out.once ? 1 : rules.max_tokens;
  for (const gpu::SequenceRow& row : table.sequences) {
    out.parts.push_back(mean_part(row, index, harm_side(limit), subject, rules));
  }
  out.low = range->first;
  out.high = range->second;
  out.tau = limit.value;
  out.harm_above = limit.is_max;
  return out;
}

std::string deciding_finding(const gpu::MeasurementTable& table) {
  const auto found = std::ranges::find_if(table.partial.findings, &gpu::CaptureFinding::decides);
  return found == table.partial.findings.end() ? std::string() : found->name + ": " + found->text;
}

}  // namespace driftgate::stages
