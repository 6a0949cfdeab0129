// The latencies of a canary in front of users who return. A world is a population, and nothing of how a
// canary counts.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "stages/canary/canary.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"
#include "tests/simulation/figure.hpp"

namespace driftgate::simulation {
namespace {

using stages::Random;

constexpr const char* kExperiment = "latency of users who return";
constexpr const char* kMethod = "a canary on p95 of the first token, max_ratio 1";
constexpr double kPerSecond = 20;
constexpr std::uint64_t kUsers = 20'000;
constexpr std::uint64_t kMostExposed = 10'000;

struct World {
  const char* name;
  bool returning = true;
  double heavy_requests =
      0;               ///< the share of requests that the heaviest hundredth of the users makes; 0: all alike
  double lasting = 0;  ///< standard deviation of the logarithm of what a user's requests take, among users
};

double normal(Random& random) {
  return stages::normal_quantile(std::clamp(random.uniform(), 1e-16, 1 - 1e-16));
}

schema::Contract contract_of() {
  schema::Contract contract;
  contract.name = "latency";
  contract.digest = "sha256:latency";
  schema::Clause slow;
  slow.family = schema::Family::runtime;
  slow.id = "ttft";
  slow.subject = schema::MetricSubject{schema::Metric::ttft_ms, schema::Aggregate::p95};
  slow.limits.max_ratio = 1;
  slow.stages = schema::stage_bit(schema::Stage::canary);
  contract.clauses = {slow};
  schema::CanaryPlan plan;
  plan.steps = {{100, false}, {500, false}, {2'500, false}, {10'000, false}};
  plan.soak_ms = 360'000;
  plan.min_keys = 50;
  contract.canary = plan;
  return contract;
}

/// Whether the canary convicts a candidate that is so many times as slow, before it has served kMostExposed
/// requests.
bool convicts(const World& world, double slower, std::uint64_t seed) {
  static const schema::Contract contract = contract_of();
  auto canary = *stages::CanaryState::create(contract, {1, seed, stages::kDefaultMaxKeys, {}});
  canary.begin_step(0);
  Random random(seed);
  const std::uint64_t salt = stages::mix64(seed);
  std::int64_t now_us = 20'000LL * 86'400'000'000, decide_us = now_us, step_us = now_us;
  std::uint64_t exposed = 0, windows = 0;
  std::uint32_t step = 0;
  while (exposed < kMostExposed) {
    now_us += static_cast<std::int64_t>(-std::log1p(-random.uniform()) / kPerSecond * 1e6);
    const bool heavy = world.heavy_requests > 0 && random.uniform() < world.heavy_requests;
    const std::uint64_t user = heavy ? random.below(kUsers / 100) : random.below(kUsers);
    stages::CanaryObservation seen;
    seen.key_hash = stages::mix64((world.returning ? user : random.next()) ^ salt);
    seen.routed_us = now_us;
    seen.candidate_bp = canary.share_of_step(step);
    // Assignment is by another hash of the key, so that a user stays as the share grows.
    const double place = static_cast<double>(stages::mix64(seen.key_hash + 1) >> 11U) * 0x1.0p-53;
    seen.candidate = place < seen.candidate_bp / 10'000.0;
    exposed += seen.candidate ? 1 : 0;
    Random own(stages::mix64(seen.key_hash + 2));
    const double spread = world.lasting * normal(own) + 0.5 * normal(random);
    seen.latency.ttft_ms = (seen.candidate ? slower : 1) * 100 * std::exp(spread);
    seen.outcome = stages::RequestOutcome::ok;
    canary.observe(seen);
    if (now_us < decide_us) continue;
    decide_us = now_us + 5'000'000;
    (void)canary.begin_window("router", ++windows);
    stages::CanaryContext context;
    context.now_ms = now_us / 1'000;
    context.step = step;
    context.step_started_ms = step_us / 1'000;
    const auto decision = canary.decide(context);
    if (decision.verdicts.at(0).verdict == schema::Verdict::violated) return true;
    if (decision.action == stages::CanaryAction::advance && step < 2) {
      canary.begin_step(++step);
      step_us = now_us;
    }
  }
  return false;
}

}  // namespace

void latency_users(const Effort& effort, Figures& out) {
  const World worlds[] = {{"distinct users", false},
                          {"20,000 users alike"},
                          {"1% of 20,000 users make 40%", true, 0.4},
                          {"20,000 users who differ lastingly (0.5)", true, 0, 0.5},
                          {"1% of 20,000 users make 40%, users differ lastingly (0.5)", true, 0.4, 0.5}};
  const std::uint64_t runs = effort.runs(300);
  const schema::Contract contract = contract_of();
  for (const World& world : worlds) {
    const auto share = [&](double slower) {
      std::uint64_t convicted = 0;
      for (std::uint64_t run = 0; run < runs; ++run)
        convicted += convicts(world, slower, stages::mix64(effort.seed * 49'979'687 + run)) ? 1 : 0;
      return static_cast<double>(convicted) / static_cast<double>(runs);
    };
    const bool alike = world.lasting <= 0;
    // Of two arms in two-sided sequences only one error of each convicts.
    out.push_back({kExperiment, kMethod, std::string(world.name) + ", arms alike", "false rollbacks",
                   share(1), runs, contract.confidence.alpha_harm,
                   alike ? Claim::exact : Claim::approximate});
    out.push_back({kExperiment, kMethod, std::string(world.name) + ", p95 20% slower",
                   "found before 10,000 exposed", share(1.2), runs, alike ? std::optional(0.9) : std::nullopt,
                   alike ? Claim::at_least : Claim::figure});
  }
}

}  // namespace driftgate::simulation
