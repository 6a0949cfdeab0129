#include "stages/shadow_runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "stages/batch_invariance.hpp"
#include "stages/canary/traffic_rules.hpp"
#include "stages/clauses/clause_rules.hpp"
#include "stages/clauses/clause_test.hpp"
#include "stages/clauses/clip_report.hpp"
#include "stages/clauses/selection.hpp"
#include "stages/report/report_begin.hpp"
#include "stages/report/wording.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/log_mean_sequence.hpp"
#include "stages/statistics/paired.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Metric;
using schema::SliceRole;
using schema::Verdict;

using Pairs = std::vector<const ShadowPair*>;

struct Decider {
  const schema::Contract& contract;
  const ShadowInputs& inputs;
  Pairs unique;  ///< the first pair of each key
  double alpha;

  [[nodiscard]] Pairs on(const schema::SliceWhere& where) const;
  [[nodiscard]] Pairs all_on(const schema::SliceWhere& where) const;
  void decide(const schema::Clause& clause, const schema::SliceWhere& where, SliceRole role,
              std::vector<ClauseVerdict>& out) const;
  [[nodiscard]] ClauseVerdict rate_max(const schema::Clause& clause, const Pairs& pairs,
                                       ClauseVerdict verdict) const;
  [[nodiscard]] ClauseVerdict rate_ratio(const schema::Clause& clause, const Pairs& pairs,
                                         ClauseVerdict verdict) const;
  [[nodiscard]] ClauseVerdict rate_delta(const schema::Clause& clause, const Pairs& pairs,
                                         ClauseVerdict verdict) const;
  [[nodiscard]] ClauseVerdict latency(const schema::Clause& clause, Metric metric, const Pairs& pairs,
                                      ClauseVerdict verdict) const;
  [[nodiscard]] ClauseVerdict realised(const schema::Clause& clause, const schema::SliceWhere& where,
                                       SliceRole role) const;
  [[nodiscard]] ClauseVerdict batch_variance(const schema::Clause& clause, const Pairs& pairs,
                                             ClauseVerdict verdict) const;
};

/// By how many requests the candidate had more in flight than the incumbent; 0 where that is not known.
std::int64_t more_load(const ShadowPair& pair) {
  if (!pair.incumbent_in_flight || !pair.candidate_in_flight) return 0;
  return std::int64_t{*pair.candidate_in_flight} - std::int64_t{*pair.incumbent_in_flight};
}

/// What one side of pairs took, sorted.
struct Arms {
  std::vector<double> candidate, incumbent;

  void add(const ShadowPair& pair, Metric metric) {
    const double c = latency_value(metric, pair.candidate_latency);
    const double i = latency_value(metric, pair.incumbent_latency);
    if (pair.candidate == RequestOutcome::ok && std::isfinite(c)) candidate.push_back(c);
    if (pair.incumbent == RequestOutcome::ok && std::isfinite(i)) incumbent.push_back(i);
  }
  void sort() {
    std::ranges::sort(candidate);
    std::ranges::sort(incumbent);
  }
};

/// A share of pairs of which it need not be said that the others were left out.
constexpr double kNearlyAll = 0.9;

/// Says of which pairs the limits are, where the engines were not equally loaded in all of them.
void say_load(const Pairs& pairs, ClauseVerdict& verdict) {
  std::vector<double> candidate, incumbent;
  std::size_t no_more = 0, no_fewer = 0;
  for (const ShadowPair* pair : pairs) {
    no_more += more_load(*pair) <= 0 ? 1 : 0;
    no_fewer += more_load(*pair) >= 0 ? 1 : 0;
    if (!pair->incumbent_in_flight || !pair->candidate_in_flight) continue;
    candidate.push_back(*pair->candidate_in_flight);
    incumbent.push_back(*pair->incumbent_in_flight);
  }
  if (no_more == pairs.size() && no_fewer == pairs.size()) return;
  std::ranges::sort(candidate);
  std::ranges::sort(incumbent);
  verdict.details["in_flight_candidate"] = candidate[candidate.size() / 2];
  verdict.details["in_flight_incumbent"] = incumbent[incumbent.size() / 2];
  verdict.details["pairs_for_harm"] = static_cast<double>(no_more);
  verdict.details["pairs_for_proof"] = static_cast<double>(no_fewer);
  const double least = kNearlyAll * static_cast<double>(pairs.size());
  if (static_cast<double>(std::min(no_more, no_fewer)) >= least) return;
  const std::string loads =
      fmt::format("(in the median {} and {})", figure(verdict.details["in_flight_candidate"]),
                  figure(verdict.details["in_flight_incumbent"]));
  if (no_more == 0) {
    verdict.message = fmt::format(
        "In each of the {} pairs the candidate had more requests in flight than the incumbent {}, so that it "
        "cannot be told whether it is slower. With a smaller mirror_share copies come more slowly.",
        pairs.size(), loads);
    return;
  }
  verdict.message += fmt::format(
      " An engine answers more slowly the more requests it has: that the candidate is slower can only be "
      "shown by the {} of {} pairs in which it had no more in flight than the incumbent, that it is fast "
      "enough by the {} in which it had no fewer {}.",
      no_more, pairs.size(), no_fewer, loads);
}

