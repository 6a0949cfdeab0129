#include "stages/clauses/clause_test.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "schema/contract/least_n.hpp"
#include "stages/batch_invariance.hpp"
#include "stages/clauses/bounded_test.hpp"
#include "stages/clauses/clause_rules.hpp"
#include "stages/clauses/clip_report.hpp"
#include "stages/clauses/difference_test.hpp"
#include "stages/clauses/exact_test.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/report/wording.hpp"
#include "stages/statistics/paired.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Metric;
using schema::Verdict;

std::size_t index_of(Metric metric) {
  return static_cast<std::size_t>(metric);
}

/// Non-finite logits among the selected rows: their number and, where known, the first place.
void fail_on_nonfinite(const ClauseData& data, const Selection& selection, ClauseVerdict& verdict) {
  double count = 0;
  std::int64_t first = -1;
  for (const std::size_t i : selection) {
    const gpu::SequenceRow& row = data.table->sequences[i];
    const double here = row.metrics[index_of(Metric::nonfinite)].sum;
    if (here > 0 && first < 0) first = row.sequence;
    count += here;
  }
  if (count <= 0) return;
  verdict.verdict = Verdict::violated;
  verdict.rule = schema::VerdictRule::nonfinite;
  verdict.p_value = 0;
  verdict.method = "census of non-finite logits";
  verdict.details["nonfinite"] = count;
  verdict.message = fmt::format(
      "{} logits{} are NaN or infinite (first in sequence {}): a row that is not finite is "
      "never averaged away, so nothing numerical over it can hold.",
      figure(count), on_slice(verdict.where), first);
  const auto worst = std::ranges::find_if(data.table->worst_rows, [&](const gpu::WorstRow& row) {
    return row.sequence == first && row.values[index_of(Metric::nonfinite)] > 0;
  });
  if (worst != data.table->worst_rows.end()) {
    verdict.message += fmt::format(" Position {}, row {} of the capture.", worst->position, worst->row);
  }
}

ClauseVerdict decide_outcome(const ClauseData& data, const schema::Clause& clause, const Selection& selection,
                             ClauseVerdict verdict) {
  const double margin = clause.limits.non_inferiority_margin.value_or(0);
  verdict.threshold = margin;
  verdict.limit_kind = "non_inferiority_margin";
  if (!clause.limits.non_inferiority_margin) {
    return error_verdict(std::move(verdict), "An outcome is decided by non_inferiority_margin only.");
  }
  const std::vector<std::size_t> numbers = cluster_numbers(*data.table, selection);
  std::vector<PairedOutcome> outcomes;
  for (std::size_t i = 0; i < selection.size() && selection[i] < data.table->infos.size(); ++i) {
    const gpu::SequenceInfo& info = data.table->infos[selection[i]];
    if (info.correct_train && info.correct_inf) {
      outcomes.push_back({*info.correct_train, *info.correct_inf, numbers[i]});
    }
  }
  if (outcomes.empty()) {
    return error_verdict(
        verdict,
        fmt::format(
            "No sequence{} has an outcome by both kernels: the corpus needs \"correct\": {{\"train\": "
            "…, \"inf\": …}}.",
            on_slice(verdict.where)));
  }
  apply_paired(paired_outcomes(outcomes, margin, data.alpha, data.seed), margin, verdict);
  allow_no_harm(clause, verdict);
  return verdict;
}

/// Where no link can serve a clause, one that says why: its own, or the link on whole sequences under it.
const BoundLink* unusable_link(const BoundChain& chain, schema::Bound bound, schema::Horizon horizon) {
  for (const schema::Bound wanted : {bound, schema::Bound::sequence}) {
    const auto link = std::ranges::find_if(chain.links, [&](const BoundLink& candidate) {
      return candidate.bound == wanted && candidate.horizon == horizon;
    });
    if (link != chain.links.end()) return &*link;
  }
  return nullptr;
}

