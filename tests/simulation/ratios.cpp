#include <algorithm>
#include <functional>
#include <string>

#include "stages/statistics/random.hpp"
#include "tests/simulation/burst_world.hpp"
#include "tests/simulation/figure.hpp"

namespace driftgate::simulation {
namespace {

constexpr double kAlphaHarm = 0.005;  // the first attempt spends half of 0.01
constexpr const char* kExperiment = "failure rates over blocks of time";
constexpr const char* kMethod = "the canary's tests of max_ratio, slice: any";
constexpr const char* kLabels = "label e-process alone";
constexpr std::uint64_t kMostExposed = 10'000;
/// Below this effort only what is stated in the design is run: the burst world, and power without bursts.
constexpr double kAllSettings = 0.5;

struct Setting {
  std::string name;
  BurstPlan plan;
};

std::vector<BurstOutcome> outcomes_of(const BurstPlan& plan, std::uint64_t runs, std::uint64_t seed) {
  const auto contract = burst_contract(plan);
  std::vector<BurstOutcome> outcomes;
  for (std::uint64_t run = 0; run < runs; ++run)
    outcomes.push_back(run_bursts(contract, plan, stages::mix64(seed * 1'000'003 + run)));
  return outcomes;
}

double share(const std::vector<BurstOutcome>& outcomes, const std::function<bool(const BurstOutcome&)>& is) {
  return static_cast<double>(std::ranges::count_if(outcomes, is)) / static_cast<double>(outcomes.size());
}

bool stopped(const BurstOutcome& outcome) {
  return outcome.rolled_back && outcome.exposed <= kMostExposed;
}

/// Those that were not stopped count with all that they exposed.
double median_exposed(const std::vector<BurstOutcome>& outcomes) {
  std::vector<double> values;
  for (const BurstOutcome& outcome : outcomes) values.push_back(static_cast<double>(outcome.exposed));
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

BurstPlan at_share(std::uint32_t share_bp) {
  BurstPlan plan;
  plan.shares_bp = {share_bp};
  plan.step_s = 3'200;
  return plan;
}

/// Arms that follow the same law are not to be rolled back, whether they stall or not.
void alike(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(1'000);
  std::vector<Setting> settings;
  for (const std::uint32_t share_bp : {100U, 1'000U, 5'000U}) {
    const std::string at = ", share of " + std::to_string(share_bp / 100) + "%";
    BurstPlan plan = at_share(share_bp);
    if (effort.scale >= kAllSettings) settings.push_back({"alike, nothing stalls" + at, plan});
    plan.stall_s = 4;
    settings.push_back({"alike, each arm stalls for 4 s every 200 s" + at, plan});
    plan.stalls_from_s = 1'000;
    if (effort.scale < kAllSettings) continue;
    settings.push_back({"alike, stalls begin after 1,000 s" + at, plan});
  }
  BurstPlan ramp;
  if (effort.scale >= kAllSettings) {
    settings.push_back({"alike, nothing stalls, ramp 1/5/25/50%", ramp});
    ramp.stall_s = 4;
    settings.push_back({"alike, each arm stalls for 4 s every 200 s, ramp 1/5/25/50%", ramp});
  }
  for (const Setting& setting : settings) {
    const auto outcomes = outcomes_of(setting.plan, runs, effort.seed + 211);
    out.push_back({kExperiment, kMethod, setting.name, "false rollbacks or slices sent away",
                   share(outcomes, [](const auto& o) { return o.rolled_back || o.sent_away; }), runs,
                   kAlphaHarm, Claim::exact, ""});
    out.push_back({kExperiment, kLabels, setting.name, "false rollbacks",
                   share(outcomes, [](const auto& o) { return o.label_alone; }), runs, std::nullopt,
                   Claim::figure, ""});
    out.push_back({kExperiment, kMethod, setting.name, "single failures no longer count",
                   share(outcomes, [](const auto& o) { return o.switched; }), runs, std::nullopt,
                   Claim::figure, ""});
  }
}

struct Harm {
  std::string name;
  BurstPlan plan;
  std::optional<double> most_exposed, least_stopped;
};

std::vector<Harm> harms() {
  std::vector<Harm> all;
  const auto add = [&](const std::string& name, const std::function<void(BurstPlan&)>& change,
                       std::optional<double> most_exposed = {}, std::optional<double> least_stopped = {}) {
    BurstPlan plan;
    change(plan);
    all.push_back({name, plan, most_exposed, least_stopped});
  };
  add(
      "2× at a max_ratio of 1", [](BurstPlan& p) { p.ratio = 2; }, 3'000, 0.95);
  add(
      "3× at a max_ratio of 1.5", [](BurstPlan& p) { p.ratio = 3, p.max_ratio = 1.5; }, 2'000, 0.95);
  add("5× at a max_ratio of 1", [](BurstPlan& p) { p.ratio = 5; });
  add("2× at a max_ratio of 1, no history of the incumbent",
      [](BurstPlan& p) { p.ratio = 2, p.history_s = 0; });
  add("2× at a max_ratio of 1, blocks alone: each arm stalled once before",
      [](BurstPlan& p) { p.ratio = 2, p.stall_s = 4, p.stalls_from_s = -700, p.stalls_to_s = -500; });
  add("3× at a max_ratio of 1.5, blocks alone: each arm stalled once before", [](BurstPlan& p) {
    p.ratio = 3, p.max_ratio = 1.5, p.stall_s = 4, p.stalls_from_s = -700, p.stalls_to_s = -500;
  });
  add("2× among stalls of 4 s every 200 s, max_ratio 1", [](BurstPlan& p) { p.ratio = 2, p.stall_s = 4; });
  add("3× among stalls of 4 s every 200 s, max_ratio 1", [](BurstPlan& p) { p.ratio = 3, p.stall_s = 4; });
  add("5× among stalls of 4 s every 200 s, max_ratio 1", [](BurstPlan& p) { p.ratio = 5, p.stall_s = 4; });
  add("4 times as many stalls of 4 s as the incumbent's every 200 s, max_ratio 1",
      [](BurstPlan& p) { p.stall_s = 4, p.more_stalls = 4; });
  add("2× at a max_ratio of 1, stalls begin in the middle of the second step",
      [](BurstPlan& p) { p.ratio = 2, p.stall_s = 4, p.stalls_from_s = 1'875; });
  add("3× at a max_ratio of 1.5, stalls begin in the middle of the second step",
      [](BurstPlan& p) { p.ratio = 3, p.max_ratio = 1.5, p.stall_s = 4, p.stalls_from_s = 1'875; });
  return all;
}

void worse(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(400);
  const bool all = effort.scale >= kAllSettings;  // the median of 20 runs says little
  for (const Harm& harm : harms()) {
    if (!all && !harm.least_stopped) continue;
    const auto outcomes = outcomes_of(harm.plan, runs, effort.seed + 307);
    out.push_back({kExperiment, kMethod, harm.name, "stopped before 10,000 were exposed",
                   share(outcomes, stopped), runs, harm.least_stopped,
                   harm.least_stopped ? Claim::at_least : Claim::figure, ""});
    out.push_back({kExperiment, kMethod, harm.name, "rolled back in the whole ramp",
                   share(outcomes, [](const auto& o) { return o.rolled_back; }), runs, std::nullopt,
                   Claim::figure, ""});
    out.push_back({kExperiment, kMethod, harm.name, "requests exposed (median)", median_exposed(outcomes),
                   runs, all ? harm.most_exposed : std::nullopt,
                   all && harm.most_exposed ? Claim::exact : Claim::figure, ""});
  }
}

/// One language of eight fails 30% of its requests on the candidate.
void one_slice(const Effort& effort, Figures& out) {
  const std::uint64_t runs = effort.runs(400);
  BurstPlan plan;
  plan.max_ratio = 1.5;
  plan.broken_language = 0.3;
  const auto outcomes = outcomes_of(plan, runs, effort.seed + 401);
  const std::string scenario = "an eighth of the traffic fails 30%, ramp 1/5/25/50%";
  out.push_back({kExperiment, kMethod, scenario, "the slice sent away and nothing rolled back",
                 share(outcomes, [](const auto& o) { return o.sent_away && !o.rolled_back; }), runs,
                 std::nullopt, Claim::figure, ""});
}

}  // namespace

void failure_ratios(const Effort& effort, Figures& out) {
  alike(effort, out);
  worse(effort, out);
  if (effort.scale >= kAllSettings) one_slice(effort, out);
}

}  // namespace driftgate::simulation