Pairs first_of_each_key(const std::vector<ShadowPair>& pairs) {
  Pairs unique;
  std::unordered_set<std::uint64_t> seen;
  for (const ShadowPair& pair : pairs) {
    if (pair.candidate == RequestOutcome::excluded || pair.incumbent == RequestOutcome::excluded) continue;
    if (seen.insert(pair.key_hash).second) unique.push_back(&pair);
  }
  return unique;
}

Pairs Decider::on(const schema::SliceWhere& where) const {
  if (where.empty()) return unique;
  Pairs selected;
  for (const ShadowPair* pair : unique) {
    if (matches(parse_slice(pair->slice), where)) selected.push_back(pair);
  }
  return selected;
}

Pairs Decider::all_on(const schema::SliceWhere& where) const {
  Pairs selected;
  for (const ShadowPair& pair : inputs.pairs) {
    if (where.empty() || matches(parse_slice(pair.slice), where)) selected.push_back(&pair);
  }
  return selected;
}

std::uint64_t failures(const Pairs& pairs, RequestOutcome ShadowPair::*side) {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      pairs, [side](const ShadowPair* p) { return p->*side == RequestOutcome::failed; }));
}

ClauseVerdict Decider::rate_max(const schema::Clause& clause, const Pairs& pairs,
                                ClauseVerdict verdict) const {
  const double max = *clause.limits.max;
  const std::uint64_t n = pairs.size();
  const std::uint64_t failed = failures(pairs, &ShadowPair::candidate);
  verdict.limit_kind = "max";
  verdict.threshold = max;
  verdict.rule = schema::VerdictRule::limits;
  verdict.method = "Clopper-Pearson, one request of each key";
  verdict.n = verdict.clusters = n;
  verdict.estimate = n == 0 ? 0 : static_cast<double>(failed) / static_cast<double>(n);
  verdict.lower = clopper_pearson_lower(failed, n, alpha);
  verdict.upper = clopper_pearson_upper(failed, n, alpha);
  verdict.p_value = binomial_at_least(failed, n, max);
  verdict.details["failed"] = static_cast<double>(failed);
  const std::string start =
      fmt::format("the candidate failed {} of {} mirrored requests{}, a rate of {} (between {} and {})",
                  count_text(failed), count_text(n), on_slice(verdict.where), percent(*verdict.estimate),
                  percent(*verdict.lower), percent(*verdict.upper));
  if (*verdict.upper <= max) {
    verdict.verdict = Verdict::pass;
    verdict.message = fmt::format("{}: within the max of {}.", start, percent(max));
  } else if (*verdict.lower > max) {
    verdict.verdict = Verdict::violated;
    verdict.message = fmt::format("{}: over the max of {}.", start, percent(max));
  } else {
    verdict.details["least_keys"] = static_cast<double>(zero_event_units(max, alpha));
    verdict.message =
        fmt::format("{}: too few to decide against the max of {}; without any failure it takes {} keys.",
                    start, percent(max), count_text(zero_event_units(max, alpha)));
  }
  allow_no_harm(clause, verdict);
  return verdict;
}

