#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "tests/simulation/cases.hpp"
#include "tests/simulation/figure.hpp"
#include "tests/simulation/referee_worlds.hpp"

// Usage: driftgate_simulation [--scale S] [--seed N] [--only EXPERIMENT | --turn N]
//        driftgate_simulation --cases | --truths | --list
//
// Prints one JSON object for each figure; exit 1 when a claim does not hold.

namespace {

using namespace driftgate::simulation;

struct Experiment {
  const char* name;
  void (*run)(const Effort&, Figures&);
  bool takes_turns = false;  ///< with the others that take long: --turn runs one of them
};

constexpr Experiment kExperiments[] = {{"harm", harm_against_incumbent},
                                       {"ratios", failure_ratios, true},
                                       {"rate", absolute_rate},
                                       {"healthy", healthy_candidates},
                                       {"streamed-means", streamed_means},
                                       {"latency", streamed_latency},
                                       {"latency-users", latency_users, true},
                                       {"live-traffic", live_traffic, true},
                                       {"wander", wandering_rates, true},
                                       {"split", traffic_split},
                                       {"canary", whole_canaries},
                                       {"restarts", restarts},
                                       {"means", fixed_means},
                                       {"clips", clipped_means},
                                       {"approximate", approximate_means, true},
                                       {"power", power_of_means, true},
                                       {"shares", fixed_shares},
                                       {"referee", referee_fixed_data},
                                       {"long", referee_long_sequences},
                                       {"paired", paired_tasks},
                                       {"many", many_tests},
                                       {"slices", slices_against_rest, true},
                                       {"guard", guard_run_lengths, true},
                                       {"guard-delays", guard_delays},
                                       {"guard-users", guard_users, true},
                                       {"probes", golden_probes},
                                       {"rescoring", rescored_answers},
                                       {"support", sampler_support, true}};

/// Whether the experiment runs in this turn: those that take turns follow each other, the others always run.
bool runs_in(const Experiment& experiment, std::uint64_t turn) {
  const auto takes_turns = [](const Experiment& one) { return one.takes_turns; };
  const auto place = static_cast<std::uint64_t>(std::count_if(kExperiments, &experiment, takes_turns));
  const auto all = static_cast<std::uint64_t>(std::ranges::count_if(kExperiments, takes_turns));
  return !experiment.takes_turns || place == turn % all;
}

int usage() {
  std::fprintf(
      stderr,
      "usage: driftgate_simulation [--scale S] [--seed N] [--only EXPERIMENT | --turn N] | --cases | "
      "--truths | --list\nexperiments:");
  for (const Experiment& experiment : kExperiments) std::fprintf(stderr, " %s", experiment.name);
  std::fprintf(stderr, "\n");
  return 64;
}

int run(int argc, char** argv) {
  Effort effort;
  std::string only;
  std::optional<std::uint64_t> turn;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--list") {
      for (const Experiment& experiment : kExperiments) std::printf("%s\n", experiment.name);
      return 0;
    }
    if (word == "--truths") {
      std::fputs(referee_truths(200'000, effort.seed).c_str(), stdout);
      return 0;
    }
    if (word == "--cases") {
      print_cases();
      return 0;
    }
    if (i + 1 >= argc) return usage();
    const char* value = argv[++i];
    if (word == "--scale")
      effort.scale = std::atof(value);
    else if (word == "--seed")
      effort.seed = std::strtoull(value, nullptr, 10);
    else if (word == "--only")
      only = value;
    else if (word == "--turn")
      turn = std::strtoull(value, nullptr, 10);
    else
      return usage();
  }
  bool all_hold = true, any = false;
  for (const Experiment& experiment : kExperiments) {
    if (!only.empty() && only != experiment.name) continue;
    if (turn && !runs_in(experiment, *turn)) continue;
    any = true;
    Figures figures;
    experiment.run(effort, figures);
    for (const Figure& figure : figures) {
      std::printf("%s\n", to_json(figure).c_str());
      if (figure.holds()) continue;
      all_hold = false;
      std::fprintf(stderr, "does not hold (seed %llu): %s, %s, %s: %s is %g, claimed %g\n",
                   static_cast<unsigned long long>(effort.seed), figure.experiment.c_str(),
                   figure.method.c_str(), figure.scenario.c_str(), figure.quantity.c_str(), figure.value,
                   figure.claimed().value_or(0));
    }
    std::fflush(stdout);
  }
  if (!any) return usage();
  return all_hold ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "driftgate_simulation: %s\n", error.what());
    return 70;
  }
}
