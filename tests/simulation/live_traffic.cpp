// Canaries in the worlds of live_worlds.hpp, which somebody wrote who knew what is claimed and not how it is
// done.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "stages/canary/canary.hpp"
#include "stages/statistics/random.hpp"
#include "tests/simulation/figure.hpp"
#include "tests/simulation/guarded.hpp"
#include "tests/simulation/live_law.hpp"
#include "tests/simulation/live_worlds.hpp"

namespace driftgate::simulation {
namespace {

constexpr std::array kSwings = {schema::Swings::own, schema::Swings::shared};
constexpr std::array kMethods = {"a canary on error_rate and on p95 of the first token, max_ratio 1",
                                 "the same with assumptions: {swings: shared}"};
constexpr std::uint32_t kSharesBp[] = {100, 500, 2'500, 5'000};
constexpr double kStepS = 1'250, kWindowS = 5;
constexpr std::int64_t kStartUs = 20'000LL * 86'400'000'000;
constexpr std::uint64_t kMostExposed = 10'000;
/// Below this effort only a few worlds and a short history are run.
constexpr double kAllSettings = 0.5;

schema::Contract contract_of(schema::Swings swings) {
  schema::Limits limits;
  limits.max_ratio = 1;
  schema::Contract contract = guarded(limits, 365LL * 86'400'000'000);
  schema::Clause slow = contract.clauses.front();
  slow.id = "ttft";
  slow.subject = schema::MetricSubject{schema::Metric::ttft_ms, schema::Aggregate::p95};
  contract.clauses.push_back(slow);
  schema::CanaryPlan plan;
  for (const std::uint32_t share : kSharesBp) plan.steps.push_back({share, false});
  contract.canary = plan;
  contract.assumptions.swings = swings;
  return contract;
}

struct Outcome {
  std::string clause;  ///< of the rollback, or ""
  std::uint64_t exposed = 0;
};

/// What became of one ramp under each of kSwings.
using Outcomes = std::array<Outcome, kSwings.size()>;

/// A ramp through all steps, which lasts as long whatever is proven. Under each of kSwings one canary sees
/// it, until it rolls back.
class Ramp {
 public:
  Ramp(const LiveWorldKind& kind, double history_s, const Harm& harm, std::uint64_t seed)
      : salt_(stages::mix64(seed + 1)), world_(kind.make(seed, -history_s, harm)) {
    settings_.seed = seed;
  }

  Outcomes run() {
    LiveRequest request = world_->next();
    for (; request.at_s < 0; request = world_->next()) {
      const auto answer = world_->serve(request, Arm::incumbent);
      settings_.incumbent.observe(key_of(request), false, answer.failed, routed_us(request));
      if (answer.failed) continue;
      stages::Latencies latency;
      latency.ttft_ms = answer.first_token_ms;
      settings_.incumbent_latency.observe(latency, routed_us(request), 1);
    }
    static const std::array contracts = {contract_of(kSwings[0]), contract_of(kSwings[1])};
    std::vector<Watching> watching;
    for (const schema::Contract& contract : contracts)
      watching.emplace_back(*stages::CanaryState::create(contract, settings_)).canary.begin_step(0);
    std::uint32_t step = 0;
    double decide_s = kWindowS;
    for (; request.at_s < kStepS * std::size(kSharesBp); request = world_->next()) {
      for (; decide_s <= request.at_s; decide_s += kWindowS) {
        for (Watching& one : watching) decide(one, step, decide_s);
        if (decide_s < kStepS * (step + 1)) continue;
        ++step;
        for (Watching& one : watching) one.canary.begin_step(step);
      }
      const stages::CanaryObservation seen = observation(request, kSharesBp[step]);
      for (Watching& one : watching) {
        if (one.outcome.clause.empty()) one.canary.observe(seen);
      }
    }
    return {watching[0].outcome, watching[1].outcome};
  }

 private:
  struct Watching {
    stages::CanaryState canary;
    Outcome outcome = {};
  };

  [[nodiscard]] std::uint64_t key_of(const LiveRequest& request) const {
    return stages::mix64(request.user ^ salt_);
  }
  static std::int64_t routed_us(const LiveRequest& request) {
    return kStartUs + static_cast<std::int64_t>(1e6 * request.at_s);
  }

  void decide(Watching& one, std::uint32_t step, double now_s) {
    if (!one.outcome.clause.empty()) return;
    (void)one.canary.begin_window("router", static_cast<std::uint64_t>(now_s / kWindowS));
    stages::CanaryContext context;
    context.now_ms = kStartUs / 1'000 + static_cast<std::int64_t>(1e3 * now_s);
    context.step = step;
    context.step_started_ms = kStartUs / 1'000 + static_cast<std::int64_t>(1e3 * kStepS * step);
    context.paused = true;
    const stages::CanaryDecision decision = one.canary.decide(context);
    one.outcome.exposed = decision.exposed_requests;
    if (decision.action == stages::CanaryAction::rollback) one.outcome.clause = decision.escalation.clause;
  }

  stages::CanaryObservation observation(const LiveRequest& request, std::uint32_t share_bp) {
    stages::CanaryObservation seen;
    seen.key_hash = key_of(request);
    seen.routed_us = routed_us(request);
    seen.candidate_bp = share_bp;
    // Assignment is by another hash of the key, so that a user stays as the share grows.
    const double place = static_cast<double>(stages::mix64(seen.key_hash + 1) >> 11U) * 0x1.0p-53;
    seen.candidate = place < share_bp / 10'000.0;
    const auto answer = world_->serve(request, seen.candidate ? Arm::candidate : Arm::incumbent);
    seen.outcome = answer.failed ? stages::RequestOutcome::failed : stages::RequestOutcome::ok;
    seen.latency.ttft_ms = answer.first_token_ms;
    return seen;
  }

  std::uint64_t salt_;
  std::unique_ptr<LiveWorld> world_;
  stages::CanarySettings settings_;
};

/// What became of many ramps.
struct Counts {
  /// Shares: rolled back for failures, for those before kMostExposed, and for latency.
  double failures = 0, early = 0, latency = 0;
};

std::array<Counts, kSwings.size()> ramps(const LiveWorldKind& kind, double history_s, const Harm& harm,
                                         std::uint64_t runs, std::uint64_t seed) {
  std::array<Counts, kSwings.size()> all;
  const double one = 1 / static_cast<double>(runs);
  for (std::uint64_t run = 0; run < runs; ++run) {
    const Outcomes outcomes = Ramp(kind, history_s, harm, stages::mix64(seed * 15'485'863 + run)).run();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& [clause, exposed] = outcomes[i];
      all[i].failures += clause == "runtime.errors" ? one : 0;
      all[i].latency += clause == "runtime.ttft" ? one : 0;
      all[i].early += clause == "runtime.errors" && exposed <= kMostExposed ? one : 0;
    }
  }
  return all;
}

/// What is held of arms that are alike under `own`, after half an hour and after four hours of history.
struct Held {
  std::optional<double> short_history, long_history;
};

class Experiment {
 public:
  Experiment(const char* name, const Effort& effort, Figures& out)
      : name_(name), effort_(effort), out_(out) {}