ClauseVerdict Decider::rate_ratio(const schema::Clause& clause, const Pairs& pairs,
                                  ClauseVerdict verdict) const {
  const double ratio = *clause.limits.max_ratio;
  const std::uint64_t n = pairs.size();
  const std::uint64_t cand = failures(pairs, &ShadowPair::candidate);
  const std::uint64_t inc = failures(pairs, &ShadowPair::incumbent);
  verdict.limit_kind = "max_ratio";
  verdict.threshold = ratio;
  verdict.method = "Clopper-Pearson limits of both arms, each at half the level";
  verdict.n = verdict.clusters = n;
  const double low = clopper_pearson_lower(cand, n, alpha / 2);
  const double high = clopper_pearson_upper(inc, n, alpha / 2);
  verdict.rule = schema::VerdictRule::arm_limits;
  verdict.details["candidate_lower"] = low;
  verdict.details["incumbent_upper"] = high;
  verdict.p_value = smallest_level([&](double level) {
    return clopper_pearson_lower(cand, n, level / 2) > ratio * clopper_pearson_upper(inc, n, level / 2);
  });
  verdict.details["candidate_failed"] = static_cast<double>(cand);
  verdict.details["incumbent_failed"] = static_cast<double>(inc);
  if (inc > 0) verdict.estimate = static_cast<double>(cand) / static_cast<double>(inc);
  const std::string start =
      fmt::format("on the same {} requests{} the candidate failed {} times and the incumbent {}",
                  count_text(n), on_slice(verdict.where), count_text(cand), count_text(inc));
  if (n == 0) {
    verdict.message = start + ": nothing to compare.";
  } else if (low > ratio * high) {
    verdict.verdict = Verdict::violated;
    verdict.message = fmt::format("{}: with {} confidence over {} times as often.", start, percent(1 - alpha),
                                  figure(ratio));
  } else {
    verdict.verdict = Verdict::pass;
    verdict.no_harm_only = true;
    verdict.message = fmt::format(
        "{}: not shown to fail over {} times as often. A ratio of failures can only show "
        "harm; `max` is what proves.",
        start, figure(ratio));
  }
  return verdict;
}

/// Both engines saw the same requests, so that the difference of their failure rates is that of paired
/// outcomes.
ClauseVerdict Decider::rate_delta(const schema::Clause& clause, const Pairs& pairs,
                                  ClauseVerdict verdict) const {
  const double delta = *clause.limits.max_delta;
  std::vector<PairedOutcome> outcomes;
  for (const ShadowPair* pair : pairs) {
    outcomes.push_back(
        {pair->incumbent == RequestOutcome::ok, pair->candidate == RequestOutcome::ok, outcomes.size()});
  }
  verdict.limit_kind = "max_delta";
  verdict.threshold = delta;
  const MeanTest test = paired_outcomes(outcomes, delta, alpha, inputs.stage.seed);
  if (!test.undecidable.empty()) {
    verdict.message = fmt::format("No request{} was answered by both engines.", on_slice(verdict.where));
    return verdict;
  }
  verdict.n = verdict.clusters = test.n;
  verdict.method = test.method;
  verdict.approximate = test.approximate;
  verdict.rule = schema::VerdictRule::test;
  verdict.estimate = -test.estimate;
  if (test.upper) verdict.lower = -*test.upper;
  if (test.lower) verdict.upper = -*test.lower;
  verdict.p_value = test.p_low;
  verdict.details["p_proof"] = test.p_high;
  verdict.details["only_candidate_failed"] = test.details.at("b");
  verdict.details["only_incumbent_failed"] = test.details.at("c");
  const std::string start = fmt::format(
      "of {} requests{} that both engines answered, the candidate alone failed {} and the incumbent alone "
      "{}, "
      "a difference of {} (between {} and {})",
      count_text(test.n), on_slice(verdict.where), figure(test.details.at("b")), figure(test.details.at("c")),
      percent(*verdict.estimate), percent(verdict.lower.value_or(-1)), percent(verdict.upper.value_or(1)));
  if (test.p_high <= alpha) {
    verdict.verdict = Verdict::pass;
    verdict.message = fmt::format("{}: within the max_delta of {}.", start, percent(delta));
  } else if (test.p_low <= alpha) {
    verdict.verdict = Verdict::violated;
    verdict.message = fmt::format("{}: over the max_delta of {}.", start, percent(delta));
  } else {
    verdict.message =
        fmt::format("{}: too few to decide against the max_delta of {}.", start, percent(delta));
  }
  allow_no_harm(clause, verdict);
  return verdict;
}

