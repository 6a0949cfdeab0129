#include "stages/clauses/clause_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "schema/contract/contract_means.hpp"
#include "stages/report/wording.hpp"
#include "stages/statistics/distributions.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Verdict;
using schema::VerdictRule;

void copy_figures(const MeanTest& test, ClauseVerdict& verdict) {
  verdict.n = test.n;
  verdict.clusters = test.clusters;
  if (test.n > 0) verdict.estimate = test.estimate;
  verdict.lower = test.lower;
  verdict.upper = test.upper;
  verdict.method = test.method;
  verdict.approximate = test.approximate;
  for (const auto& [name, value] : test.details) verdict.details[name] = value;
}

/// "mean tv on language=de is 0.0102 (3,000 rows, 200 sequences)".
std::string stated(const std::string& what, const ClauseVerdict& verdict, const std::string& value,
                   const char* unit = "rows") {
  const std::string units =
      verdict.n == verdict.clusters ? std::string() : fmt::format("{} {}, ", count_text(verdict.n), unit);
  return fmt::format("{}{} is {} ({}{} independent sequences)", what, on_slice(verdict.where), value, units,
                     count_text(verdict.clusters));
}

std::string more_needed(const ClauseVerdict& verdict) {
  const auto least = verdict.details.find("least_clusters");
  if (least != verdict.details.end() && least->second > static_cast<double>(verdict.clusters)) {
    return fmt::format(" At this confidence no fewer than {} sequences could ever show it.",
                       count_text(static_cast<std::uint64_t>(least->second)));
  }
  return " More sequences are needed.";
}

/// What stands beside a mean that was decided approximately.
std::string beside_text(const ClauseVerdict& verdict) {
  if (!verdict.approximate) return {};
  const auto low = verdict.details.find("exact_lower"), high = verdict.details.find("exact_upper");
  if (low == verdict.details.end() || high == verdict.details.end()) return " This is approximate.";
  return fmt::format(" This is approximate; the exact limits are {} and {}.", figure(low->second),
                     figure(high->second));
}

std::string mean_message(const std::string& what, const MetricLimit& limit, double tau, const char* unit,
                         const ClauseVerdict& verdict) {
  const std::string start = stated(what, verdict, figure(verdict.estimate.value_or(0)), unit);
  const std::string sure = percent(1 - verdict.alpha);
  const double low = verdict.lower.value_or(0);
  const double high = verdict.upper.value_or(0);
  const char* word = limit.is_max ? "max" : "min";
  if (verdict.verdict == Verdict::pass) {
    return fmt::format("{}; with {} confidence {} {}, within the {} of {}.", start, sure,
                       limit.is_max ? "at most" : "at least", figure(limit.is_max ? high : low), word,
                       figure(tau));
  }
  if (verdict.verdict == Verdict::violated) {
    return fmt::format("{}; with {} confidence {} {}, beyond the {} of {}.", start, sure,
                       limit.is_max ? "at least" : "at most", figure(limit.is_max ? low : high), word,
                       figure(tau));
  }
  return fmt::format(
      "{}; it may be anything from {} to {}, and the {} of {} lies between: these data cannot decide.{}",
      start, figure(low), figure(high), word, figure(tau), more_needed(verdict));
}

double census_value(const gpu::MeasurementTable& table, const Selection& selection,
                    const schema::MetricSubject& subject, ClauseVerdict& verdict, std::int64_t& where) {
  const auto metric = static_cast<std::size_t>(subject.metric);
  const bool largest = subject.aggregate == schema::Aggregate::max;
  const bool smallest = subject.aggregate == schema::Aggregate::min;
  double value = largest ? -std::numeric_limits<double>::infinity()
                         : (smallest ? std::numeric_limits<double>::infinity() : 0.0);
  const std::vector<std::size_t> numbers = cluster_numbers(table, selection);
  std::unordered_set<std::size_t> seen;
  for (std::size_t i = 0; i < selection.size(); ++i) {
    const gpu::SequenceRow& row = table.sequences[selection[i]];
    const gpu::Moments& moments = row.metrics[metric];
    if (moments.n == 0) continue;
    verdict.n += moments.n;
    seen.insert(numbers[i]);
    const double before = value;
    if (largest) value = std::max(value, moments.max);
    if (smallest) value = std::min(value, moments.min);
    if (!largest && !smallest) value += moments.sum;
    if (value != before) where = row.sequence;
  }
  verdict.clusters = seen.size();
  return value;
}

}  // namespace

std::optional<MetricLimit> metric_limit(const schema::Clause& clause) {
  const schema::Limits& limits = clause.limits;
  if (limits.max_ratio || limits.max_delta || limits.floor_multiple) return std::nullopt;
  if (limits.max) return MetricLimit{*limits.max, true};
  if (limits.min) return MetricLimit{*limits.min, false};
  return std::nullopt;
}

