#include "tests/simulation/burst_world.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "stages/clauses/selection.hpp"
#include "stages/statistics/random.hpp"
#include "tests/stages/make.hpp"

namespace driftgate::simulation {
namespace {

using stages::CanaryAction;
using stages::CanaryObservation;
using stages::Random;

constexpr double kWindowS = 5;
constexpr std::int64_t kStartUs = 1'000'000'000'000;
constexpr std::array kLanguages{"language=de", "language=en", "language=es", "language=fr",
                                "language=it", "language=ja", "language=pl", "language=zh"};

/// When an arm stalls next, and whether it does now.
class Stalls {
 public:
  Stalls(const BurstPlan& plan, double every_s, std::uint64_t seed)
      : plan_(plan), every_s_(every_s), random_(seed) {}

  bool at(double now_s) {
    if (plan_.stall_s <= 0 || now_s < plan_.stalls_from_s || now_s > plan_.stalls_to_s) return false;
    if (!begun_) next_s_ = now_s + gap();
    begun_ = true;
    while (now_s >= next_s_ + plan_.stall_s) next_s_ += plan_.stall_s + gap();
    return now_s >= next_s_;
  }

 private:
  double gap() { return -std::log1p(-random_.uniform()) * every_s_; }

  const BurstPlan& plan_;
  double every_s_;
  Random random_;
  bool begun_ = false;
  double next_s_ = 0;
};

class World {
 public:
  World(const schema::Contract& contract, const BurstPlan& plan, std::uint64_t seed)
      : plan_(plan),
        random_(seed),
        incumbent_(plan, plan.stall_every_s, stages::mix64(seed ^ 0x1)),
        candidate_(plan, plan.stall_every_s / plan.more_stalls, stages::mix64(seed ^ 0x2)),
        state_(make(contract, seed)) {
    state_.begin_step(0);
  }

  BurstOutcome run() {
    BurstOutcome out;
    const auto steps = static_cast<std::uint32_t>(plan_.shares_bp.size());
    const double end = plan_.step_s * steps;
    for (double now = 0; now < end; now += kWindowS) {
      const auto step = std::min(steps - 1, static_cast<std::uint32_t>(now / plan_.step_s));
      if (step != step_) state_.begin_step(step_ = step);
      window(now);
      last_ = state_.decide({static_cast<std::int64_t>(1'000 * (now + kWindowS)), step,
                             static_cast<std::int64_t>(1'000 * plan_.step_s * step), 0, true, false});
      out.at_s = now + kWindowS;
      const auto& ratio = last_.verdicts.at(1).details;
      out.label_alone = out.label_alone || ratio.at("e_label") >= ratio.at("e_harm_needed");
      out.sent_away = out.sent_away || !last_.fallback_slices.empty();
      out.rolled_back = last_.action == CanaryAction::rollback;
      if (out.rolled_back) break;
    }
    out.exposed = last_.exposed_requests;
    out.switched = last_.verdicts.at(1).details.at("label_part") <= 0;
    return out;
  }

 private:
  stages::CanaryState make(const schema::Contract& contract, std::uint64_t seed) {
    stages::CanarySettings settings;
    settings.seed = seed;
    for (double now = -plan_.history_s; now < 0; now += gap()) {
      const bool failed = incumbent_.at(now) || random_.uniform() < plan_.base_rate;
      settings.incumbent.observe(random_.next(), false, failed,
                                 kStartUs + static_cast<std::int64_t>(1e6 * now));
    }
    auto state = stages::CanaryState::create(contract, settings);
    if (!state) {
      std::fprintf(stderr, "%s\n", state.error().describe().c_str());
      std::abort();
    }
    return std::move(*state);
  }

  double gap() { return -std::log1p(-random_.uniform()) / plan_.per_second; }

  void window(double start_s) {
    (void)state_.begin_window("router", ++windows_);
    if (next_s_ < start_s) next_s_ = start_s + gap();
    for (; next_s_ < start_s + kWindowS; next_s_ += gap()) observe(next_s_);
  }

  void observe(double now_s) {
    CanaryObservation request;
    const std::size_t language = random_.below(kLanguages.size());
    request.slice = kLanguages[language];
    const schema::SliceWhere slice = stages::parse_slice(request.slice);
    const bool away = std::ranges::any_of(last_.fallback_slices,
                                          [&](const auto& where) { return stages::matches(slice, where); });
    request.candidate_bp = away ? 0 : plan_.shares_bp[step_];
    request.key_hash = random_.next();
    request.candidate = random_.uniform() < request.candidate_bp / 10'000.0;
    const bool stalled = (request.candidate ? candidate_ : incumbent_).at(now_s);
    double rate = plan_.base_rate * (request.candidate ? plan_.ratio : 1);
    if (request.candidate && language == 0 && plan_.broken_language >= 0) rate = plan_.broken_language;
    const bool failed = stalled || random_.uniform() < rate;
    request.outcome = failed ? stages::RequestOutcome::failed : stages::RequestOutcome::ok;
    request.routed_us = kStartUs + static_cast<std::int64_t>(1e6 * now_s);
    state_.observe(request);
  }

  const BurstPlan& plan_;
  Random random_;
  Stalls incumbent_, candidate_;
  stages::CanaryState state_;
  stages::CanaryDecision last_;
  std::uint32_t step_ = 0;
  std::uint64_t windows_ = 0;
  double next_s_ = -1;
};

}  // namespace

schema::Contract burst_contract(const BurstPlan& plan) {
  schema::Limits limits;
  limits.max = 1;  // never reached, and has its part of the level
  limits.max_ratio = plan.max_ratio;
  schema::Contract contract = stages::make::contract();
  contract.clauses = {stages::make::traffic("errors", schema::MetricSubject{schema::Metric::error_rate, {}},
                                            limits, schema::Stage::canary)};
  contract.canary->steps.clear();
  for (const std::uint32_t share : plan.shares_bp) contract.canary->steps.push_back({share, false});
  if (!plan.any_slice) return contract;
  schema::EscalationRule rule;
  rule.match = "runtime.errors";
  rule.action = schema::Action::route_slice;
  rule.any_slice = true;
  contract.escalation.rules = {rule};
  contract.escalation.recovery = {1'000'000, 1'000'000'000};  // what is sent away stays away
  return contract;
}

BurstOutcome run_bursts(const schema::Contract& contract, const BurstPlan& plan, std::uint64_t seed) {
  return World(contract, plan, seed).run();
}

}  // namespace driftgate::simulation
