#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace driftgate::simulation {

/// What a figure must be. `exact`: at most `nominal` up to three Monte-Carlo standard errors; `at_least`: no
/// less than `nominal` up to the same; `approximate`: at most its stated `ceiling` up to the same (the
/// nominal level where it states none); `figure` claims nothing and is reported.
enum class Claim : std::uint8_t { exact, at_least, approximate, figure };

/// One number that a simulation found.
struct Figure {
  std::string experiment;  ///< "harm against the incumbent"
  std::string method;      ///< "label e-process"
  std::string scenario;    ///< "ratio 1, clustered failures"
  std::string quantity;    ///< "false rollbacks"
  double value = 0;
  std::uint64_t runs = 0;
  std::optional<double> nominal{};
  Claim claim = Claim::figure;
  std::string reference{};          ///< what the design gives for it, or empty
  std::optional<double> ceiling{};  ///< of an approximate claim

  [[nodiscard]] bool holds() const;
  /// What the figure is held to: the ceiling of an approximate claim, else the nominal value.
  [[nodiscard]] std::optional<double> claimed() const;
  /// Three Monte-Carlo standard errors of a share at what is claimed; 0 for other figures.
  [[nodiscard]] double error() const;
};

using Figures = std::vector<Figure>;

/// One JSON object a line.
[[nodiscard]] std::string to_json(const Figure& figure);

/// How many runs an experiment makes: `scale` times its usual number, at least 20.
struct Effort {
  double scale = 1;
  std::uint64_t seed = 1;
  [[nodiscard]] std::uint64_t runs(std::uint64_t usual) const;
};

// The experiments; each appends its figures.
void harm_against_incumbent(const Effort& effort, Figures& out);
void failure_ratios(const Effort& effort, Figures& out);
void absolute_rate(const Effort& effort, Figures& out);
void healthy_candidates(const Effort& effort, Figures& out);
void streamed_means(const Effort& effort, Figures& out);
void streamed_latency(const Effort& effort, Figures& out);
void latency_users(const Effort& effort, Figures& out);
void live_traffic(const Effort& effort, Figures& out);
void wandering_rates(const Effort& effort, Figures& out);
void traffic_split(const Effort& effort, Figures& out);
void whole_canaries(const Effort& effort, Figures& out);
void restarts(const Effort& effort, Figures& out);
void fixed_means(const Effort& effort, Figures& out);
void clipped_means(const Effort& effort, Figures& out);
void approximate_means(const Effort& effort, Figures& out);
void power_of_means(const Effort& effort, Figures& out);
void fixed_shares(const Effort& effort, Figures& out);
void referee_fixed_data(const Effort& effort, Figures& out);
void referee_long_sequences(const Effort& effort, Figures& out);
void paired_tasks(const Effort& effort, Figures& out);
void many_tests(const Effort& effort, Figures& out);
void sampler_support(const Effort& effort, Figures& out);
void slices_against_rest(const Effort& effort, Figures& out);
void guard_run_lengths(const Effort& effort, Figures& out);
void guard_delays(const Effort& effort, Figures& out);
void guard_users(const Effort& effort, Figures& out);
void golden_probes(const Effort& effort, Figures& out);
void rescored_answers(const Effort& effort, Figures& out);

}  // namespace driftgate::simulation
