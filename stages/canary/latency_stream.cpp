#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stages/canary/canary_streams.hpp"
#include "stages/canary/traffic_rules.hpp"
#include "stages/report/wording.hpp"

namespace driftgate::stages {
namespace {

using schema::ClauseVerdict;
using schema::Verdict;

int rank(const ClauseVerdict& verdict) {
  if (verdict.verdict == Verdict::violated) return 3;
  if (verdict.verdict == Verdict::inconclusive) return 2;
  return verdict.no_harm_only ? 1 : 0;
}

}  // namespace

LatencyStream::LatencyStream(WatchedClause watched_clause, const CanaryLevels& levels, std::uint32_t strata)
    : watched(std::move(watched_clause)), levels_(levels), strata_(strata) {
  const auto& subject = std::get<schema::MetricSubject>(watched.clause.subject);
  if (subject.aggregate) quantile_ = schema::quantile_of(*subject.aggregate);
}

bool LatencyStream::relative() const {
  return watched.clause.limits.max_ratio || watched.clause.limits.max_delta;
}

bool LatencyStream::evaluable(std::uint32_t share_bp) const {
  return !relative() || (share_bp > 0 && share_bp <= kMaxShareBp);
}

schema::Metric LatencyStream::metric() const {
  return std::get<schema::MetricSubject>(watched.clause.subject).metric;
}

void LatencyStream::count_answer(std::uint32_t share_bp) {
  answers_ += evaluable(share_bp) ? 1 : 0;
}

void LatencyStream::observe(const LatencyAnswer& answer) {
  if (!std::isfinite(answer.value)) return;
  if (!evaluable(answer.share_bp)) {
    ++skipped_;
    return;
  }
  if (!answer.candidate) {
    const double share = static_cast<double>(answer.share_bp) / 10'000;
    if (!relative() || answer.uniform >= share / (1 - share)) return;
  }
  Arm& arm = values_[std::min(answer.stratum, strata_ - 1)][answer.candidate ? 1 : 0];
  if (quantile_) {
    arm.quantiles.add(answer.value);
  } else {
    arm.mean.add(answer.value);
  }
  if (answer.keyless) return arm.repeated.observe_keyless();
  arm.repeated.observe(answer.key, QuantileSequence::bin_of(answer.value));
}

void LatencyStream::rearm() {
  ++watched.rearms;
  restart();
}

void LatencyStream::restart() {
  values_.clear();
  skipped_ = answers_ = 0;
}

std::uint64_t LatencyStream::count(const Arm& arm) const {
  return quantile_ ? arm.quantiles.count() : arm.mean.count();
}

std::uint64_t LatencyStream::evidence() const {
  std::uint64_t sum = 0;
  for (const auto& [stratum, arms] : values_) sum += count(arms[0]) + count(arms[1]);
  return sum;
}

/// The excess is of all answers together; of a part of them it is as much smaller as they are.
double LatencyStream::wander_inflation(const Arm& arm) const {
  const auto observed = static_cast<double>(count(arm));
  const auto all = std::max(observed, static_cast<double>(answers_));
  return all > 0 ? wander_.excess * observed / all : 0;
}

double LatencyStream::inflation(const Arm& arm) const {
  const double wander = wander_inflation(arm);
  if (!quantile_) return arm.repeated.inflation_of_mean() + wander;
  return arm.repeated.inflation_of_share(arm.quantiles.bin_of_quantile(*quantile_), 1 - *quantile_) + wander;
}

/// Each arm of each stratum at an equal part of the test's level; two arms share it where both are uncertain.
QuantileLimits LatencyStream::limits(const Arm& arm) const {
  const double level = 1 / levels_.harm_needed(watched) / strata_ / (relative() ? 2 : 1);
  return quantile_ ? arm.quantiles.limits(*quantile_, level, inflation(arm))
                   : arm.mean.limits(level, levels_.planned_keys, inflation(arm));
}

ClauseVerdict LatencyStream::stratum_verdict(std::uint32_t stratum, const std::array<Arm, 2>& arms,
                                             std::uint64_t seed) const {
  ClauseVerdict here = begin_verdict(watched.clause, watched.where, watched.role, levels_.alpha_harm, seed);
  here.n = here.clusters = count(arms[1]);
  apply_latency({limits(arms[1]), limits(arms[0]), count(arms[1]) > 0, count(arms[0]) > 0}, watched.clause,
                here);
  here.details["stratum"] = stratum;
  here.details["inflation_candidate"] = inflation(arms[1]);
  if (relative()) here.details["inflation_incumbent"] = inflation(arms[0]);
  const double wander = wander_inflation(arms[1]);
  if (wander > 0) {
    here.details["wander_inflation"] = wander;
    here.details["wander_s"] = wander_.window_s;
    here.message += fmt::format(
        " The incumbent's latency changes by itself over {} s and more, so that {} answers say as much as {} "
        "would.",
        count_text(static_cast<std::uint64_t>(wander_.window_s)), count_text(here.n),
        count_text(static_cast<std::uint64_t>(static_cast<double>(here.n) / inflation(arms[1]))));
  }
  if (strata_ > 1) here.message += fmt::format(" Prompt-length stratum {} of {}.", stratum + 1, strata_);
  if (!quantile_ && here.n < LogMeanSequence::kLeastLook) {
    here.message +=
        fmt::format(" Nothing is decided before {} answers of each arm.", LogMeanSequence::kLeastLook);
  }
  return here;
}

ClauseVerdict LatencyStream::verdict(std::uint64_t seed) const {
  ClauseVerdict worst = begin_verdict(watched.clause, watched.where, watched.role, levels_.alpha_harm, seed);
  apply_latency({}, watched.clause, worst);
  const bool asks_proof = requirement(watched.clause) == schema::Requirement::proof;
  if (!asks_proof) {
    worst.verdict = Verdict::pass;
    worst.no_harm_only = true;
  }
  bool first = true;
  for (const auto& [stratum, arms] : values_) {
    const bool known = count(arms[1]) > 0 && (!relative() || count(arms[0]) > 0);
    if (!known && !asks_proof) continue;
    ClauseVerdict here = stratum_verdict(stratum, arms, seed);
    if (first || rank(here) > rank(worst)) worst = std::move(here);
    first = false;
  }
  worst.method = quantile_ ? "quantile confidence sequence of each arm, by prompt length"
                           : "asymptotic confidence sequence of each arm's geometric mean, by prompt length";
  const auto repeats = [&worst](const char* name) {
    const auto found = worst.details.find(name);
    return found != worst.details.end() && found->second > 1;
  };
  worst.approximate = !quantile_ || repeats("inflation_candidate") || repeats("inflation_incumbent");
  if (skipped_ > 0) {
    worst.details["not_evaluable"] = static_cast<double>(skipped_);
    worst.message += fmt::format(
        " {} requests came while the candidate had over half of the traffic: no baseline of equal size "
        "exists "
        "there, so they are not evaluable.",
        count_text(skipped_));
  }
  return worst;
}

bool LatencyStream::clean() const {
  const ClauseVerdict now = verdict(0);
  return now.verdict != Verdict::violated && now.estimate && now.threshold && *now.estimate <= *now.threshold;
}

}  // namespace driftgate::stages
