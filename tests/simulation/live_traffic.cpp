// Canaries in the worlds of live_worlds.hpp, which somebody wrote who knew what is claimed and not how it is
// done.
#include <optional>
#include <string>
#include <string_view>

#include "stages/canary/canary.hpp"
#include "stages/statistics/random.hpp"
#include "tests/simulation/figure.hpp"
#include "tests/simulation/guarded.hpp"
#include "tests/simulation/live_worlds.hpp"

namespace driftgate::simulation {
namespace {

constexpr const char* kExperiment = "worlds of a stranger";
constexpr const char* kMethod = "a canary on error_rate and on p95 of the first token, max_ratio 1";
constexpr std::uint32_t kSharesBp[] = {100, 500, 2'500, 5'000};
constexpr double kStepS = 1'250, kWindowS = 5;
constexpr std::int64_t kStartUs = 20'000LL * 86'400'000'000;
constexpr std::uint64_t kMostExposed = 10'000;
/// Below this effort only a few worlds and a short history are run.
constexpr double kAllSettings = 0.5;
/// Of arms that are alike, with four hours of history.
constexpr std::optional<double> kMostFalse = 0.02;

schema::Contract contract_of() {
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
  return contract;
}

struct Outcome {
  std::string clause;  ///< of the rollback, or ""
  std::uint64_t exposed = 0;
};

/// A ramp through all steps, which lasts as long whatever is proven, unless it is rolled back.
class Ramp {
 public:
  Ramp(const LiveWorldKind& kind, double history_s, const Harm& harm, std::uint64_t seed)
      : salt_(stages::mix64(seed + 1)), world_(kind.make(seed, -history_s, harm)) {
    settings_.seed = seed;
  }

  Outcome run() {
    LiveRequest request = world_->next();
    for (; request.at_s < 0; request = world_->next()) {
      const auto answer = world_->serve(request, Arm::incumbent);
      settings_.incumbent.observe(key_of(request), false, answer.failed, routed_us(request));
      if (answer.failed) continue;
      stages::Latencies latency;
      latency.ttft_ms = answer.first_token_ms;
      settings_.incumbent_latency.observe(latency, routed_us(request), 1);
    }
    static const schema::Contract contract = contract_of();
    auto canary = *stages::CanaryState::create(contract, settings_);
    canary.begin_step(0);
    std::uint32_t step = 0;
    double decide_s = kWindowS;
    stages::CanaryDecision last;
    for (; request.at_s < kStepS * std::size(kSharesBp); request = world_->next()) {
      for (; decide_s <= request.at_s; decide_s += kWindowS) {
        last = decide(canary, step, decide_s);
        if (last.action == stages::CanaryAction::rollback)
          return {last.escalation.clause, last.exposed_requests};
        if (decide_s >= kStepS * (step + 1)) canary.begin_step(++step);
      }
      observe(canary, request, kSharesBp[step]);
    }
    return {"", last.exposed_requests};
  }

 private:
  [[nodiscard]] std::uint64_t key_of(const LiveRequest& request) const {
    return stages::mix64(request.user ^ salt_);
  }
  static std::int64_t routed_us(const LiveRequest& request) {
    return kStartUs + static_cast<std::int64_t>(1e6 * request.at_s);
  }

  stages::CanaryDecision decide(stages::CanaryState& canary, std::uint32_t step, double now_s) {
    (void)canary.begin_window("router", ++windows_);
    stages::CanaryContext context;
    context.now_ms = kStartUs / 1'000 + static_cast<std::int64_t>(1e3 * now_s);
    context.step = step;
    context.step_started_ms = kStartUs / 1'000 + static_cast<std::int64_t>(1e3 * kStepS * step);
    context.paused = true;
    return canary.decide(context);
  }

  void observe(stages::CanaryState& canary, const LiveRequest& request, std::uint32_t share_bp) {
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
    canary.observe(seen);
  }

  std::uint64_t salt_;
  std::unique_ptr<LiveWorld> world_;
  stages::CanarySettings settings_;
  std::uint64_t windows_ = 0;
};

/// What became of many ramps.
struct Counts {
  /// Shares: rolled back for failures, for those before kMostExposed, and for latency.
  double failures = 0, early = 0, latency = 0;
};

Counts ramps(const LiveWorldKind& kind, double history_s, const Harm& harm, std::uint64_t runs,
             std::uint64_t seed) {
  Counts counts;
  const double one = 1 / static_cast<double>(runs);
  for (std::uint64_t run = 0; run < runs; ++run) {
    const Outcome outcome = Ramp(kind, history_s, harm, stages::mix64(seed * 15'485'863 + run)).run();
    counts.failures += outcome.clause == "runtime.errors" ? one : 0;
    counts.latency += outcome.clause == "runtime.ttft" ? one : 0;
    counts.early += outcome.clause == "runtime.errors" && outcome.exposed <= kMostExposed ? one : 0;
  }
  return counts;
}

}  // namespace

void live_traffic(const Effort& effort, Figures& out) {
  const bool all = effort.scale >= kAllSettings;
  const std::uint64_t runs = effort.runs(200);
  for (const LiveWorldKind& kind : live_worlds()) {
    if (!all && kind.name != "heavy users fail") continue;
    const auto add = [&](const std::string& what, const char* quantity, double value,
                         std::optional<double> most = std::nullopt) {
      out.push_back({kExperiment, kMethod, kind.name + what, quantity, value, runs, most,
                     most ? Claim::approximate : Claim::figure});
    };
    for (const double hours : {0.5, 4.0}) {
      if (!all && hours > 1) continue;
      const Counts alike = ramps(kind, 3'600 * hours, {}, runs, effort.seed);
      const std::string what = std::string(kind.equal ? ", arms alike" : ", equal means") +
                               (hours < 1 ? ", 30 min of history" : ", 4 h of history");
      // What half an hour does not show cannot be allowed for.
      const bool claimed = kind.equal && hours > 1;
      add(what, "rolled back for failures", alike.failures, claimed ? kMostFalse : std::nullopt);
      add(what, "rolled back for latency", alike.latency, claimed ? kMostFalse : std::nullopt);
    }
    const Counts worse = ramps(kind, 3'600 * (all ? 4 : 0.5), {2, 1}, runs, effort.seed);
    add(", twice its own failures", "rolled back for failures", worse.failures);
    add(", twice its own failures", "found before 10,000 exposed", worse.early);
  }
}

}  // namespace driftgate::simulation
