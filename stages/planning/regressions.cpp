#include "stages/planning/regressions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "schema/contract/least_n.hpp"
#include "stages/canary/traffic_rules.hpp"
#include "stages/planning/canary_regressions.hpp"
#include "stages/planning/clause_world.hpp"
#include "stages/planning/regression_search.hpp"
#include "stages/planning/simulated_traffic.hpp"
#include "stages/shadow_needs.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/log_mean_sequence.hpp"
#include "stages/statistics/paired.hpp"
#include "stages/statistics/quantiles.hpp"

namespace driftgate::stages {
namespace {

using schema::Clause;
using schema::Contract;
using schema::Stage;

constexpr std::uint64_t kMoreUnits = 4;
/// Where a stage waits for hardly any pairs, and where no number of units proves the clause.
constexpr std::uint64_t kLeastUnits = 100;

/// A test of a fixed number of units that finds a regression of `truth`, or not.
using FixedRun = std::function<bool(double truth, std::uint64_t n, Random& random)>;

void search(const FixedRun& run, const std::vector<double>& figures, std::uint64_t n, std::uint64_t seed,
            SmallestRegression& into) {
  for (const std::uint64_t units : {n, kMoreUnits * n}) {
    if (units > kMostSimulatedUnits) continue;
    const auto once = [&](double truth, Random& random) -> std::size_t {
      return run(truth, units, random) ? 0 : 1;
    };
    into.found.push_back({units, smallest_found(figures, 1, once, seed).front()});
  }
  if (into.found.empty())
    into.why_not = fmt::format("it needs more than the {} units that are simulated at most",
                               count_text(kMostSimulatedUnits));
}

/// A clause on captures, or on what mirrored requests are asked again.
void fixed_regression(const Clause& clause, const Contract& contract, std::uint64_t n, std::uint64_t seed,
                      SmallestRegression& into) {
  const ClauseWorld world = clause_world(clause, contract, into.alpha, seed);
  into.why_not = world.why_not;
  into.always = world.what_fails;
  if (!world.proves) return;
  into.figure = world.figure;
  if (!world.data.empty()) into.assumes = {world.data};
  into.in = world.is_share ? RegressionUnit::share : RegressionUnit::own;
  const auto exceeds = [&](double truth, std::uint64_t units, Random& random) {
    return world.proves(Shown::exceeded, truth, units, random);
  };
  search(exceeds, regressions_from(world.at_limit, world.most, kRateStep), n, seed, into);
  for (FoundRegression& found : into.found) {
    if (found.figure) found.figure = world.offset + world.scale * *found.figure;
  }
}

std::uint64_t failures(double rate, std::uint64_t n, Random& random) {
  std::uint64_t failed = 0;
  for (std::uint64_t i = 0; i < n; ++i) failed += random.uniform() < rate ? 1 : 0;
  return failed;
}

/// Mirrored requests: the candidate fails so many times as often as the incumbent.
void pair_ratio_regression(const Clause& clause, std::uint64_t n, std::uint64_t seed,
                           SmallestRegression& into) {
  const double ratio = *clause.limits.max_ratio;
  const double base = kAssumedFailureRate;
  into.in = RegressionUnit::times;
  into.figure = "failure rate";
  into.assumes = {assumed_failure_rate()};
  const FixedRun exceeds = [&](double truth, std::uint64_t units, Random& random) {
    const double high = clopper_pearson_upper(failures(base, units, random), units, into.alpha / 2);
    const std::uint64_t failed = failures(std::min(1.0, truth * base), units, random);
    return clopper_pearson_lower(failed, units, into.alpha / 2) > ratio * high;
  };
  search(exceeds, regressions_from(ratio, 1 / base, kRateStep), n, seed, into);
}

/// Mirrored requests: a quantile, or the geometric mean, of a latency.
void pair_latency_regression(const Clause& clause, std::uint64_t n, std::uint64_t seed,
                             SmallestRegression& into) {
  const auto& subject = std::get<schema::MetricSubject>(clause.subject);
  const auto q = subject.aggregate ? schema::quantile_of(*subject.aggregate) : std::nullopt;
  const bool relative = clause.limits.max_ratio.has_value();
  const double level = relative ? into.alpha / 2 : into.alpha;
  const auto limits = [&](double truth, std::uint64_t units, Random& random) {
    std::vector<double> values(units);
    for (double& value : values) value = truth * simulated_latency(q, random);
    std::ranges::sort(values);
    return q ? order_statistic_limits(values, *q, level) : log_mean_limits(values, level);
  };
  into.in = relative ? RegressionUnit::times : RegressionUnit::own;
  into.figure = latency_figure(clause);
  into.assumes = {assumed_latencies()};
  const double limit = relative ? *clause.limits.max_ratio : *clause.limits.max;
  const FixedRun exceeds = [&](double truth, std::uint64_t units, Random& random) {
    const double incumbent = relative ? limits(1, units, random).upper : 1;
    return limits(truth, units, random).lower > limit * incumbent;
  };
  search(exceeds, regressions_from(limit, kMostSlower * limit, kLatencyStep), n, seed, into);
}

/// Mirrored requests: the candidate's failure rate is so much over the incumbent's.
void pair_delta_regression(const Clause& clause, std::uint64_t n, std::uint64_t seed,
                           SmallestRegression& into) {
  const double delta = *clause.limits.max_delta;
  into.in = RegressionUnit::share;
  into.figure = "failure rate above the incumbent's";
  into.assumes = {assumed_failure_rate()};
  const FixedRun exceeds = [&](double truth, std::uint64_t units, Random& random) {
    std::vector<PairedOutcome> outcomes(units);
    for (std::uint64_t i = 0; i < units; ++i) {
      const bool incumbent_ok = random.uniform() >= kAssumedFailureRate;
      outcomes[i] = {incumbent_ok, random.uniform() >= kAssumedFailureRate + truth, i};
    }
    return paired_outcomes(outcomes, delta, into.alpha, seed).p_low <= into.alpha;
  };
  search(exceeds, regressions_from(delta, 1 - kAssumedFailureRate, kRateStep), n, seed, into);
}

void traffic_regression(const Clause& clause, const Contract& contract, std::uint64_t n, std::uint64_t seed,
                        SmallestRegression& into) {
  const auto& subject = std::get<schema::MetricSubject>(clause.subject);
  const bool rate = subject.metric == schema::Metric::error_rate;
  if (!rate && clause.limits.max_delta) {
    into.why_not = kNoIncumbentLatency;
  } else if (!rate) {
    pair_latency_regression(clause, n, seed, into);
  } else if (clause.limits.max_delta) {
    pair_delta_regression(clause, n, seed, into);
  } else if (clause.limits.max_ratio) {
    pair_ratio_regression(clause, n, seed, into);
  } else {
    fixed_regression(clause, contract, n, seed, into);
  }
}

/// The pairs of all traffic that shadow-runtime waits for.
std::uint64_t planned_pairs(const Contract& contract, const schema::Runs& runs) {
  return std::max(shadow_needs(contract, runs.of(Stage::shadow_runtime)).front().pairs,
                  pairs_asked_for(contract));
}

/// The units at which a clause of fixed data is looked at. What passes unless it is violated needs none, and
/// gets those that the stage waits for.
std::uint64_t exposure_of(const Clause& clause, const Contract& contract, const schema::Runs& runs,
                          const std::vector<ClausePower>& powers, const schema::LeastN& least) {
  const Stage stage = least.stage;
  const auto power = std::ranges::find_if(powers, [&](const ClausePower& item) {
    return item.clause == clause.address() && item.stage == stage;
  });
  if (power != powers.end() && power->n) return *power->n;
  if (!least.n) return kLeastUnits;
  if (stage != Stage::shadow_runtime) return *least.n;
  return std::max({*least.n, planned_pairs(contract, runs), kLeastUnits});
}

void add_fixed(const Clause& clause, const Contract& contract, const schema::LeastN& least, std::uint64_t n,
               std::uint64_t seed, std::vector<SmallestRegression>& all) {
  const auto* subject = std::get_if<schema::MetricSubject>(&clause.subject);
  const bool traffic =
      subject != nullptr && schema::info(subject->metric).group == schema::MetricGroup::traffic;
  for (const Clause& part : traffic ? one_per_limit(clause) : std::vector{clause}) {
    SmallestRegression regression;
    regression.clause = clause.address();
    regression.stage = least.stage;
    regression.limit = limit_name(part);
    regression.unit = least.unit;
    regression.alpha = least.alpha;
    if (traffic) {
      traffic_regression(part, contract, n, seed, regression);
    } else {
      fixed_regression(part, contract, n, seed, regression);
    }
    all.push_back(std::move(regression));
  }
}

}  // namespace

std::string_view limit_name(const Clause& clause) {
  const schema::Limits& limits = clause.limits;
  if (limits.max_ratio) return "max_ratio";
  if (limits.max_delta) return "max_delta";
  if (limits.max) return "max";
  if (limits.min) return "min";
  if (limits.non_inferiority_margin) return "non_inferiority_margin";
  return std::holds_alternative<schema::ExactSubject>(clause.subject) ? "equal" : "min_coverage";
}

std::vector<SmallestRegression> smallest_regressions(const Contract& contract,
                                                     const std::vector<ClausePower>& powers,
                                                     std::uint64_t seed, const schema::Runs& runs,
                                                     double requests_per_second) {
  std::vector<SmallestRegression> all;
  auto canary = canary_regressions(contract, seed, runs.of(Stage::canary), requests_per_second);
  for (const Clause& clause : contract.clauses) {
    for (const schema::LeastN& least : schema::least_n(clause, contract, runs)) {
      if (least.counted || least.stage == Stage::canary) continue;
      add_fixed(clause, contract, least, exposure_of(clause, contract, runs, powers, least), seed, all);
    }
    for (SmallestRegression& regression : canary) {
      if (regression.clause == clause.address()) all.push_back(std::move(regression));
    }
  }
  return all;
}

}  // namespace driftgate::stages