ClauseVerdict decide_bound(const ClauseData& data, const schema::Clause& clause,
                           const schema::BoundSubject& subject, ClauseVerdict verdict) {
  const BoundChain chain =
      bound_chain(*data.table, data.contract->assumptions, verdict.where, data.alpha, data.seed);
  verdict.limit_kind = "max";
  verdict.threshold = clause.limits.max;
  verdict.clusters = chain.sequences;
  verdict.n = chain.rows;
  if (!clause.limits.max) return error_verdict(std::move(verdict), "A bound is decided by max only.");
  if (!chain.refused.empty())
    return error_verdict(std::move(verdict), "There is no certificate: " + chain.refused + ".");
  // The tv of whole sequences is what the bound `sequence` is about.
  const bool whole = subject.bound == schema::Bound::tv && subject.horizon == schema::Horizon::sequence;
  const schema::Bound bound = whole ? schema::Bound::sequence : subject.bound;
  const BoundLink* link = best_link(chain, bound, subject.horizon);
  if (link == nullptr) link = unusable_link(chain, bound, subject.horizon);
  apply_bound(link, clause, verdict);
  return verdict;
}

/// Says what would decide a mean that the exact method leaves open.
void advise(const ClauseData& data, const MetricQuestion& question, const Selection& selection,
            ClauseVerdict& verdict) {
  const bool open = verdict.verdict == Verdict::inconclusive && verdict.rule == schema::VerdictRule::test;
  // Monitored slices are many, and inconclusive ones do not block.
  if (!open || question.rules.means == schema::Means::approximate ||
      verdict.role == schema::SliceRole::monitored)
    return;
  const auto advice = advise_metric(*data.table, selection, question.subject, question.limit, question.rules,
                                    data.alpha, data.seed);
  if (advice) apply_advice(*advice, verdict);
}

/// With a floor the drift has half of the level, and the limit is at least the stated one.
ClauseVerdict decide_metric(const ClauseData& all, const schema::Clause& clause,
                            const schema::MetricSubject& subject, const Selection& selection,
                            ClauseVerdict verdict) {
  if (subject.metric == Metric::batch_variant_rate) {
    return decide_batch_variance(all, clause, std::move(verdict));
  }
  if (is_difference(clause)) {
    verdict = decide_difference(all, clause, selection, std::move(verdict));
    if (subject.metric != Metric::ece_drift) fail_on_nonfinite(all, selection, verdict);
    return verdict;
  }
  ClauseData data = all;
  const MeanRules rules = mean_rules(*data.contract, clause);
  std::optional<FloorLimit> floor;
  auto limit = metric_limit(clause);
  if (clause.limits.floor_multiple) {
    verdict.threshold = clause.limits.max;
    verdict.limit_kind = "max";
    auto found = floor_limit(data.floors, clause, subject, verdict.where, rules, data.alpha, data.seed);
    if (!found) return error_verdict(std::move(verdict), "Not decided: " + found.error().message + ".");
    floor = std::move(*found);
    limit = MetricLimit{floor->limit, true};
    data.alpha = verdict.alpha = floor->alpha;
  }
  if (!limit) {
    return error_verdict(std::move(verdict),
                         "This stage decides " + subject_text(clause) + " by max or min only.");
  }
  verdict.threshold = limit->value;
  verdict.limit_kind = limit->is_max ? "max" : "min";
  if (std::string fault = parameter_fault(data, subject.metric); !fault.empty()) {
    return error_verdict(std::move(verdict), std::move(fault));
  }
  if (data.table->bounded(subject.metric)) {
    verdict = decide_bounded(data, {clause, subject, *limit, rules}, selection, std::move(verdict));
    note_clip(*data.table, selection, subject, *limit, rules, verdict);
    if (floor) note_floor(*floor, verdict);
    fail_on_nonfinite(data, selection, verdict);
    return verdict;
  }
  const bool census = subject.metric == Metric::nonfinite || subject.aggregate == schema::Aggregate::sum ||
                      subject.aggregate == schema::Aggregate::min ||
                      subject.aggregate == schema::Aggregate::max;
  if (census) {
    const std::uint64_t units =
        clause.limits.min_count.value_or(schema::min_sequences_of(clause, *data.contract));
    apply_census(*data.table, selection, subject, *limit, units, verdict);
  } else {
    auto test = test_metric(*data.table, selection, subject, *limit, rules, data.alpha, data.seed);
    if (!test) return error_verdict(std::move(verdict), "Not decided: " + test.error().message + ".");
    apply_mean_test(*test, clause, subject, *limit, verdict);
    advise(data, {clause, subject, *limit, rules}, selection, verdict);
    note_clip(*data.table, selection, subject, *limit, rules, verdict);
  }
  if (floor) note_floor(*floor, verdict);
  if (subject.metric != Metric::nonfinite) fail_on_nonfinite(data, selection, verdict);
  return verdict;
}

}  // namespace

