#include "stages/planning/canary_regressions.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stages/canary/canary.hpp"
#include "stages/canary/canary_scopes.hpp"
#include "stages/canary/canary_streams.hpp"
#include "stages/canary/traffic_rules.hpp"
#include "stages/planning/regression_search.hpp"
#include "stages/planning/simulated_traffic.hpp"

namespace driftgate::stages {
namespace {

using schema::Clause;
using schema::Contract;

constexpr double kMostKeys = 20'000;  ///< of a step, however fast the traffic is

/// What the candidate serves of the tested traffic in one step.
struct Step {
  double share = 0;  ///< of the candidate
  std::uint64_t keys = 0;
};

struct Ramp {
  const Contract& contract;
  CanaryScopes scopes;
  CanaryLevels levels;
  std::uint32_t prompt_strata = 1;
  double requests_per_second = 0;
  std::uint64_t seed = 0;

  [[nodiscard]] std::vector<Step> steps(double slice_share) const;
  [[nodiscard]] std::uint32_t starts() const {
    return static_cast<std::uint32_t>(contract.canary->steps.size()) + 1;
  }
};

std::vector<Step> Ramp::steps(double slice_share) const {
  const schema::CanaryPlan& plan = *contract.canary;
  std::vector<Step> steps;
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const double share = share_of_step(plan, i) / 10'000.0;
    const double in_soak = requests_per_second * share * static_cast<double>(plan.soak_ms) / 1'000;
    double keys = std::max(static_cast<double>(plan.min_keys), in_soak);
    if (plan.max_exposure) keys = std::min(keys, static_cast<double>(*plan.max_exposure));
    keys = std::min(keys, kMostKeys);
    steps.push_back({share, static_cast<std::uint64_t>(std::ceil(slice_share * keys))});
  }
  return steps;
}

/// Walks through the steps until `serve(stream, step, needed)` says that a step's traffic has shown harm.
template <typename Serve>
std::size_t run_rate(const Ramp& ramp, const WatchedClause& watched, const std::vector<Step>& steps,
                     Serve serve) {
  RateStream stream(watched, ramp.levels, ramp.starts());
  const double needed = ramp.levels.harm_needed(watched);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    stream.open(static_cast<std::uint32_t>(i) + 1);
    if (serve(stream, steps[i], needed)) return i;
  }
  return steps.size();
}

/// The candidate's first failures and the incumbent's, in the order in which they come: the processes of a
/// ratio see nothing else. The test over blocks of time, which needs more time than keys, is left out.
std::size_t run_ratio(const Ramp& ramp, const WatchedClause& watched, const std::vector<Step>& steps,
                      double times, Random& random) {
  const double part = ratio_parts({}, *watched.clause.limits.max_ratio).label;
  return run_rate(ramp, watched, steps, [&](RateStream& stream, const Step& step, double needed) {
    const double candidate = std::min(1.0, times * kAssumedFailureRate);
    const double incumbent = kAssumedFailureRate * (1 - step.share) / step.share;
    const double all = candidate + incumbent;  // failures for each key that the candidate serves
    for (double keys = 0;;) {
      keys -= std::log1p(-random.uniform()) / all;
      if (keys > static_cast<double>(step.keys)) return false;
      stream.observe_failure(random.uniform() * all < candidate, step.share);
      if (part * stream.e_label() >= needed) return true;
    }
  });
}

std::size_t run_max(const Ramp& ramp, const WatchedClause& watched, const std::vector<Step>& steps,
                    double rate, Random& random) {
  return run_rate(ramp, watched, steps, [&](RateStream& stream, const Step& step, double needed) {
    for (std::uint64_t key = 0; key < step.keys; ++key) {
      const bool failed = random.uniform() < rate;
      stream.observe_key(failed);
      if (failed && stream.e_harm() >= needed) return true;
    }
    return false;
  });
}

std::size_t run_delta(const Ramp& ramp, const WatchedClause& watched, const std::vector<Step>& steps,
                      double difference, Random& random) {
  return run_rate(ramp, watched, steps, [&](RateStream& stream, const Step& step, double needed) {
    for (std::uint64_t served = 0; served < step.keys;) {
      const bool candidate = random.uniform() < step.share;
      const bool failed = random.uniform() < kAssumedFailureRate + (candidate ? difference : 0);
      served += candidate ? 1 : 0;
      stream.observe_first(candidate, failed, step.share);
      if (failed && candidate && stream.e_delta_harm() >= needed) return true;
    }
    return false;
  });
}

