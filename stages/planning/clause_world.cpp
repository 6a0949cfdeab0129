#include "stages/planning/clause_world.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "schema/contract/contract_means.hpp"
#include "schema/contract/least_n.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/mean_test.hpp"
#include "stages/statistics/paired.hpp"

namespace driftgate::stages {
namespace {

using schema::Clause;
using schema::Contract;

constexpr const char* kScatter = "sequences that scatter as much as their mean is large";
constexpr const char* kNearEnd = "the limit is at the end of the range";

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

double p_value(const MeanSetting& mean, Shown shown, std::span<const ClusterSum> clusters, double alpha,
               std::uint64_t seed) {
  constexpr ValueRange kShare{};
  const bool above = shown == Shown::exceeded;
  if (mean.method == MeanMethod::gaffke) return gaffke_p_value(clusters, mean.tau, kShare, above);
  if (mean.method == MeanMethod::bootstrap) {
    const MeanTest test = bootstrap_t(clusters, mean.tau, alpha, seed);
    return above ? test.p_high : test.p_low;
  }
  return betting_p_value(clusters, mean.tau, kShare, above, seed);
}

double p_value(const MeanTest& test, Shown shown) {
  return shown == Shown::exceeded ? test.p_high : test.p_low;
}

ClauseWorld impossible(std::string why) {
  ClauseWorld world;
  world.why_not = std::move(why);
  return world;
}

ClauseWorld certain(std::string best_case, std::string what_fails) {
  ClauseWorld world;
  world.best_case = std::move(best_case);
  world.what_fails = std::move(what_fails);
  return world;
}

ClauseWorld mean_world(const MeanSetting& mean, double alpha, std::uint64_t seed, std::string data) {
  ClauseWorld world;
  world.proves = [=](Shown shown, double truth, std::uint64_t n, Random& random) {
    std::vector<ClusterSum> clusters(n);
    for (ClusterSum& cluster : clusters) {
      cluster = {mean.units, mean.units * sequence_mean(truth, random)};
    }
    return p_value(mean, shown, clusters, alpha, seed) <= alpha;
  };
  world.at_half = mean.tau / 2;
  world.at_limit = mean.tau;
  world.figure = "mean";
  world.data = std::move(data);
  return world;
}

/// Sequences whose means have an exponential tail: if their quantile is at half the limit, 1 − Q of them lie
/// above that half, and (1 − Q)² above the limit.
ClauseWorld sequence_quantile_world(double tolerated, double alpha, std::uint64_t seed) {
  ClauseWorld world;
  world.proves = [=](Shown shown, double truth, std::uint64_t n, Random& random) {
    std::vector<ClusterSum> clusters(n, {1, 0});
    for (ClusterSum& cluster : clusters) cluster.sum = random.uniform() < truth ? 1 : 0;
    return p_value(exceedance(clusters, tolerated, alpha, seed), shown) <= alpha;
  };
  world.at_half = tolerated * tolerated;
  world.at_limit = tolerated;
  world.is_share = true;
  world.figure = "share of sequences beyond the limit";
  world.half = "sequences whose quantile is at half the limit, with an exponential tail";
  return world;
}

ClauseWorld row_quantile_world(double tolerated, bool all_rows, double alpha, std::uint64_t seed) {
  ClauseWorld world;
  world.proves = [=](Shown shown, double truth, std::uint64_t n, Random& random) {
    std::vector<ClusterSum> clusters(n, {static_cast<double>(kPowerRows), 0});
    for (ClusterSum& cluster : clusters) {
      const double share = sequence_mean(truth, random);
      for (std::uint32_t row = 0; row < kPowerRows; ++row) cluster.sum += random.uniform() < share ? 1 : 0;
    }
    // Rows are weighed by the longest sequence that there may be; else each sequence counts once.
    if (!all_rows) count_once(clusters);
    const ValueRange range{0, 1, all_rows ? 2.0 * kPowerRows : 1};
    return betting_p_value(clusters, tolerated, range, shown == Shown::exceeded, seed) <= alpha;
  };
  world.at_half = tolerated / 2;
  world.at_limit = tolerated;
  world.is_share = true;
  world.figure = "share of rows beyond the limit";
  world.half = "half as many rows beyond the limit as tolerated";
  world.data = all_rows ? "sequences half as long as max_tokens" : "sequences of 64 rows";
  return world;
}

/// The inference kernel loses `truth` more tasks than it wins; half a margin of tasks is won.
ClauseWorld outcome_world(double margin, double alpha, std::uint64_t seed) {
  ClauseWorld world;
  world.proves = [=](Shown shown, double truth, std::uint64_t n, Random& random) {
    std::vector<PairedOutcome> outcomes(n);
    for (std::uint64_t i = 0; i < n; ++i) {
      const double u = random.uniform();
      const bool lost = u < truth + margin / 2;
      const bool won = !lost && u < truth + margin;
      outcomes[i] = {.train = !won, .inf = !lost, .cluster = i};
    }
    const MeanTest test = paired_outcomes(outcomes, margin, alpha, seed);
    if (shown == Shown::exceeded) return test.p_low <= alpha;
    return test.p_high <= alpha && test.lower.value_or(-1) > -margin;
  };
  world.at_half = margin / 2;
  world.at_limit = margin;
  world.most = 1 - margin;
  world.is_share = true;
  world.figure = "loss of tasks solved";
  world.half = "one and a half times the margin of outcomes differ";
  return world;
}

/// Mirrored requests or prompts of which a share has an event, by Clopper–Pearson.
ClauseWorld pair_world(double max, double alpha, std::string figure, std::string half, std::string data) {
  ClauseWorld world;
  world.proves = [=](Shown shown, double truth, std::uint64_t n, Random& random) {
    std::uint64_t events = 0;
    for (std::uint64_t i = 0; i < n; ++i) events += random.uniform() < truth ? 1 : 0;
    return shown == Shown::exceeded ? clopper_pearson_lower(events, n, alpha) > max
                                    : clopper_pearson_upper(events, n, alpha) <= max;
  };
  world.exact_pairs = true;
  world.at_half = max / 2;
  world.at_limit = max;
  world.is_share = true;
  world.figure = std::move(figure);
  world.half = std::move(half);
  world.data = std::move(data);
  return world;
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

/// The figure as a share of its range becomes one in the clause's own unit.
ClauseWorld in_own_unit(ClauseWorld world, const Clause& clause) {
  const auto ends = schema::ends_of(clause);
  if (!ends) return world;
  const double width = ends->high - ends->low;
  world.scale = clause.limits.min ? -width : width;
  world.offset = clause.limits.min ? ends->high : clause.limits.max ? ends->low : 0;
  return world;
}

ClauseWorld captured_mean(const Clause& clause, const schema::MetricSubject& subject,
                          const Contract& contract, double alpha, std::uint64_t seed) {
  if (clause.limits.max_delta) {
    return impossible("it is decided against another measurement, whose scatter is not known beforehand");
  }
  const auto tau = schema::share_left(clause);
  const bool tokens = schema::weighs_tokens(subject);
  const bool approximate = contract.confidence.means == schema::Means::approximate;
  if (approximate && (!tau || (tokens && !schema::counts_events(subject.metric)))) {
    // Without a largest value the limit is as far from the mean as from 0 and the range plays no part.
    constexpr double kSmall = 1e-3;
    ClauseWorld world = mean_world({tau.value_or(kSmall), MeanMethod::bootstrap, 1}, alpha, seed, kScatter);
    if (tau) return in_own_unit(std::move(world), clause);
    world.scale = clause.limits.max.value_or(kSmall) / kSmall;
    return world;
  }
  if (!tau) return impossible("its values have no largest one, so that no exact method proves a limit");
  if (*tau >= 1) return certain(kNearEnd, "nothing, since the limit is at the end of the range");
  const MeanMethod method = approximate && !tokens ? MeanMethod::gaffke : MeanMethod::betting;
  return in_own_unit(
      mean_world({*tau, method, tokens ? 0.5 : 1}, alpha, seed,
                 tokens ? "sequences half as long as max_tokens that scatter as much as their mean is large"
                        : kScatter),
      clause);
}

ClauseWorld captured_metric(const Clause& clause, const schema::MetricSubject& subject,
                            const Contract& contract, double alpha, std::uint64_t seed) {
  const bool census = subject.aggregate == schema::Aggregate::sum ||
                      subject.aggregate == schema::Aggregate::min ||
                      subject.aggregate == schema::Aggregate::max;
  if (census) return certain("no row beyond the limit", "a single row beyond the limit");
  const auto q = subject.aggregate ? schema::quantile_of(*subject.aggregate) : std::nullopt;
  if (!q) return captured_mean(clause, subject, contract, alpha, seed);
  const double tolerated = clause.limits.min ? *q : 1 - *q;
  if (clause.over == schema::QuantileOver::sequences && clause.limits.max)
    return sequence_quantile_world(tolerated, alpha, seed);
  if (clause.over == schema::QuantileOver::sequences)
    return impossible("half of a least quantile says nothing of how many sequences lie under it");
  return row_quantile_world(tolerated, clause.over == schema::QuantileOver::rows, alpha, seed);
}

ClauseWorld greedy_world(const Clause& clause, const schema::MetricSubject& subject, double alpha,
                         std::uint64_t seed) {
  const auto q = subject.aggregate ? schema::quantile_of(*subject.aggregate) : std::nullopt;
  if (q || clause.limits.max) {
    const double tolerated = q.value_or(clause.limits.max.value_or(1));
    if (tolerated >= 1) return certain(kNearEnd, "nothing, since the limit is at the end of the range");
    return pair_world(tolerated, alpha, "share of prompts beyond the limit",
                      "half as many prompts beyond the limit as tolerated", {});
  }
  const double tau = schema::share_left(clause).value_or(1);
  if (tau >= 1) return certain(kNearEnd, "nothing, since the limit is at the end of the range");
  return in_own_unit(mean_world({.tau = tau}, alpha, seed,
                                "prompts whose disagreement scatters as much as its mean is large"),
                     clause);
}

}  // namespace

ClauseWorld clause_world(const Clause& clause, const Contract& contract, double alpha, std::uint64_t seed) {
  if (std::holds_alternative<schema::OutcomeSubject>(clause.subject)) {
    const double margin = clause.limits.non_inferiority_margin.value_or(0);
    if (margin <= 0) return impossible("a margin of 0 has no half");
    return outcome_world(margin, alpha, seed);
  }
  if (const auto* bound = std::get_if<schema::BoundSubject>(&clause.subject)) {
    const auto tau = bound_room(*bound, clause, contract.assumptions);
    if (!tau)
      return certain("limits of whole sequences, approximate",
                     "not simulated: limits of whole sequences are approximate");
    if (*tau >= 1)
      return certain("the limit is beyond the largest possible value",
                     "nothing, since the limit is beyond the largest possible value");
    ClauseWorld world = mean_world({.tau = *tau}, alpha, seed, kScatter);
    world.scale = *clause.limits.max / *tau;
    return world;
  }
  if (std::holds_alternative<schema::ExactSubject>(clause.subject))
    return certain("no row differs", "a single row that differs");
  const auto& subject = std::get<schema::MetricSubject>(clause.subject);
  const schema::MetricGroup group = schema::info(subject.metric).group;
  if (group == schema::MetricGroup::traffic)
    return pair_world(clause.limits.max.value_or(1), alpha, "failure rate", {},
                      "requests that fail independently");
  if (group == schema::MetricGroup::greedy) return greedy_world(clause, subject, alpha, seed);
  return captured_metric(clause, subject, contract, alpha, seed);
}

bool often_enough(const std::function<bool(Random&)>& run, std::uint64_t seed) {
  const int wanted = static_cast<int>(std::ceil(kPowerWanted * kSimulatedRuns));
  int shown = 0;
  for (int i = 0; i < kSimulatedRuns; ++i) {
    Random random(mix64(seed + static_cast<std::uint64_t>(i)));
    shown += static_cast<int>(run(random));
    if (shown >= wanted) return true;
    if (shown + kSimulatedRuns - 1 - i < wanted) return false;
  }
  return false;
}

}  // namespace driftgate::stages
