#include <algorithm>
#include <functional>
#include <unordered_set>

#include "stages/statistics/failure_rate_process.hpp"
#include "stages/statistics/label_process.hpp"
#include "stages/statistics/random.hpp"
#include "tests/simulation/figure.hpp"
#include "tests/simulation/rivals.hpp"

#include <nlohmann/json.hpp>

namespace driftgate::simulation {
namespace {

constexpr double kAlpha = 0.05;

struct Named {
  const char* name;
  std::function<void(TrafficPlan&)> change;
};

const std::vector<Named>& scenarios() {
  static const std::vector<Named> all{
      {"ramp 1/5/25/50%", [](TrafficPlan&) {}},
      {"heavy-tailed keys", [](TrafficPlan& plan) { plan.heavy_keys = true; }},
      {"clustered failures of heavy-tailed keys",
       [](TrafficPlan& plan) { plan.heavy_keys = plan.clustered = true; }},
      {"daily load", [](TrafficPlan& plan) { plan.daily = true; }},
      {"late failures of the incumbent", [](TrafficPlan& plan) { plan.late = true; }},
      {"all of these",
       [](TrafficPlan& plan) { plan.heavy_keys = plan.clustered = plan.daily = plan.late = true; }}};
  return all;
}

struct Method {
  const char* name;
  Claim claim;
  std::function<Ended(const std::vector<Request>&)> run;
};

const std::vector<Method>& methods() {
  static const std::vector<Method> all{
      {"label e-process", Claim::exact, [](const auto& r) { return by_labels(r, 1, kAlpha); }},
      {"threshold on the mean (1.5×)", Claim::figure, [](const auto& r) { return by_threshold(r); }},
      {"repeated z-test", Claim::figure, [](const auto& r) { return by_repeated_z(r, kAlpha); }},
      {"Mann–Whitney per window", Claim::figure, [](const auto& r) { return by_mann_whitney(r, kAlpha); }}};
  return all;
}

double median(std::vector<std::uint64_t> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return static_cast<double>(*middle);
}

void boundary(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(2'000);
  for (const Named& scenario : scenarios()) {
    TrafficPlan plan;
    scenario.change(plan);
    std::vector<std::uint64_t> alarms(methods().size());
    std::uint64_t in_arrival_order = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      const auto requests = traffic(plan, stages::mix64(effort.seed + run));
      for (std::size_t i = 0; i < alarms.size(); ++i) alarms[i] += methods()[i].run(requests).alarm ? 1 : 0;
      if (plan.late) in_arrival_order += by_labels(requests, 1, kAlpha, false).alarm ? 1 : 0;
    }
    const auto share = [runs](std::uint64_t n) { return static_cast<double>(n) / static_cast<double>(runs); };
    for (std::size_t i = 0; i < alarms.size(); ++i) {
      const bool plain = i == 0 && &scenario == scenarios().data();
      out.push_back({"harm against the incumbent", methods()[i].name, scenario.name, "false rollbacks",
                     share(alarms[i]), runs, kAlpha, methods()[i].claim, plain ? "about 3%" : ""});
    }
    if (plan.late) {
      out.push_back({"harm against the incumbent", "label e-process fed in arrival order", scenario.name,
                     "false rollbacks", share(in_arrival_order), runs, kAlpha, Claim::figure, ""});
    }
  }
}

void power(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(1'000);
  for (const double ratio : {1.5, 2.0, 3.0, 5.0}) {
    TrafficPlan plan;
    plan.ratio = ratio;
    std::vector<std::vector<std::uint64_t>> exposed(methods().size());
    std::vector<std::uint64_t> strict;
    for (std::uint64_t run = 0; run < runs; ++run) {
      const auto requests = traffic(plan, stages::mix64(effort.seed + 7 + run));
      for (std::size_t i = 0; i < exposed.size(); ++i) {
        const Ended ended = methods()[i].run(requests);
        if (ended.alarm) exposed[i].push_back(ended.exposed);
      }
      if (const Ended ended = by_labels(requests, 1, 0.01); ended.alarm) strict.push_back(ended.exposed);
    }
    const std::string scenario = "ratio " + std::to_string(ratio).substr(0, 3);
    const auto add = [&](const char* method, const std::vector<std::uint64_t>& stopped, const char* reference,
                         bool claimed) {
      out.push_back({"harm against the incumbent", method, scenario, "stopped",
                     static_cast<double>(stopped.size()) / static_cast<double>(runs), runs, 1.0,
                     claimed ? Claim::at_least : Claim::figure, ""});
      out.push_back({"harm against the incumbent", method, scenario, "requests exposed (median)",
                     median(stopped), runs, std::nullopt, Claim::figure, reference});
    };
    for (std::size_t i = 0; i < exposed.size(); ++i) {
      const char* reference = i != 0 ? "" : ratio == 2 ? "about 935" : ratio == 5 ? "about 77" : "";
      add(methods()[i].name, exposed[i], reference, i == 0 && ratio >= 2);
    }
    add("label e-process, α = 0.01", strict, ratio == 2 ? "1,481" : ratio == 5 ? "123" : "", ratio >= 2);
  }
}

/// The candidate's first request of each key against `max`; calls `look` after each.
template <typename Look>
void first_requests(const std::vector<Request>& requests, stages::FailureRateProcess& process, Look look) {
  std::unordered_set<std::uint64_t> seen;
  for (const Request& request : requests) {
    if (!request.candidate || !seen.insert(request.key).second) continue;
    process.update(request.failed);
    look();
  }
}

}  // namespace

void harm_against_incumbent(const Effort& effort, Figures& out) {
  boundary(effort, out);
  power(effort, out);
}

void absolute_rate(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(2'000);
  for (const Named& scenario : scenarios()) {
    TrafficPlan plan;
    plan.requests = 40'000;
    plan.base_rate = 0.02;
    scenario.change(plan);
    plan.late = false;
    // Where the rate moves, the hypothesis is about its extreme.
    const double harm_max = plan.base_rate * (plan.daily ? 1.5 : 1);
    const double proof_max = plan.base_rate * (plan.daily ? 0.5 : 1);
    std::uint64_t harm = 0, proof = 0;
    for (std::uint64_t run = 0; run < runs; ++run) {
      const auto requests = traffic(plan, stages::mix64(effort.seed + 31 + run));
      stages::FailureRateProcess up(harm_max), down(proof_max);
      bool harmed = false, proven = false;
      first_requests(requests, up, [&] { harmed = harmed || up.e_harm() >= 1 / kAlpha; });
      first_requests(requests, down, [&] { proven = proven || down.e_proof() >= 1 / kAlpha; });
      harm += harmed ? 1 : 0;
      proof += proven ? 1 : 0;
    }
    const auto add = [&](const char* quantity, std::uint64_t count) {
      out.push_back({"absolute failure rate", "betting on the first request of each key", scenario.name,
                     quantity, static_cast<double>(count) / static_cast<double>(runs), runs, kAlpha,
                     Claim::exact, ""});
    };
    add("false alarms at the limit", harm);
    add("false advances at the limit", proof);
  }
}

void healthy_candidates(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(400);
  constexpr std::uint32_t kStarts = 5;
  constexpr double kAdvance = 0.025;  // the first attempt spends half of 0.05
  constexpr std::uint64_t kMost = 200'000;
  for (const double max : {0.02, 0.05}) {
    for (const double rate : {0.0, 0.001, 0.01}) {
      const double needed = kStarts / kAdvance - (kStarts - 1);
      std::vector<std::uint64_t> keys;
      for (std::uint64_t run = 0; run < runs; ++run) {
        stages::Random random(stages::mix64(effort.seed + 61 + run));
        stages::FailureRateProcess process(max);
        while (process.e_proof() < needed && process.keys() < kMost) process.update(random.uniform() < rate);
        keys.push_back(process.keys());
      }
      std::ranges::sort(keys);
      const std::string scenario =
          "max " + std::to_string(static_cast<int>(max * 100)) + "%, " +
          (rate <= 0 ? std::string("nothing fails") : std::to_string(rate * 100).substr(0, 3) + "% fail");
      const auto add = [&](const char* quantity, double share) {
        const auto at = static_cast<std::size_t>(share * static_cast<double>(keys.size() - 1));
        out.push_back({"keys a healthy candidate needs to advance", "betting, 5 planned starts", scenario,
                       quantity, static_cast<double>(keys[at]), runs, std::nullopt, Claim::figure, ""});
      };
      add("keys (median)", 0.5);
      add("keys (9 of 10)", 0.9);
    }
  }
}

void restarts(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(300);
  std::uint64_t different = 0;
  for (std::uint64_t run = 0; run < runs; ++run) {
    stages::Random random(stages::mix64(effort.seed + 91 + run));
    TrafficPlan plan;
    plan.requests = 20'000;
    plan.heavy_keys = plan.clustered = true;
    plan.ratio = 1 + random.uniform();
    stages::LabelProcess steady(1), restarted(1);
    std::unordered_set<std::uint64_t> failed;
    for (const Request& request : traffic(plan, stages::mix64(effort.seed + 92 + run))) {
      if (random.uniform() < 0.001)
        restarted = stages::LabelProcess::from_json(nlohmann::json::parse(restarted.to_json().dump()), 1);
      if (!request.failed || !failed.insert(request.key).second) continue;
      steady.update(request.candidate, request.share);
      restarted.update(request.candidate, request.share);
      const bool alarm = steady.e_value() >= 1 / kAlpha;
      if (alarm != (restarted.e_value() >= 1 / kAlpha)) ++different;
    }
  }
  out.push_back({"restarts", "label e-process", "serialised and read back at random requests",
                 "decisions that differ", static_cast<double>(different), runs, 0.0, Claim::exact, "none"});
}

}  // namespace driftgate::simulation
