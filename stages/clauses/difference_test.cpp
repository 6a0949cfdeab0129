#include "stages/clauses/difference_test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "schema/contract/contract_means.hpp"
#include "stages/clauses/clause_rules.hpp"
#include "stages/clauses/mean_rules.hpp"
#include "stages/report/wording.hpp"
#include "stages/statistics/calibration.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Metric;
using schema::Verdict;

/// The test of a difference against one limit.
using TestAt = std::function<MeanTest(double tau)>;

std::vector<ClusterSum> paired_differences(const ClauseData& data, const Selection& selection, Metric inf,
                                           Metric train, bool by_sequence) {
  return collect(*data.table, selection, [=](const gpu::SequenceRow& row) {
    const gpu::Moments& q = row.metrics[static_cast<std::size_t>(inf)];
    const gpu::Moments& p = row.metrics[static_cast<std::size_t>(train)];
    if (q.n == 0 || q.n != p.n) return ClusterSum{};
    const auto n = static_cast<double>(q.n);
    return by_sequence ? ClusterSum{1, (q.sum - p.sum) / n} : ClusterSum{n, q.sum - p.sum};
  });
}

std::vector<CalibrationOutcome> calibration_outcomes(const ClauseData& data, const Selection& selection) {
  std::vector<CalibrationOutcome> outcomes;
  const std::vector<std::size_t> numbers = cluster_numbers(*data.table, selection);
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < selection.size() && selection[i] < data.table->infos.size(); ++i) {
    const gpu::SequenceInfo& info = data.table->infos[selection[i]];
    const gpu::SequenceRow& row = data.table->sequences[selection[i]];
    if (!info.correct_train || !info.correct_inf) continue;
    // Both from the corpus, or both from the captures: the two kernels are to be asked alike.
    const bool stated = info.confidence_train && info.confidence_inf;
    const auto& train = stated ? info.confidence_train : row.top_train;
    const auto& inf = stated ? info.confidence_inf : row.top_inf;
    if (!train || !inf) continue;
    outcomes.push_back({*train, *inf, *info.correct_train, *info.correct_inf, numbers[i]});
    used.push_back(numbers[i]);
  }
  // Clusters without any outcome leave no gap in the numbers.
  std::ranges::sort(used);
  used.erase(std::ranges::unique(used).begin(), used.end());
  for (CalibrationOutcome& one : outcomes) {
    one.cluster = static_cast<std::size_t>(std::ranges::lower_bound(used, one.cluster) - used.begin());
  }
  return outcomes;
}

void copy_figures(const MeanTest& test, ClauseVerdict& verdict) {
  verdict.n = test.n;
  verdict.clusters = test.clusters;
  verdict.estimate = test.estimate;
  verdict.method = test.method;
  verdict.approximate = test.approximate;
  for (const auto& [name, value] : test.details) verdict.details[name] = value;
  verdict.details.erase("least_clusters");  // of one side; the two sides differ
}

std::string units(const ClauseVerdict& verdict, bool outcomes) {
  return fmt::format("{} {}, {} independent sequences", count_text(verdict.n), outcomes ? "outcomes" : "rows",
                     count_text(verdict.clusters));
}

/// Both sides of −delta ≤ difference ≤ delta.
void apply_both_sides(const TestAt& test_at, double delta, const std::string& what, bool outcomes,
                      ClauseVerdict& verdict) {
  const MeanTest high = test_at(delta);
  copy_figures(high, verdict);
  if (!high.undecidable.empty()) {
    verdict.message = fmt::format("{}{} is {}, but {}: inconclusive.", what, on_slice(verdict.where),
                                  figure(high.estimate), high.undecidable);
    return;
  }
  const MeanTest low = test_at(-delta);
  verdict.upper = high.upper;
  verdict.lower = low.lower;
  verdict.rule = schema::VerdictRule::test;
  const double proof = std::max(high.p_low, low.p_high);
  verdict.p_value = std::min(1.0, 2 * std::min(high.p_high, low.p_low));
  verdict.details["p_proof"] = proof;
  // Two sides share the level, so that the finest p-value of a resampling is twice that of one side.
  if (const auto found = verdict.details.find("replicates"); found != verdict.details.end()) {
    found->second = (found->second + 1) / 2 - 1;
  }
  const std::string start = fmt::format("{}{} is {} ({}), between {} and {} with {} confidence each way",
                                        what, on_slice(verdict.where), figure(high.estimate),
                                        units(verdict, outcomes), figure(verdict.lower.value_or(-HUGE_VAL)),
                                        figure(verdict.upper.value_or(HUGE_VAL)), percent(1 - verdict.alpha));
  if (proof <= verdict.alpha) {
    verdict.verdict = Verdict::pass;
    verdict.message = fmt::format("{}: within the max_delta of {}.", start, figure(delta));
  } else if (*verdict.p_value <= verdict.alpha) {
    verdict.verdict = Verdict::violated;
    verdict.message = fmt::format("{}: beyond the max_delta of {}.", start, figure(delta));
  } else {
    verdict.message = fmt::format(
        "{}: these data cannot decide about the max_delta of {}. More sequences are "
        "needed.",
        start, figure(delta));
  }
}