void apply_mean_test(const MeanTest& test, const schema::Clause& clause, const schema::MetricSubject& subject,
                     const MetricLimit& limit, ClauseVerdict& verdict) {
  copy_figures(test, verdict);
  const bool quantile = subject.aggregate && schema::quantile_of(*subject.aggregate);
  const bool rows =
      quantile ? clause.over != schema::QuantileOver::sequences : schema::weighs_tokens(subject);
  const char* unit = rows ? "rows" : "sequences";
  if (test.n == 0) {
    verdict = error_verdict(
        verdict, fmt::format("{}{} cannot be decided: the captures hold no values of it for these sequences.",
                             subject_text(clause), on_slice(verdict.where)));
    return;
  }
  if (!test.undecidable.empty()) {
    verdict.message =
        fmt::format("{}, but {}: inconclusive.",
                    stated(subject_text(clause), verdict, figure(test.estimate), unit), test.undecidable);
    return;
  }
  // A quantile limit is a limit on the fraction beyond it, whichever side that is.
  const bool wants_low = limit.is_max || quantile;
  const double proof = wants_low ? test.p_low : test.p_high;
  const double harm = wants_low ? test.p_high : test.p_low;
  verdict.rule = VerdictRule::test;
  verdict.p_value = harm;
  verdict.details["p_proof"] = proof;
  if (!wants_low) verdict.details.erase("least_clusters");  // counted for the other direction
  const double share = quantile ? tolerated_fraction(*subject.aggregate, limit.is_max) : 1;
  if (proof <= verdict.alpha && share_of_rows_within(share, verdict)) {
    verdict.verdict = Verdict::pass;
  } else if (harm <= verdict.alpha) {
    verdict.verdict = Verdict::violated;
  }
  if (!quantile) {
    verdict.message =
        mean_message(subject_text(clause), limit, limit.value, unit, verdict) + beside_text(verdict);
    return allow_no_harm(clause, verdict);
  }
  verdict.details["tolerated_fraction"] = share;
  const std::string what = fmt::format("the share of {} {} {} {} (clause: {})", share_of(clause.over),
                                       schema::to_string(subject.metric), limit.is_max ? "over" : "under",
                                       figure(limit.value), subject_text(clause));
  verdict.message = mean_message(what, {share, true}, share, unit, verdict);
  if (proof <= verdict.alpha && verdict.verdict == Verdict::inconclusive)
    verdict.message = long_sequences_text(what, share, verdict);
  allow_no_harm(clause, verdict);
}

bool share_of_rows_within(double tolerated, const ClauseVerdict& verdict) {
  const auto found = verdict.details.find("share_of_rows");
  return found == verdict.details.end() || found->second <= tolerated;
}

std::string long_sequences_text(const std::string& what, double tolerated, const ClauseVerdict& verdict) {
  return fmt::format(
      "{}{} is within the {} that may be, but of all {} rows {} are beyond the limit, because they lie in "
      "long "
      "sequences: inconclusive. Write over: rows with assumptions.max_tokens to limit the share of all rows, "
      "or over: "
      "sequences to limit how many sequences are beyond.",
      what, on_slice(verdict.where), percent(tolerated), count_text(verdict.n),
      percent(verdict.details.at("share_of_rows")));
}

void apply_advice(const MeanAdvice& advice, ClauseVerdict& verdict) {
  std::vector<std::string> ways;
  if (advice.clusters) {
    verdict.details["needed_clusters"] = static_cast<double>(*advice.clusters);
    ways.push_back(
        fmt::format("about {} sequences like these would prove it exactly", count_text(*advice.clusters)));
  }
  if (advice.clip) {
    verdict.details["clip_that_would_do"] = *advice.clip;
    ways.push_back(fmt::format("these do with clip: {}, beside a p97 clause over sequences at that value",
                               figure(*advice.clip)));
  }
  if (advice.approximate) ways.emplace_back("the contract may ask for confidence.means: approximate");
  verdict.message += fmt::format(
      " {}: {}.", advice.approximate ? "The approximate method would pass" : "What would decide it",
      fmt::join(ways, "; "));
}

void apply_census(const gpu::MeasurementTable& table, const Selection& selection,
                  const schema::MetricSubject& subject, const MetricLimit& limit, std::uint64_t least_units,
                  ClauseVerdict& verdict) {
  std::int64_t where = -1;
  const double value = census_value(table, selection, subject, verdict, where);
  verdict.method = "census";
  const std::string what =
      std::string(schema::to_string(subject.aggregate.value_or(schema::Aggregate::sum))) + " " +
      std::string(schema::to_string(subject.metric));
  if (verdict.clusters == 0) {
    verdict =
        error_verdict(std::move(verdict), what + " cannot be decided: the captures hold no values of it.");
    return;
  }
  verdict.rule = VerdictRule::census;
  verdict.estimate = value;
  verdict.details["least_units"] = static_cast<double>(least_units);
  const bool within = limit.is_max ? value <= limit.value : value >= limit.value;
  const double bound = zero_event_bound(verdict.clusters, verdict.alpha);
  verdict.p_value = within ? 1 : 0;
  const std::string start = stated(what, verdict, figure(value));
  if (!within) {
    verdict.verdict = Verdict::violated;
    verdict.message =
        fmt::format("{}, beyond the {} of {}; reached in sequence {}. One such event is enough.", start,
                    verdict.limit_kind, figure(limit.value), where);
    return;
  }
  verdict.details["rate_bound"] = bound;
  if (verdict.clusters < least_units) {
    verdict.details["missing_sequences"] = static_cast<double>(least_units - verdict.clusters);
    verdict.message = fmt::format(
        "{}, within the {} of {}, but only {} independent sequences were examined and {} are required: {} "
        "are missing.",
        start, verdict.limit_kind, figure(limit.value), count_text(verdict.clusters), count_text(least_units),
        count_text(least_units - verdict.clusters));
    return;
  }
  verdict.verdict = Verdict::pass;
  verdict.message =
      fmt::format("{}, within the {} of {}; with {} confidence under {} of all sequences go beyond it.",
                  start, verdict.limit_kind, figure(limit.value), percent(1 - verdict.alpha), percent(bound));
}

