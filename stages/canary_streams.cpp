#include "stages/canary_streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stages/traffic_rules.hpp"
#include "stages/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Verdict;

/// Fresh processes after a trip clear it only while they see no sign of harm.
constexpr double kClearEValue = 1.0;

template <typename Process, typename Value>
double mean_over_starts(const std::vector<Process>& processes, std::uint32_t starts, Value value) {
  double sum = 0;
  for (const Process& process : processes) sum += value(process);
  const auto open = static_cast<double>(processes.size());
  return (sum + static_cast<double>(starts) - open) / static_cast<double>(starts);
}

}  // namespace

double StreamHead::level_factor() const {
  return std::ldexp(1.0, -static_cast<int>(std::min(rearms, 1000U)));
}

bool StreamHead::made(const ClauseVerdict& verdict) const {
  const bool stated = (verdict.limit_kind == "max" && clause.limits.max) ||
                      (verdict.limit_kind == "max_ratio" && clause.limits.max_ratio);
  return stated && verdict.clause == clause.address() && verdict.where == where;
}

void RateStream::open(std::uint32_t started) {
  const std::size_t count = head.rearms > 0 ? 1 : std::min(started, starts_);
  const schema::Limits& limits = head.clause.limits;
  while (limits.max && rate_.size() < count) rate_.emplace_back(*limits.max);
  while (limits.max_ratio && label_.size() < count) label_.emplace_back(*limits.max_ratio);
}

void RateStream::rearm() {
  ++head.rearms;
  starts_ = 1;
  rate_.clear();
  label_.clear();
  open(1);
}

void RateStream::observe_key(bool failed) {
  for (FailureRateProcess& process : rate_) process.update(failed);
  ++keys_;
  failed_keys_ += static_cast<std::uint64_t>(failed);
}

void RateStream::observe_failure(bool candidate, double share) {
  bool evaluable = false;
  for (LabelProcess& process : label_) evaluable = process.update(candidate, share) || evaluable;
  ++(evaluable || label_.empty() ? failures_seen_ : failures_skipped_);
}

double RateStream::e_proof() const {
  return mean_over_starts(rate_, starts_, [](const FailureRateProcess& p) { return p.e_proof(); });
}
double RateStream::e_harm() const {
  return mean_over_starts(rate_, starts_, [](const FailureRateProcess& p) { return p.e_harm(); });
}
double RateStream::e_label() const {
  return mean_over_starts(label_, starts_, [](const LabelProcess& p) { return p.e_value(); });
}

std::uint32_t RateStream::tests() const {
  return static_cast<std::uint32_t>(head.clause.limits.max.has_value()) +
         static_cast<std::uint32_t>(head.clause.limits.max_ratio.has_value());
}

bool RateStream::clean() const {
  return e_harm() <= kClearEValue && e_label() <= kClearEValue;
}

ClauseVerdict RateStream::max_verdict(const CanaryLevels& levels, std::uint64_t seed) const {
  const double harm_at = levels.tests / (levels.alpha_harm * head.level_factor());
  const double proof_at = 1 / (levels.alpha_advance * head.level_factor());
  ClauseVerdict verdict = begin_verdict(head.clause, head.where, head.role, levels.alpha_harm, seed);
  const double max = *head.clause.limits.max;
  verdict.limit_kind = "max";
  verdict.threshold = max;
  verdict.method = "betting on the first request of each key, caps 0.5 and 0.99";
  verdict.n = verdict.clusters = keys_;
  if (keys_ > 0) verdict.estimate = static_cast<double>(failed_keys_) / static_cast<double>(keys_);
  verdict.rule = schema::VerdictRule::e_value;
  verdict.e_value = e_harm();
  verdict.details["e_proof"] = e_proof();
  verdict.details["e_proof_needed"] = proof_at;
  verdict.details["e_harm_needed"] = harm_at;
  verdict.details["alpha_advance"] = levels.alpha_advance * head.level_factor();
  verdict.details["failed_keys"] = static_cast<double>(failed_keys_);
  const std::string start =
      fmt::format("the candidate failed the first request of {} of {} keys{} ({})", count_text(failed_keys_),
                  count_text(keys_), on_slice(head.where), percent(verdict.estimate.value_or(0)));
  if (*verdict.e_value >= harm_at) {
    verdict.verdict = Verdict::violated;
    const bool lately = verdict.estimate.value_or(1) <= max;
    verdict.message = fmt::format("{}: e-value {} reaches {}, so its rate is over the max of {}{}.", start,
                                  figure(*verdict.e_value), figure(harm_at), percent(max),
                                  lately ? ", if not from the beginning then since a later step began" : "");
  } else if (e_proof() >= proof_at) {
    verdict.verdict = Verdict::pass;
    verdict.message = fmt::format("{}: proof e-value {} reaches {}, so its rate is under the max of {}.",
                                  start, figure(e_proof()), figure(proof_at), percent(max));
  } else if (requirement(head.clause) == schema::Requirement::no_harm) {
    verdict.verdict = Verdict::pass;
    verdict.no_harm_only = true;
    verdict.message = start + ": no harm shown, and no proof is asked for.";
  } else {
    verdict.message = fmt::format(
        "{}: proof e-value {} of {} needed against the max of {}, harm e-value {} of {}. "
        "Without a further failure more keys will decide.",
        start, figure(e_proof()), figure(proof_at), percent(max), figure(*verdict.e_value), figure(harm_at));
  }
  return verdict;
}