  void alike(const LiveWorldKind& kind, double hours, std::optional<double> held) {
    const auto found = ramps(kind, 3'600 * hours, {}, runs_, effort_.seed);
    const std::string what = std::string(kind.equal ? ", arms alike" : ", equal means") +
                             (hours < 1 ? ", 30 min of history" : ", 4 h of history");
    for (std::size_t i = 0; i < found.size(); ++i) {
      // What half an hour does not show cannot be allowed for; nor is what is taken to be shared.
      if (i > 0 && hours < 1) continue;
      const auto most = kind.equal && i == 0 ? held : std::nullopt;
      add(i, kind.name + what, "rolled back for failures", found[i].failures, most);
      add(i, kind.name + what, "rolled back for latency", found[i].latency, most);
    }
  }

  void worse(const LiveWorldKind& kind, double hours) {
    const auto found = ramps(kind, 3'600 * hours, {2, 1}, runs_, effort_.seed);
    for (std::size_t i = 0; i < found.size(); ++i) {
      add(i, kind.name + ", twice its own failures", "rolled back for failures", found[i].failures);
      add(i, kind.name + ", twice its own failures", "found before 10,000 exposed", found[i].early);
    }
  }

  void run(const std::vector<LiveWorldKind>& kinds, const char* of_few, const Held& held) {
    const bool all = effort_.scale >= kAllSettings;
    for (const LiveWorldKind& kind : kinds) {
      if (!all && kind.name != of_few) continue;
      alike(kind, 0.5, held.short_history);
      if (all) alike(kind, 4, held.long_history);
      worse(kind, all ? 4 : 0.5);
    }
  }

 private:
  void add(std::size_t method, const std::string& scenario, const char* quantity, double value,
           std::optional<double> most = std::nullopt) {
    out_.push_back({name_, kMethods[method], scenario, quantity, value, runs_, most,
                    most ? Claim::approximate : Claim::figure});
  }

  const char* name_;
  const Effort& effort_;
  Figures& out_;
  std::uint64_t runs_ = effort_.runs(200);
};

}  // namespace

void live_traffic(const Effort& effort, Figures& out) {
  Experiment("worlds of a stranger", effort, out).run(live_worlds(), "heavy users fail", {{}, 0.02});
}

void wandering_rates(const Effort& effort, Figures& out) {
  Experiment("wandering rates", effort, out)
      .run(live::kinds_that_wander(), "sd 0.5 on a scale of 1 min", {0.08, 0.02});
}

}  // namespace driftgate::simulation