/// `truth` is the candidate's quantile or mean in ms for a `max`, and in multiples of the incumbent's else.
std::size_t run_latency(const Ramp& ramp, const WatchedClause& watched, const std::vector<Step>& steps,
                        double truth, Random& random) {
  LatencyStream stream(watched, ramp.levels, ramp.prompt_strata);
  const auto& subject = std::get<schema::MetricSubject>(watched.clause.subject);
  const auto quantile = subject.aggregate ? schema::quantile_of(*subject.aggregate) : std::nullopt;
  const bool relative = watched.clause.limits.max_ratio.has_value();
  constexpr double kIncumbentMs = 100;
  std::uint64_t key = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    LatencyAnswer answer;
    answer.keyless = true;
    answer.share_bp = static_cast<std::uint32_t>(std::lround(10'000 * steps[i].share));
    for (std::uint64_t served = 0; served < steps[i].keys; ++served) {
      answer.stratum = static_cast<std::uint32_t>(key++ % ramp.prompt_strata);
      answer.candidate = true;
      answer.value = truth * (relative ? kIncumbentMs : 1) * simulated_latency(quantile, random);
      stream.observe(answer);
      if (!relative) continue;
      answer.candidate = false;
      answer.value = kIncumbentMs * simulated_latency(quantile, random);
      stream.observe(answer);  // `uniform` is 0: one of the incumbent's answers for each of the candidate's
    }
    if (stream.verdict(0).verdict == schema::Verdict::violated) return i;
  }
  return steps.size();
}

/// How one limit of a clause is simulated: the run, the figures that are tried, and what they are.
struct Simulation {
  std::size_t (*run)(const Ramp&, const WatchedClause&, const std::vector<Step>&, double, Random&);
  std::vector<double> figures;
  RegressionUnit in = RegressionUnit::share;
  std::string figure;
  std::vector<std::string> assumes;
};

Simulation simulation_of_rate(const schema::Limits& limits) {
  if (limits.max_ratio) {
    return {run_ratio,
            regressions_from(*limits.max_ratio, 1 / kAssumedFailureRate, kRateStep),
            RegressionUnit::times,
            "failure rate",
            {assumed_failure_rate(), "failures that neither cluster in time nor swing"}};
  }
  if (limits.max_delta) {
    return {run_delta,
            regressions_from(*limits.max_delta, 1 - kAssumedFailureRate, kRateStep),
            RegressionUnit::share,
            "failure rate above the incumbent's",
            {assumed_failure_rate()}};
  }
  return {run_max,
          regressions_from(limits.max.value_or(1), 1, kRateStep),
          RegressionUnit::share,
          "failure rate",
          {"keys that fail independently"}};
}

Simulation simulation_of_latency(const Clause& clause) {
  const schema::Limits& limits = clause.limits;
  const double limit = limits.max_ratio.value_or(limits.max.value_or(0));
  return {run_latency,
          regressions_from(limit, kMostSlower * limit, kLatencyStep),
          limits.max_ratio ? RegressionUnit::times : RegressionUnit::own,
          latency_figure(clause),
          {assumed_latencies()}};
}

/// One limit of a clause as the canary tests it on all traffic or on a slice.
SmallestRegression regression_of(const Ramp& ramp, const WatchedClause& watched, double slice_share) {
  const Clause& clause = watched.clause;
  const schema::Limits& limits = clause.limits;
  const bool rate = *traffic_metric(clause) == schema::Metric::error_rate;
  SmallestRegression into;
  into.clause = clause.address();
  into.stage = schema::Stage::canary;
  into.limit = limit_name(clause);
  into.slice_share = slice_share;
  into.unit = "sticky keys";
  into.alpha = ramp.levels.alpha_harm;
  if (!rate && limits.max_delta) {
    into.why_not = kNoIncumbentLatency;
    return into;
  }
  const Simulation simulation = rate ? simulation_of_rate(limits) : simulation_of_latency(clause);
  into.in = simulation.in;
  into.figure = simulation.figure;
  into.assumes = simulation.assumes;
  const auto steps = ramp.steps(slice_share);
  const auto run = [&](double truth, Random& random) {
    return simulation.run(ramp, watched, steps, truth, random);
  };
  const auto smallest = smallest_found(simulation.figures, steps.size(), run, ramp.seed);
  std::uint64_t exposure = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    exposure += steps[i].keys;
    into.found.push_back({exposure, smallest[i]});
  }
  return into;
}

/// A place for a slice, whose name no test depends on.
schema::SliceWhere any_slice() {
  return {{"slice", "any"}};
}

}  // namespace

std::vector<SmallestRegression> canary_regressions(const Contract& contract, std::uint64_t seed,
                                                   std::uint32_t k, double requests_per_second) {
  std::vector<SmallestRegression> all;
  if (!contract.canary || contract.canary->steps.empty()) return all;
  auto scopes = canary_scopes(contract);
  if (!scopes) return all;
  const auto levels = canary_levels(contract, *scopes, k, 1'000 * block_ms(*contract.canary, {}));
  const Ramp ramp{contract, std::move(*scopes), levels, prompt_strata(contract), requests_per_second, seed};
  for (const Clause& clause : contract.clauses) {
    const auto is_it = [&](const Clause& other) { return other.address() == clause.address(); };
    const auto planned = [&](bool whole) {
      return std::ranges::any_of(ramp.scopes.planned, [&](const CanaryScope& scope) {
        return is_it(scope.clause) && scope.where.empty() == whole;
      });
    };
    const bool on_slices = planned(false) || std::ranges::any_of(ramp.scopes.found, is_it);
    for (const Clause& part : one_per_limit(clause)) {
      WatchedClause watched;
      watched.clause = part;
      if (planned(true)) all.push_back(regression_of(ramp, watched, 1));
      watched.where = any_slice();
      for (const double share : kSliceShares) {
        if (on_slices) all.push_back(regression_of(ramp, watched, share));
      }
    }
  }
  return all;
}

}  // namespace driftgate::stages