ClauseVerdict RateStream::ratio_verdict(const CanaryLevels& levels, std::uint64_t seed) const {
  const double harm_at = levels.tests / (levels.alpha_harm * head.level_factor());
  ClauseVerdict verdict = begin_verdict(head.clause, head.where, head.role, levels.alpha_harm, seed);
  const double ratio = *head.clause.limits.max_ratio;
  verdict.limit_kind = "max_ratio";
  verdict.threshold = ratio;
  verdict.method = "label e-process on the first failure of each key, 16 alternatives";
  const LabelProcess* longest = label_.empty() ? nullptr : label_.data();
  verdict.n = verdict.clusters = longest != nullptr ? longest->failures() : 0;
  const std::uint64_t candidate = longest != nullptr ? longest->candidate_failures() : 0;
  verdict.rule = schema::VerdictRule::e_value;
  verdict.e_value = e_label();
  verdict.details["e_harm_needed"] = harm_at;
  verdict.details["candidate_failures"] = static_cast<double>(candidate);
  verdict.details["not_evaluable_failures"] = static_cast<double>(failures_skipped_);
  const std::string start =
      fmt::format("of {} keys that failed{} the candidate served {}; e-value {} of {}", count_text(verdict.n),
                  on_slice(head.where), count_text(candidate), figure(*verdict.e_value), figure(harm_at));
  if (*verdict.e_value >= harm_at) {
    verdict.verdict = Verdict::violated;
    verdict.message =
        fmt::format("{}: it fails over {} times as often as the incumbent.", start, figure(ratio));
    return verdict;
  }
  verdict.verdict = Verdict::pass;
  verdict.no_harm_only = true;
  verdict.message = start + ": no harm against the incumbent is shown.";
  if (failures_skipped_ > 0) {
    verdict.message += fmt::format(
        " {} failures came while the incumbent had under 5% of traffic and are not evaluable "
        "as a ratio: the max decides there.",
        count_text(failures_skipped_));
  }
  return verdict;
}

void RateStream::verdicts(const CanaryLevels& levels, std::uint64_t seed,
                          std::vector<ClauseVerdict>& out) const {
  if (head.clause.limits.max) out.push_back(max_verdict(levels, seed));
  if (head.clause.limits.max_ratio) out.push_back(ratio_verdict(levels, seed));
}

void LatencyStream::observe(bool candidate, double value, std::uint32_t share_bp, std::uint32_t stratum,
                            double key_uniform) {
  if (!std::isfinite(value)) return;
  const bool relative = head.clause.limits.max_ratio.has_value();
  if (relative && (share_bp == 0 || share_bp > kMaxShareBp)) return;
  if (!candidate) {
    const double share = static_cast<double>(share_bp) / 10'000;
    if (!relative || key_uniform >= share / (1 - share)) return;
  }
  values_[std::min(stratum, strata_ - 1)][candidate ? 1 : 0].add(value);
}

void LatencyStream::rearm() {
  ++head.rearms;
  values_.clear();
}

std::uint64_t LatencyStream::evidence() const {
  std::uint64_t count = 0;
  for (const auto& [stratum, arms] : values_) count += arms[0].count() + arms[1].count();
  return count;
}

ClauseVerdict LatencyStream::verdict(const CanaryLevels& levels, std::uint64_t seed) const {
  const bool relative = head.clause.limits.max_ratio.has_value();
  const auto& subject = std::get<schema::MetricSubject>(head.clause.subject);
  const double quantile = schema::quantile_of(*subject.aggregate).value_or(0.5);
  const double level = levels.alpha_harm * head.level_factor() / levels.tests / strata_ / (relative ? 2 : 1);
  ClauseVerdict worst = begin_verdict(head.clause, head.where, head.role, levels.alpha_harm, seed);
  apply_latency({}, head.clause, worst);
  const bool asks_proof = requirement(head.clause) == schema::Requirement::proof;
  if (!asks_proof) {
    worst.verdict = Verdict::pass;
    worst.no_harm_only = true;
  }
  const auto rank = [](const ClauseVerdict& v) {
    return v.verdict == Verdict::violated       ? 3
           : v.verdict == Verdict::inconclusive ? 2
           : v.no_harm_only                     ? 1
                                                : 0;
  };
  bool first = true;
  for (const auto& [stratum, arms] : values_) {
    ClauseVerdict here = begin_verdict(head.clause, head.where, head.role, levels.alpha_harm, seed);
    here.n = here.clusters = arms[1].count();
    const LatencyEvidence evidence{arms[1].limits(quantile, level), arms[0].limits(quantile, level),
                                   arms[1].count() > 0, arms[0].count() > 0};
    apply_latency(evidence, head.clause, here);
    here.details["stratum"] = stratum;
    if (strata_ > 1) here.message += fmt::format(" Prompt-length stratum {} of {}.", stratum + 1, strata_);
    const bool known = evidence.candidate_known && (!relative || evidence.incumbent_known);
    if (!known && !asks_proof) continue;
    if (first || rank(here) > rank(worst)) worst = std::move(here);
    first = false;
  }
  worst.method = "quantile confidence sequence of each arm, by prompt length";
  return worst;
}

bool LatencyStream::clean(const CanaryLevels& levels) const {
  const ClauseVerdict now = verdict(levels, 0);
  return now.verdict != Verdict::violated && now.estimate && now.threshold && *now.estimate <= *now.threshold;
}

}  // namespace driftgate::stages
