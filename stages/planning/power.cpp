#include "stages/planning/power.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "schema/contract/contract.hpp"
#include "schema/contract/least_n.hpp"
#include "stages/planning/clause_world.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/failure_rate_process.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::stages {
namespace {

using schema::Clause;
using schema::Contract;
using schema::Stage;

constexpr std::uint64_t kMostUnits = 1'000'000;
constexpr double kGrowth = 1.25;

/// The least n on a grid of 25% steps from `least` up that proves the clause often enough.
std::optional<std::uint64_t> search(const ClauseWorld& world, std::uint64_t least, std::uint64_t seed) {
  for (auto n = static_cast<double>(std::max<std::uint64_t>(least, 1));
       n <= static_cast<double>(kMostSimulatedUnits); n = std::ceil(n * kGrowth)) {
    const auto units = static_cast<std::uint64_t>(n);
    const auto kept = [&](Random& random) { return world.proves(Shown::kept, world.at_half, units, random); };
    if (often_enough(kept, seed)) return units;
  }
  return std::nullopt;
}

/// Shares of mirrored requests or prompts by Clopper–Pearson: exact, so nothing is simulated.
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
  for (int i = 0; i < kSimulatedRuns; ++i) {
    Random random(mix64(seed + static_cast<std::uint64_t>(i)));
    FailureRateProcess process(max);
    while (process.keys() < kMostSimulatedUnits && process.e_proof() < needed) {
      process.update(random.uniform() < max / 2);
    }
    keys.push_back(process.keys());
  }
  std::ranges::sort(keys);
  const std::uint64_t n = keys[static_cast<std::size_t>(std::ceil(kPowerWanted * kSimulatedRuns)) - 1];
  if (n >= kMostSimulatedUnits) return std::nullopt;
  return n;
}

void found(ClausePower& power, std::optional<std::uint64_t> n, std::string assumes) {
  power.n = n;
  power.assumes = std::move(assumes);
  if (!n) power.why_not = "even very much data would not prove it often enough at half the limit";
}

void clause_power(const Clause& clause, const Contract& contract, std::uint64_t least, std::uint64_t seed,
                  ClausePower& power) {
  const auto* subject = std::get_if<schema::MetricSubject>(&clause.subject);
  if (subject != nullptr && schema::info(subject->metric).group == schema::MetricGroup::traffic) {
    if (subject->metric != schema::Metric::error_rate || !clause.limits.max)
      return found(power, least, "values well inside the limit");
    if (power.stage == Stage::canary) {
      const auto starts = contract.canary ? static_cast<std::uint32_t>(contract.canary->steps.size()) + 1 : 1;
      return found(power, key_units(*clause.limits.max, power.alpha, starts, seed),
                   "keys that fail independently");
    }
  }
  ClauseWorld world = clause_world(clause, contract, power.alpha, seed);
  if (!world.why_not.empty()) {
    power.why_not = std::move(world.why_not);
    return;
  }
  if (!world.proves) return found(power, least, std::move(world.best_case));
  std::string assumes = world.half;
  if (!world.half.empty() && !world.data.empty()) assumes += ", ";
  found(power, world.exact_pairs ? pair_units(world.at_limit, power.alpha) : search(world, least, seed),
        assumes + world.data);
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