void apply_paired(const MeanTest& test, double margin, ClauseVerdict& verdict) {
  copy_figures(test, verdict);
  if (!test.undecidable.empty()) {
    verdict.message = "Not decided: " + test.undecidable + ".";
    return;
  }
  verdict.rule = VerdictRule::margin;
  verdict.p_value = test.p_low;
  verdict.details["p_proof"] = test.p_high;
  const std::string start = fmt::format(
      "{} sequences{} have both outcomes: {} right only with the training kernel, {} only with the inference "
      "kernel, a "
      "difference of {}",
      count_text(test.n), on_slice(verdict.where), figure(test.details.at("b")), figure(test.details.at("c")),
      figure(test.estimate));
  const std::string range =
      fmt::format("{} to {}", figure(test.lower.value_or(-1)), figure(test.upper.value_or(1)));
  if (test.p_high <= verdict.alpha && test.lower.value_or(-1) > -margin) {
    verdict.verdict = Verdict::pass;
    verdict.message = fmt::format("{} (one-sided limits {}): not worse by more than the margin {}.", start,
                                  range, figure(margin));
  } else if (test.p_low <= verdict.alpha && test.upper.value_or(1) < -margin) {
    verdict.verdict = Verdict::violated;
    verdict.message = fmt::format("{} (one-sided limits {}): worse by more than the margin {}.", start, range,
                                  figure(margin));
  } else {
    verdict.message = fmt::format(
        "{} (one-sided limits {}): the margin {} is neither kept nor broken for certain. More "
        "sequences with outcomes are needed.",
        start, range, figure(margin));
  }
  if (verdict.verdict != Verdict::violated && test.upper && *test.upper < 0) {
    verdict.details["harm_within_margin"] = 1;
    verdict.message += " The inference kernel is worse, within the margin.";
  }
}

void allow_no_harm(const schema::Clause& clause, ClauseVerdict& verdict) {
  const bool tested = verdict.rule == VerdictRule::test || verdict.rule == VerdictRule::bounded_test ||
                      verdict.rule == VerdictRule::margin || verdict.rule == VerdictRule::limits;
  if (clause.require != schema::Requirement::no_harm || !tested) return;
  if (verdict.verdict != Verdict::inconclusive) return;
  verdict.verdict = Verdict::pass;
  verdict.no_harm_only = true;
  verdict.message += " No harm is shown, and the clause asks for no more (require: no_harm).";
}

void apply_bound(const BoundLink* link, const schema::Clause& clause, ClauseVerdict& verdict) {
  const std::string what = subject_text(clause);
  if (link == nullptr || !link->upper || link->status == AssumptionStatus::broken) {
    verdict.method = "bound chain";
    verdict.message =
        fmt::format("The {} has no limit{} that these captures can support", what, on_slice(verdict.where));
    if (link != nullptr && link->status == AssumptionStatus::broken) {
      verdict.message +=
          fmt::format(": it rests on an assumption that the data contradict ({}).", link->assumption);
    } else if (link != nullptr) {
      verdict.message += fmt::format(": {} (link {}, {}).", link->method, link->number, link->name);
    } else {
      verdict.message += ": no link of the chain serves it.";
    }
    return;
  }
  verdict.rule = VerdictRule::bound;
  verdict.method =
      "bound chain link " + std::to_string(link->number) + " (" + link->name + "), " + link->method;
  verdict.approximate = link->approximate;
  verdict.estimate = link->value;
  verdict.upper = link->upper;
  verdict.clusters = link->clusters;
  const double max = clause.limits.max.value_or(0);
  const bool within = *link->upper <= max;
  verdict.verdict = within ? Verdict::pass : Verdict::inconclusive;
  verdict.message = fmt::format(
      "The {}{} is {} at the measured figures and at most {} with {} confidence, {} the max of "
      "{}. It rests on: {} ({}).",
      what, on_slice(verdict.where), figure(link->value.value_or(0)), figure(*link->upper),
      percent(1 - verdict.alpha), within ? "within" : "which is not within", figure(max), link->assumption,
      to_string(link->status));
  if (!within) verdict.message += " A bound that is too wide proves no harm, so this is inconclusive.";
}

}  // namespace driftgate::stages
