#include "stages/canary/traffic_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "stages/report/wording.hpp"

namespace driftgate::stages {

using schema::Metric;
using schema::Verdict;

std::optional<Metric> traffic_metric(const schema::Clause& clause) {
  if (const auto* metric = std::get_if<schema::MetricSubject>(&clause.subject)) return metric->metric;
  if (const auto* signal = std::get_if<schema::SignalSubject>(&clause.subject)) return signal->signal;
  return std::nullopt;
}

bool is_latency(Metric metric) {
  return metric == Metric::ttft_ms || metric == Metric::inter_token_ms || metric == Metric::total_ms;
}

double latency_value(Metric metric, const Latencies& latencies) {
  switch (metric) {
    case Metric::ttft_ms:
      return latencies.ttft_ms;
    case Metric::inter_token_ms:
      return latencies.inter_token_ms;
    case Metric::total_ms:
      return latencies.total_ms;
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

schema::Requirement requirement(const schema::Clause& clause) {
  if (clause.require) return *clause.require;
  const auto metric = traffic_metric(clause);
  return metric && is_latency(*metric) ? schema::Requirement::no_harm : schema::Requirement::proof;
}

std::vector<schema::Clause> one_per_limit(const schema::Clause& clause) {
  if (!clause.limits.max || !clause.limits.max_ratio) return {clause};
  std::vector<schema::Clause> both{clause, clause};
  both[0].limits.max_ratio.reset();
  both[1].limits.max.reset();
  return both;
}

double latency_threshold(const schema::Limits& limits, double incumbent) {
  if (limits.max_delta) return incumbent + *limits.max_delta;
  if (limits.max_ratio) return incumbent * *limits.max_ratio;
  return limits.max.value_or(0);
}

void apply_latency(const LatencyEvidence& evidence, const schema::Clause& clause,
                   schema::ClauseVerdict& verdict) {
  const schema::Limits& limits = clause.limits;
  const bool relative = limits.max_ratio || limits.max_delta;
  const double limit = limits.max_delta.value_or(limits.max_ratio.value_or(limits.max.value_or(0)));
  const QuantileLimits& cand = evidence.candidate;
  const QuantileLimits& inc = evidence.incumbent;
  verdict.limit_kind = limits.max_delta ? "max_delta" : (relative ? "max_ratio" : "max");
  verdict.threshold = limit;
  verdict.rule = schema::VerdictRule::arm_limits;
  if (!evidence.candidate_known || (relative && !evidence.incumbent_known)) {
    verdict.message = fmt::format("{}: no answer of {} has a value yet.", subject_text(clause),
                                  evidence.candidate_known ? "the incumbent" : "the candidate");
    return;
  }
  const double harm_line = latency_threshold(limits, inc.upper);
  const double proof_line = latency_threshold(limits, inc.lower);
  verdict.details["candidate_lower"] = cand.lower;
  verdict.details["candidate_upper"] = cand.upper;
  verdict.details["candidate"] = cand.estimate;
  verdict.estimate = cand.estimate;
  std::string against = fmt::format("against a max of {} ms", figure(limit));
  if (relative) {
    verdict.details["incumbent_lower"] = inc.lower;
    verdict.details["incumbent_upper"] = inc.upper;
    verdict.details["incumbent"] = inc.estimate;
    verdict.estimate = limits.max_delta ? cand.estimate - inc.estimate : cand.estimate / inc.estimate;
    against = fmt::format("and the incumbent's {} ms ({} to {}), a {} of {} against a {} of {}",
                          figure(inc.estimate), figure(inc.lower), figure(inc.upper),
                          limits.max_delta ? "difference" : "ratio", figure(*verdict.estimate),
                          verdict.limit_kind, figure(limit));
  }
  const std::string start =
      fmt::format("{}: the candidate's is {} ms ({} to {}) {}", subject_text(clause), figure(cand.estimate),
                  figure(cand.lower), figure(cand.upper), against);
  if (cand.lower > harm_line) {
    verdict.verdict = Verdict::violated;
    verdict.message = start + ": slower beyond the limits of chance.";
  } else if (cand.upper <= proof_line) {
    verdict.verdict = Verdict::pass;
    verdict.message = start + ": proven within the limit.";
  } else if (requirement(clause) == schema::Requirement::no_harm) {
    verdict.verdict = Verdict::pass;
    verdict.no_harm_only = true;
    verdict.message = start + ": no harm shown; being within the limit is not proven and not asked for.";
  } else {
    verdict.message = start + ": these data cannot decide; more requests are needed.";
  }
}

namespace {

schema::ClauseVerdict decide_coverage(const schema::Clause& clause, const SignalFigures& figures,
                                      schema::ClauseVerdict verdict) {
  const double needed = clause.limits.min_coverage.value_or(0);
  const std::uint64_t wanted = *figures.logprobs_wanted;
  const std::uint64_t had = figures.with_logprobs.value_or(0);
  verdict.limit_kind = "min_coverage";
  verdict.threshold = needed;
  verdict.n = wanted;
  if (wanted == 0)
    return error_verdict(std::move(verdict),
                         figures.no_logprobs.empty()
                             ? "Log-probabilities were asked of no request, so coverage is unknown."
                             : fmt::format("Coverage is unknown: {}.", figures.no_logprobs));
  const double share = static_cast<double>(had) / static_cast<double>(wanted);
  verdict.rule = schema::VerdictRule::share_at_least;
  verdict.estimate = share;
  verdict.verdict = share >= needed ? Verdict::pass : Verdict::violated;
  verdict.message = fmt::format("{} of {} requests came with log-probabilities ({}); {} are asked for.",
                                count_text(had), count_text(wanted), percent(share), percent(needed));
  return verdict;
}

}  // namespace

std::optional<schema::ClauseVerdict> decide_signal(const schema::Clause& clause, const SignalFigures& figures,
                                                   double alpha) {
  schema::ClauseVerdict verdict = begin_verdict(clause, {}, schema::SliceRole::corpus, alpha, 0);
  verdict.method = "count";
  const auto metric = traffic_metric(clause);
  if (metric == Metric::logprobs) {
    if (!figures.logprobs_wanted) return std::nullopt;
    return decide_coverage(clause, figures, std::move(verdict));
  }
  if (metric == Metric::shadow_pairs) {
    if (!figures.pairs) return std::nullopt;
    const std::uint64_t needed = clause.limits.min_count.value_or(0);
    verdict.rule = schema::VerdictRule::count_at_least;
    verdict.limit_kind = "min_count";
    verdict.threshold = static_cast<double>(needed);
    verdict.n = *figures.pairs;
    verdict.estimate = static_cast<double>(*figures.pairs);
    const bool enough = *figures.pairs >= needed;
    // Too few pairs ask for more traffic: that is not harm.
    verdict.verdict = enough ? Verdict::pass : Verdict::inconclusive;
    verdict.message =
        fmt::format("{} pairs were joined and {} are asked for{}", count_text(*figures.pairs),
                    count_text(needed), enough ? "." : ": let the stage run longer or mirror more.");
    return verdict;
  }
  verdict.rule = schema::VerdictRule::age_at_most;
  verdict.limit_kind = "max_staleness";
  const std::int64_t most = clause.limits.max_staleness_ms.value_or(0);
  verdict.threshold = static_cast<double>(most);
  verdict.estimate = static_cast<double>(figures.telemetry_age_ms);
  verdict.verdict = figures.telemetry_age_ms <= most ? Verdict::pass : Verdict::error;
  verdict.message =
      fmt::format("The newest telemetry is {} ms old; at most {} ms are allowed.",
                  count_text(static_cast<std::uint64_t>(std::max<std::int64_t>(0, figures.telemetry_age_ms))),
                  count_text(static_cast<std::uint64_t>(most)));
  return verdict;
}

}  // namespace driftgate::stages
