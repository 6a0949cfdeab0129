#include "stages/power.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "schema/contract/contract_means.hpp"
#include "schema/contract/least_n.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/failure_rate_process.hpp"
#include "stages/statistics/mean_test.hpp"
#include "stages/statistics/paired.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

using schema::Clause;
using schema::Contract;
using schema::Stage;

constexpr int kRuns = 40;
constexpr std::uint64_t kMostUnits = 1'000'000;
constexpr std::uint64_t kMostSimulatedUnits = 100'000;
constexpr double kGrowth = 1.25;

/// Whether one simulated run of n units proves the clause.
using Run = std::function<bool(std::uint64_t n, Random& random)>;

bool often_enough(const Run& run, std::uint64_t n, std::uint64_t seed) {
  const int wanted = static_cast<int>(std::ceil(kPowerWanted * kRuns));
  int passed = 0;
  for (int i = 0; i < kRuns; ++i) {
    Random random(mix64(seed + static_cast<std::uint64_t>(i)));
    passed += static_cast<int>(run(n, random));
    if (passed >= wanted) return true;
    if (passed + kRuns - 1 - i < wanted) return false;
  }
  return false;
}

/// The least n on a grid of 25% steps from `least` up that passes often enough.
std::optional<std::uint64_t> search(const Run& run, std::uint64_t least, std::uint64_t seed) {
  for (auto n = static_cast<double>(std::max<std::uint64_t>(least, 1));
       n <= static_cast<double>(kMostSimulatedUnits); n = std::ceil(n * kGrowth)) {
    if (often_enough(run, static_cast<std::uint64_t>(n), seed)) return static_cast<std::uint64_t>(n);
  }
  return std::nullopt;
}

/// A sequence's mean: exponential, so that sequences scatter as much as they are large, and never over 1.
double sequence_mean(double mean, Random& random) {
  return std::min(1.0, -mean * std::log1p(-random.uniform()));
}

enum class MeanMethod { betting, gaffke, bootstrap };

/// How a mean is decided: against the share `tau` that its limit leaves of the range of values.
struct MeanSetting {
  double tau = 0;
  MeanMethod method = MeanMethod::betting;
  double units = 1;  ///< of each sequence, as a share of the most that one can have
};

double mean_p_value(const MeanSetting& mean, std::span<const ClusterSum> clusters, double alpha,
                    std::uint64_t seed) {
  constexpr ValueRange kShare{};
  if (mean.method == MeanMethod::gaffke) return gaffke_p_value(clusters, mean.tau, kShare, false);
  if (mean.method == MeanMethod::bootstrap) return bootstrap_t(clusters, mean.tau, alpha, seed).p_low;
  return betting_p_value(clusters, mean.tau, kShare, false, seed);
}

std::optional<std::uint64_t> mean_units(const MeanSetting& mean, double alpha, std::uint64_t least,
                                        std::uint64_t seed) {
  const Run run = [=](std::uint64_t n, Random& random) {
    std::vector<ClusterSum> clusters(n);
    for (ClusterSum& cluster : clusters) {
      cluster = {mean.units, mean.units * sequence_mean(mean.tau / 2, random)};
    }
    return mean_p_value(mean, clusters, alpha, seed) <= alpha;
  };
  return search(run, least, seed);
}

/// Sequences whose means have an exponential tail and their quantile at half the limit: 1 − Q of them lie
/// above that half, and (1 − Q)² above the limit.
std::optional<std::uint64_t> sequence_quantile_units(double tolerated, double alpha, std::uint64_t least,
                                                     std::uint64_t seed) {
  const Run run = [=](std::uint64_t n, Random& random) {
    std::vector<ClusterSum> clusters(n, {1, 0});
    for (ClusterSum& cluster : clusters) cluster.sum = random.uniform() < tolerated * tolerated ? 1 : 0;
    return exceedance(clusters, tolerated, alpha, seed).p_low <= alpha;
  };
  return search(run, least, seed);
}

std::optional<std::uint64_t> quantile_units(double tolerated, bool all_rows, double alpha,
                                            std::uint64_t least, std::uint64_t seed) {
  const Run run = [=](std::uint64_t n, Random& random) {
    std::vector<ClusterSum> clusters(n, {static_cast<double>(kPowerRows), 0});
    for (ClusterSum& cluster : clusters) {
      const double share = sequence_mean(tolerated / 2, random);
      for (std::uint32_t row = 0; row < kPowerRows; ++row) cluster.sum += random.uniform() < share ? 1 : 0;
    }
    const double longest = 2 * kPowerRows;
    return (all_rows ? betting_mean(clusters, tolerated, {0, 1, longest}, alpha, seed)
                     : exceedance(clusters, tolerated, alpha, seed))
               .p_low <= alpha;
  };
  return search(run, least, seed);
}