ClauseVerdict Decider::latency(const schema::Clause& clause, Metric metric, const Pairs& pairs,
                               ClauseVerdict verdict) const {
  const schema::Limits& limits = clause.limits;
  if (!limits.max && !limits.max_ratio && !limits.max_delta) {
    return error_verdict(std::move(verdict), "A latency is decided by max, max_ratio or max_delta only.");
  }
  const auto& subject = std::get<schema::MetricSubject>(clause.subject);
  const auto quantile = subject.aggregate ? schema::quantile_of(*subject.aggregate) : std::nullopt;
  Arms harm, proof;
  for (const ShadowPair* pair : pairs) {
    if (more_load(*pair) <= 0) harm.add(*pair, metric);
    if (more_load(*pair) >= 0) proof.add(*pair, metric);
  }
  harm.sort();
  proof.sort();
  const auto limits_of = [&](const std::vector<double>& values, double level) {
    return quantile ? order_statistic_limits(values, *quantile, level) : log_mean_limits(values, level);
  };
  const double arms = limits.max_ratio || limits.max_delta ? 2 : 1;
  const double level = alpha / arms;
  verdict.p_value = smallest_level([&](double a) {
    return limits_of(harm.candidate, a / arms).lower >
           latency_threshold(limits, limits_of(harm.incumbent, a / arms).upper);
  });
  verdict.method = quantile ? "order statistics, one request of each key"
                            : "Student's t on the logarithms, the geometric mean of one request of each key";
  verdict.approximate = !quantile;
  verdict.n = harm.candidate.size();
  verdict.clusters = harm.candidate.size();
  QuantileLimits candidate = limits_of(harm.candidate, level), incumbent = limits_of(harm.incumbent, level);
  candidate.upper = limits_of(proof.candidate, level).upper;
  incumbent.lower = limits_of(proof.incumbent, level).lower;
  apply_latency({candidate, incumbent, !harm.candidate.empty(), !harm.incumbent.empty()}, clause, verdict);
  say_load(pairs, verdict);
  return verdict;
}

ClauseVerdict Decider::realised(const schema::Clause& clause, const schema::SliceWhere& where,
                                SliceRole role) const {
  if (!inputs.realised) {
    ClauseVerdict verdict = begin_verdict(clause, where, role, alpha, inputs.stage.seed);
    return error_verdict(
        std::move(verdict),
        inputs.can_rescore
            ? "No pair has the log-probabilities of the same tokens from both engines."
            : "An engine of this pair cannot score given tokens (echo, max_tokens 0, logprobs), so "
              "target-token drift cannot be measured on live pairs.");
  }
  ClauseVerdict verdict =
      decide_clause({&contract, &*inputs.realised, alpha, inputs.stage.seed}, clause, where, role);
  const bool train = inputs.reference == Reference::train;
  verdict.details["reference_is_train"] = train ? 1 : 0;
  verdict.message +=
      train ? " Reference: the training kernel." : " Reference: the incumbent, on the same tokens.";
  return verdict;
}

ClauseVerdict Decider::batch_variance(const schema::Clause& clause, const Pairs& pairs,
                                      ClauseVerdict verdict) const {
  verdict.limit_kind = "max";
  verdict.threshold = clause.limits.max;
  if (!clause.limits.max)
    return error_verdict(std::move(verdict), "batch_variant_rate is decided by max only.");
  std::vector<ClusterSum> prompts;
  std::uint64_t variant = 0;
  for (const ShadowPair* pair : pairs) {
    if (!pair->batch_variant) continue;
    variant += *pair->batch_variant ? 1 : 0;
    prompts.push_back({1, *pair->batch_variant ? 1.0 : 0.0});
  }
  if (prompts.empty()) {
    return error_verdict(
        verdict, fmt::format("No mirrored prompt{} was answered by the candidate both alone and in a batch: "
                             "the mirrored requests must be completions with one text as their prompt, and "
                             "the engine must answer them at temperature 0.",
                             on_slice(verdict.where)));
  }
  const MeanTest test = exceedance(prompts, *clause.limits.max, alpha, inputs.stage.seed);
  apply_batch_variance(test, variant, "generated alone and in a batch", clause, verdict);
  return verdict;
}