std::string parameter_fault(const ClauseData& data, Metric metric) {
  const auto& policy = data.contract->assumptions.policy;
  if (metric == Metric::clip_budget_used && policy && policy->ppo_clip != data.table->ppo_clip) {
    return fmt::format(
        "The table counted clip_budget_used at a PPO clip of {} and the contract says {}: measure again "
        "with this contract.",
        figure(data.table->ppo_clip), figure(policy->ppo_clip));
  }
  if (metric == Metric::topk_overlap && data.contract->top_k != data.table->top_k) {
    return fmt::format(
        "The table measured topk_overlap at k = {} and the contract says {}: measure again with this "
        "contract.",
        data.table->top_k, data.contract->top_k);
  }
  return {};
}

ClauseVerdict decide_clause(const ClauseData& data, const schema::Clause& clause,
                            const schema::SliceWhere& where, schema::SliceRole role) {
  ClauseVerdict verdict = begin_verdict(clause, where, role, data.alpha, data.seed);
  const Selection selection = select_sequences(*data.table, where);
  const std::uint64_t least =
      role == schema::SliceRole::corpus ? 1 : schema::min_sequences_of(clause, *data.contract);
  if (selection.size() < least) {
    verdict.clusters = selection.size();
    verdict.method = "none: too few sequences";
    verdict.details["missing_sequences"] = static_cast<double>(least - selection.size());
    verdict.message = fmt::format(
        "Only {} sequences{}, and min_sequences is {}: {} are missing before this slice can be "
        "decided.",
        count_text(selection.size()), on_slice(where), count_text(least),
        count_text(least - selection.size()));
    return verdict;
  }
  if (const auto* exact = std::get_if<schema::ExactSubject>(&clause.subject)) {
    const std::uint64_t units =
        clause.limits.min_count.value_or(schema::min_sequences_of(clause, *data.contract));
    return decide_exact(data, *exact, units, std::move(verdict));
  }
  const bool of_outcomes = std::holds_alternative<schema::OutcomeSubject>(clause.subject);
  if (std::string fault = of_outcomes ? std::string() : deciding_finding(*data.table); !fault.empty()) {
    return error_verdict(std::move(verdict), "Not decided: " + std::move(fault) + ".");
  }
  if (const auto* bound = std::get_if<schema::BoundSubject>(&clause.subject)) {
    verdict = decide_bound(data, clause, *bound, std::move(verdict));
    fail_on_nonfinite(data, selection, verdict);
    return verdict;
  }
  if (of_outcomes) {
    return decide_outcome(data, clause, selection, std::move(verdict));
  }
  if (const auto* metric = std::get_if<schema::MetricSubject>(&clause.subject)) {
    return decide_metric(data, clause, *metric, selection, std::move(verdict));
  }
  return error_verdict(std::move(verdict), "A signal is decided on traffic, not on captures.");
}

}  // namespace driftgate::stages