std::optional<std::uint64_t> outcome_units(double margin, double alpha, std::uint64_t least,
                                           std::uint64_t seed) {
  // Worse by half the margin: of the pairs that differ, two thirds are lost ones.
  const Run run = [=](std::uint64_t n, Random& random) {
    std::vector<PairedOutcome> outcomes(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      const double u = random.uniform();
      const bool lost = u < margin;
      const bool won = !lost && u < 1.5 * margin;
      outcomes[i] = {.train = !won, .inf = !lost, .cluster = i};
    }
    const MeanTest test = paired_outcomes(outcomes, margin, alpha, seed);
    return test.p_high <= alpha && test.lower.value_or(-1) > -margin;
  };
  return search(run, least, seed);
}

/// Mirrored requests by Clopper–Pearson: exact, so nothing is simulated.
std::optional<std::uint64_t> pair_units(double max, double alpha) {
  const auto within = [&](std::uint64_t n) {
    std::uint64_t most = 0;
    while (most < n && clopper_pearson_upper(most + 1, n, alpha) <= max) ++most;
    return clopper_pearson_upper(0, n, alpha) <= max && binomial_at_most(most, n, max / 2) >= kPowerWanted;
  };
  for (double n = 1; n <= static_cast<double>(kMostUnits); n = std::ceil(n * 1.05)) {
    if (within(static_cast<std::uint64_t>(n))) return static_cast<std::uint64_t>(n);
  }
  return std::nullopt;
}

/// Keys after which the canary's proof has come in 8 of 10 runs, one of the planned starts running.
std::optional<std::uint64_t> key_units(double max, double alpha, std::uint32_t starts, std::uint64_t seed) {
  const double needed = starts / alpha - (starts - 1.0);
  std::vector<std::uint64_t> keys;
  for (int i = 0; i < kRuns; ++i) {
    Random random(mix64(seed + static_cast<std::uint64_t>(i)));
    FailureRateProcess process(max);
    while (process.keys() < kMostSimulatedUnits && process.e_proof() < needed) {
      process.update(random.uniform() < max / 2);
    }
    keys.push_back(process.keys());
  }
  std::ranges::sort(keys);
  const std::uint64_t n = keys[static_cast<std::size_t>(std::ceil(kPowerWanted * kRuns)) - 1];
  if (n >= kMostSimulatedUnits) return std::nullopt;
  return n;
}

std::optional<double> bound_room(const schema::BoundSubject& subject, const Clause& clause,
                                 const schema::Assumptions& assumptions) {
  if (subject.horizon == schema::Horizon::sequence || !clause.limits.max) return std::nullopt;
  const double max = *clause.limits.max;
  if (subject.bound == schema::Bound::reward && assumptions.reward) {
    return max / (assumptions.reward->max - assumptions.reward->min);
  }
  if (subject.bound == schema::Bound::policy_gradient && assumptions.policy) {
    return max / (2 * assumptions.policy->advantage_max * assumptions.policy->score_norm_max);
  }
  return max;
}

constexpr const char* kScatter = "sequences that scatter as much as their mean is large";

void found(ClausePower& power, std::optional<std::uint64_t> n, std::string assumes) {
  power.n = n;
  power.assumes = std::move(assumes);
  if (!n) power.why_not = "even very much data would not prove it often enough at half the limit";
}

void mean_power(const Clause& clause, const schema::MetricSubject& subject, const Contract& contract,
                std::uint64_t least, std::uint64_t seed, ClausePower& power) {
  if (clause.limits.max_delta) {
    power.why_not = "it is decided against another measurement, whose scatter is not known beforehand";
    return;
  }
  const auto tau = schema::share_left(clause);
  const bool tokens = schema::weighs_tokens(subject);
  const bool approximate = contract.confidence.means == schema::Means::approximate;
  if (approximate && (!tau || (tokens && !schema::counts_events(subject.metric)))) {
    // Without a largest value the limit is as far from the mean as from 0 and the range plays no part.
    return found(power, mean_units({tau.value_or(1e-3), MeanMethod::bootstrap, 1}, power.alpha, least, seed),
                 kScatter);
  }
  if (!tau) {
    power.why_not = "its values have no largest one, so that no exact method proves a limit";
    return;
  }
  if (*tau >= 1) return found(power, least, "the limit is at the end of the range");
  const MeanMethod method = approximate && !tokens ? MeanMethod::gaffke : MeanMethod::betting;
  found(
      power, mean_units({*tau, method, tokens ? 0.5 : 1}, power.alpha, least, seed),
      tokens ? "sequences half as long as max_tokens that scatter as much as their mean is large" : kScatter);
}

void metric_power(const Clause& clause, const schema::MetricSubject& subject, const Contract& contract,
                  std::uint64_t least, std::uint64_t seed, ClausePower& power) {
  const bool census = subject.aggregate == schema::Aggregate::sum ||
                      subject.aggregate == schema::Aggregate::min ||
                      subject.aggregate == schema::Aggregate::max;
  if (census) return found(power, least, "no row beyond the limit");
  const auto q = subject.aggregate ? schema::quantile_of(*subject.aggregate) : std::nullopt;
  if (!q) return mean_power(clause, subject, contract, least, seed, power);
  const double tolerated = clause.limits.min ? *q : 1 - *q;
  if (clause.over == schema::QuantileOver::sequences && clause.limits.max) {
    return found(power, sequence_quantile_units(tolerated, power.alpha, least, seed),
                 "sequences whose quantile is at half the limit, with an exponential tail");
  }
  if (clause.over == schema::QuantileOver::sequences) {
    power.why_not = "half of a least quantile says nothing of how many sequences lie under it";
    return;
  }
  const bool rows = clause.over == schema::QuantileOver::rows;
  found(power, quantile_units(tolerated, rows, power.alpha, least, seed),
        rows ? "half as many rows beyond the limit as tolerated, sequences half as long as max_tokens"
             : "half as many rows beyond the limit as tolerated, sequences of 64 rows");
}