void apply_one_side(const TestAt& test_at, double max, const std::string& what, ClauseVerdict& verdict) {
  const MeanTest test = test_at(max);
  copy_figures(test, verdict);
  if (!test.undecidable.empty()) {
    verdict.message = fmt::format("{}{} is {}, but {}: inconclusive.", what, on_slice(verdict.where),
                                  figure(test.estimate), test.undecidable);
    return;
  }
  verdict.lower = test.lower;
  verdict.upper = test.upper;
  verdict.rule = schema::VerdictRule::test;
  verdict.p_value = test.p_high;
  verdict.details["p_proof"] = test.p_low;
  const std::string start = fmt::format("{}{} is {} ({}), between {} and {} with {} confidence each way",
                                        what, on_slice(verdict.where), figure(test.estimate),
                                        units(verdict, true), figure(test.lower.value_or(-1)),
                                        figure(test.upper.value_or(1)), percent(1 - verdict.alpha));
  if (test.p_low <= verdict.alpha) {
    verdict.verdict = Verdict::pass;
    verdict.message = fmt::format("{}: within the max of {}.", start, figure(max));
  } else if (test.p_high <= verdict.alpha) {
    verdict.verdict = Verdict::violated;
    verdict.message = fmt::format("{}: over the max of {}.", start, figure(max));
  } else {
    verdict.message = fmt::format(
        "{}: these data cannot decide about the max of {}. More outcomes are needed.", start, figure(max));
  }
}

ClauseVerdict decide_calibration(const ClauseData& data, const schema::Clause& clause,
                                 const Selection& selection, ClauseVerdict verdict) {
  const std::vector<CalibrationOutcome> outcomes = calibration_outcomes(data, selection);
  if (outcomes.empty()) {
    return error_verdict(
        verdict,
        fmt::format("No sequence{} has both outcomes and both confidences, without which there is no "
                    "calibration: the corpus needs \"correct\": {{\"train\": …, \"inf\": …}} and "
                    "\"confidence\": {{\"train\": …, \"inf\": …}}, the probability of each kernel's "
                    "greedy token at the outcome's position, unless full logits were captured there, as the "
                    "last position of the sequence.",
                    on_slice(verdict.where)));
  }
  const auto off = std::ranges::find_if(outcomes, [](const CalibrationOutcome& one) {
    return std::min(one.confidence_train, one.confidence_inf) < 0 ||
           std::max(one.confidence_train, one.confidence_inf) > 1;
  });
  if (off != outcomes.end()) {
    return error_verdict(
        std::move(verdict),
        fmt::format("The corpus has the confidences {} and {} for one outcome: a confidence is a "
                    "probability, between 0 and 1.",
                    figure(off->confidence_train), figure(off->confidence_inf)));
  }
  const TestAt test_at = [&](double tau) { return calibration_drift(outcomes, tau, data.alpha, data.seed); };
  const std::string what = "ece_drift, the calibration error of inf less that of train,";
  if (clause.limits.max_delta) {
    apply_both_sides(test_at, *clause.limits.max_delta, what, true, verdict);
  } else {
    apply_one_side(test_at, clause.limits.max.value_or(0), what, verdict);
  }
  return verdict;
}

ClauseVerdict decide_means(const ClauseData& data, const schema::Clause& clause,
                           const schema::MetricSubject& subject, const Selection& selection,
                           ClauseVerdict verdict) {
  const bool entropy = subject.metric == Metric::entropy_inf;
  if (!entropy && subject.metric != Metric::logprob_inf) {
    return error_verdict(std::move(verdict),
                         subject_text(clause) +
                             " is no figure that each kernel has of its own, so it has no "
                             "max_delta: state it on entropy_inf or logprob_inf.");
  }
  const Metric train = entropy ? Metric::entropy_train : Metric::logprob_train;
  const bool once = !schema::weighs_tokens(subject);
  const std::vector<ClusterSum> clusters =
      paired_differences(data, selection, subject.metric, train, once);
  if (clusters.empty()) {
    return error_verdict(verdict, fmt::format("{}{} cannot be decided: the captures hold no values of it{}.",
                                              subject_text(clause), on_slice(verdict.where),
                                              entropy ? "" : " without target tokens (tensor token_ids)"));
  }
  const double range = std::log(std::max(2.0, static_cast<double>(data.table->vocabulary)));
  const auto ends = entropy ? std::optional(std::pair(-range, range)) : std::nullopt;
  const MeanRules rules = mean_rules(*data.contract, clause);
  const TestAt test_at = [&](double tau) {
    return test_mean(clusters, {tau, ends, once}, rules, data.alpha, data.seed);
  };
  const std::string what = fmt::format("{} less that of {}", subject_text(clause), schema::to_string(train));
  apply_both_sides(test_at, *clause.limits.max_delta, what, false, verdict);
  if (verdict.rule == schema::VerdictRule::test && verdict.verdict == Verdict::inconclusive &&
      rules.means == schema::Means::exact) {
    verdict.message += fmt::format(
        " The exact method takes any value within ±{} for possible; the contract may ask for confidence.means: "
        "approximate.",
        figure(range));
  }
  return verdict;
}

}  // namespace

bool is_difference(const schema::Clause& clause) {
  const auto* metric = std::get_if<schema::MetricSubject>(&clause.subject);
  return metric != nullptr && (clause.limits.max_delta || metric->metric == Metric::ece_drift);
}

ClauseVerdict decide_difference(const ClauseData& data, const schema::Clause& clause,
                                const Selection& selection, ClauseVerdict verdict) {
  const auto& subject = std::get<schema::MetricSubject>(clause.subject);
  verdict.limit_kind = clause.limits.max_delta ? "max_delta" : "max";
  verdict.threshold = clause.limits.max_delta ? clause.limits.max_delta : clause.limits.max;
  verdict = subject.metric == Metric::ece_drift
                ? decide_calibration(data, clause, selection, std::move(verdict))
                : decide_means(data, clause, subject, selection, std::move(verdict));
  allow_no_harm(clause, verdict);
  return verdict;
}

}  // namespace driftgate::stages