void Decider::decide(const schema::Clause& clause, const schema::SliceWhere& where, SliceRole role,
                     std::vector<ClauseVerdict>& out) const {
  ClauseVerdict verdict = begin_verdict(clause, where, role, alpha, inputs.stage.seed);
  const auto metric = traffic_metric(clause);
  if (!metric) {
    out.push_back(
        error_verdict(std::move(verdict), subject_text(clause) + " is decided on captures, not on traffic."));
    return;
  }
  const schema::MetricGroup group = schema::info(*metric).group;
  const Pairs pairs = on(where);
  if (*metric == Metric::error_rate) {
    if (clause.limits.max) out.push_back(rate_max(clause, pairs, verdict));
    if (clause.limits.max_ratio) out.push_back(rate_ratio(clause, pairs, verdict));
    if (clause.limits.max_delta) out.push_back(rate_delta(clause, pairs, verdict));
    if (!clause.limits.max && !clause.limits.max_ratio && !clause.limits.max_delta) {
      out.push_back(
          error_verdict(std::move(verdict), "error_rate is decided by max, max_ratio or max_delta only."));
    }
  } else if (is_latency(*metric)) {
    for (const schema::Clause& part : one_per_limit(clause)) {
      out.push_back(latency(part, *metric, pairs, verdict));
    }
  } else if (group == schema::MetricGroup::batch) {
    out.push_back(batch_variance(clause, pairs, std::move(verdict)));
  } else if (group == schema::MetricGroup::greedy) {
    out.push_back(decide_greedy(clause, all_on(where), alpha, inputs.stage.seed, std::move(verdict)));
  } else if (group == schema::MetricGroup::realised || group == schema::MetricGroup::row) {
    out.push_back(realised(clause, where, role));
  } else {
    out.push_back(
        error_verdict(std::move(verdict), subject_text(clause) + " is not evaluated by shadow-runtime."));
  }
}

void note_pairs(const ShadowInputs& inputs, std::size_t unique, StageReport& report) {
  report.notes.push_back(fmt::format("{} pairs, {} of them the first of their key.",
                                     count_text(inputs.pairs.size()), count_text(unique)));
  if (inputs.mirror_skipped > 0) {
    report.notes.push_back(
        fmt::format("{} requests were not mirrored because a limit of the mirror was reached.",
                    count_text(inputs.mirror_skipped)));
  }
  const auto unlisted =
      static_cast<std::uint64_t>(std::ranges::count_if(inputs.pairs, &ShadowPair::unlisted_tokens));
  if (unlisted > 0) {
    report.notes.push_back(fmt::format(
        "{} pairs of greedy answers were not compared: an engine listed fewer tokens than it generated.",
        count_text(unlisted)));
  }
  if (inputs.can_rescore) return;
  std::uint64_t equal = 0;
  std::uint64_t compared = 0;
  for (const ShadowPair& pair : inputs.pairs) {
    equal += pair.equal_tokens.value_or(0);
    compared += pair.compared_tokens.value_or(0);
  }
  report.notes.push_back(
      fmt::format("An engine cannot score given tokens; compared on generated tokens up to the first "
                  "difference: {} of {} equal.",
                  count_text(equal), count_text(compared)));
}

}  // namespace

StageReport evaluate_shadow_runtime(const schema::Contract& contract, const ShadowInputs& inputs) {
  StageReport report = begin_report(schema::Stage::shadow_runtime, contract, inputs.stage);
  const Decider decider{contract, inputs, first_of_each_key(inputs.pairs), report.alpha};
  SignalFigures figures;
  figures.pairs = inputs.pairs.size();
  figures.logprobs_wanted = inputs.logprobs_wanted;
  figures.no_logprobs = inputs.no_logprobs;
  figures.with_logprobs = static_cast<std::uint64_t>(
      std::ranges::count_if(inputs.pairs, [](const ShadowPair& pair) { return pair.has_logprobs; }));
  figures.telemetry_age_ms = inputs.telemetry_age_ms;
  const auto clauses = clauses_of(contract, schema::Stage::shadow_runtime);
  for (const schema::Clause* clause : clauses) {
    if (std::holds_alternative<schema::SignalSubject>(clause->subject)) {
      if (auto verdict = decide_signal(*clause, figures, report.alpha))
        report.clauses.push_back(std::move(*verdict));
      continue;
    }
    const bool critical = std::ranges::find(clause->slices, SliceRole::critical) != clause->slices.end();
    // Like the canary: all traffic unless the clause names critical slices, so that none goes undecided.
    if (!critical || contract.slices.critical.empty()) {
      decider.decide(*clause, {}, SliceRole::corpus, report.clauses);
      continue;
    }
    for (const auto& where : contract.slices.critical) {
      decider.decide(*clause, where, SliceRole::critical, report.clauses);
    }
  }
  std::vector<ClauseVerdict*> critical;
  for (ClauseVerdict& verdict : report.clauses) {
    if (verdict.role == SliceRole::critical) critical.push_back(&verdict);
  }
  downgrade_by_holm(critical, report.alpha, contract);
  note_certified_means(contract, report.clauses);
  note_pairs(inputs, decider.unique.size(), report);
  finish_report(report, !clauses.empty());
  return report;
}

}  // namespace driftgate::stages