void greedy_power(const Clause& clause, const schema::MetricSubject& subject, std::uint64_t least,
                  std::uint64_t seed, ClausePower& power) {
  const auto q = subject.aggregate ? schema::quantile_of(*subject.aggregate) : std::nullopt;
  if (q || clause.limits.max) {
    const double tolerated = q.value_or(clause.limits.max.value_or(1));
    if (tolerated >= 1) return found(power, least, "the limit is at the end of the range");
    return found(power, pair_units(tolerated, power.alpha),
                 "half as many prompts beyond the limit as tolerated");
  }
  const double tau = schema::share_left(clause).value_or(1);
  if (tau >= 1) return found(power, least, "the limit is at the end of the range");
  found(power, mean_units({.tau = tau}, power.alpha, least, seed),
        "prompts whose disagreement scatters as much as its mean is large");
}

void traffic_power(const Clause& clause, const schema::MetricSubject& subject, const Contract& contract,
                   std::uint64_t least, std::uint64_t seed, ClausePower& power) {
  if (subject.metric != schema::Metric::error_rate || !clause.limits.max) {
    return found(power, least, "values well inside the limit");
  }
  const double max = *clause.limits.max;
  if (power.stage == Stage::shadow_runtime) {
    return found(power, pair_units(max, power.alpha), "requests that fail independently");
  }
  const auto starts = contract.canary ? static_cast<std::uint32_t>(contract.canary->steps.size()) + 1 : 1;
  found(power, key_units(max, power.alpha, starts, seed), "keys that fail independently");
}

void clause_power(const Clause& clause, const Contract& contract, std::uint64_t least, std::uint64_t seed,
                  ClausePower& power) {
  if (std::holds_alternative<schema::OutcomeSubject>(clause.subject)) {
    const double margin = clause.limits.non_inferiority_margin.value_or(0);
    if (margin <= 0) {
      power.why_not = "a margin of 0 has no half";
      return;
    }
    return found(power, outcome_units(margin, power.alpha, least, seed),
                 "one and a half times the margin of outcomes differ");
  }
  if (const auto* bound = std::get_if<schema::BoundSubject>(&clause.subject)) {
    const auto tau = bound_room(*bound, clause, contract.assumptions);
    if (!tau) return found(power, least, "limits of whole sequences, approximate");
    if (*tau >= 1) return found(power, least, "the limit is beyond the largest possible value");
    return found(power, mean_units({.tau = *tau}, power.alpha, least, seed), kScatter);
  }
  if (std::holds_alternative<schema::ExactSubject>(clause.subject)) {
    return found(power, least, "no row differs");
  }
  const auto& subject = std::get<schema::MetricSubject>(clause.subject);
  if (schema::info(subject.metric).group == schema::MetricGroup::traffic) {
    return traffic_power(clause, subject, contract, least, seed, power);
  }
  if (schema::info(subject.metric).group == schema::MetricGroup::greedy)
    return greedy_power(clause, subject, least, seed, power);
  metric_power(clause, subject, contract, least, seed, power);
}

}  // namespace

std::vector<ClausePower> power_at_half(const Contract& contract, std::uint64_t seed,
                                       const schema::Runs& runs) {
  std::vector<ClausePower> all;
  for (const Clause& clause : contract.clauses) {
    if (schema::requirement_of(clause) == schema::Requirement::no_harm) continue;
    for (const schema::LeastN& least : schema::least_n(clause, contract, runs)) {
      if (least.counted) continue;
      ClausePower power{clause.address(), least.stage, std::nullopt, least.unit, least.alpha, {}, {}};
      if (least.n) {
        clause_power(clause, contract, *least.n, seed, power);
      } else {
        power.why_not = "no amount of data can prove it: " + least.why;
      }
      all.push_back(std::move(power));
    }
  }
  return all;
}

std::vector<StepDuration> durations(const ClausePower& power, const Contract& contract,
                                    double requests_per_second) {
  std::vector<StepDuration> steps;
  if (!power.n || !(requests_per_second > 0)) return steps;
  const auto add = [&](std::uint32_t share_bp) {
    const double rate = requests_per_second * share_bp / 10'000.0;
    if (rate > 0) steps.push_back({share_bp, static_cast<double>(*power.n) / rate});
  };
  if (power.stage == Stage::shadow_runtime) add(contract.shadow.mirror_bp);
  if (power.stage == Stage::canary && contract.canary) {
    for (const schema::CanaryStep& step : contract.canary->steps) add(step.share_bp);
  }
  return steps;
}

}  // namespace driftgate::stages
