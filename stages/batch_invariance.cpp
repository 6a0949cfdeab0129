#include "stages/batch_invariance.hpp"

#include <fmt/format.h>

#include "stages/clauses/selection.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {

using schema::ClauseVerdict;
using schema::Verdict;

void apply_batch_variance(const MeanTest& test, std::uint64_t variant, std::string_view where_from,
                          const schema::Clause& clause, ClauseVerdict& verdict) {
  const double max = clause.limits.max.value_or(0);
  verdict.limit_kind = "max";
  verdict.threshold = max;
  verdict.method = test.method;
  verdict.n = test.n;
  verdict.clusters = test.clusters;
  verdict.estimate = test.estimate;
  verdict.lower = test.lower;
  verdict.upper = test.upper;
  verdict.rule = schema::VerdictRule::test;
  verdict.p_value = test.p_high;
  verdict.details["p_proof"] = test.p_low;
  verdict.details["variant"] = static_cast<double>(variant);
  for (const auto& [name, value] : test.details) verdict.details[name] = value;
  const std::string start = fmt::format(
      "{} of {} prompts{} change their greedy tokens with the batch size ({}), a rate of {} (between {} and "
      "{})",
      count_text(variant), count_text(test.n), on_slice(verdict.where), where_from, percent(test.estimate),
      percent(test.lower.value_or(0)), percent(test.upper.value_or(1)));
  if (test.p_low <= verdict.alpha) {
    verdict.verdict = Verdict::pass;
    verdict.message = fmt::format("{}: within the max of {}.", start, percent(max));
  } else if (test.p_high <= verdict.alpha) {
    verdict.verdict = Verdict::violated;
    verdict.message = fmt::format("{}: over the max of {}.", start, percent(max));
  } else {
    verdict.verdict = Verdict::inconclusive;
    verdict.message =
        fmt::format("{}: too few prompts to decide against the max of {}.", start, percent(max));
  }
}

ClauseVerdict decide_batch_variance(const ClauseData& data, const schema::Clause& clause,
                                    ClauseVerdict verdict) {
  const Floor& floor = data.floors.inf;
  verdict.limit_kind = "max";
  verdict.threshold = clause.limits.max;
  if (!clause.limits.max)
    return error_verdict(std::move(verdict), "batch_variant_rate is decided by max only.");
  if (floor.table == nullptr) {
    return error_verdict(
        std::move(verdict),
        "batch_variant_rate compares K_inf with itself at another batch size and there is no such "
        "capture: capture the same rows with batch N and give it as `floor`: {\"inf\": …} of the "
        "stage's captures (`driftgate drift`: --floor-inf).");
  }
  const Selection selection = select_sequences(*floor.table, verdict.where);
  const auto flip = static_cast<std::size_t>(schema::Metric::top1_flip);
  std::uint64_t variant = 0;
  const auto clusters = collect(*floor.table, selection, [&](const gpu::SequenceRow& row) {
    if (row.metrics[flip].n == 0) return ClusterSum{};
    const bool varies = row.metrics[flip].sum > 0;
    variant += static_cast<std::uint64_t>(varies);
    return ClusterSum{1, varies ? 1.0 : 0.0};
  });
  if (clusters.empty()) {
    return error_verdict(verdict, fmt::format("The inf floor holds no sequence{} with finite logits.",
                                              on_slice(verdict.where)));
  }
  if (!floor.digest.empty()) verdict.tables["floor_inf"] = floor.digest;
  const MeanTest test = exceedance(clusters, *clause.limits.max, data.alpha, data.seed);
  apply_batch_variance(test, variant, "at any captured position", clause, verdict);
  return verdict;
}

}  // namespace driftgate::stages
