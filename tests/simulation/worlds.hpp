#pragma once

#include <functional>
#include <string>
#include <vector>

#include "stages/statistics/mean_test.hpp"
#include "stages/statistics/random.hpp"

namespace driftgate::simulation {

/// How sequences drift: each has so many tokens and a sum of their values in [0, 1].
struct World {
  std::string name;
  std::function<stages::ClusterSum(stages::Random&)> draw;
};

/// Means of sequences, log-normal with this mean and coefficient of variation, at most 1; 5 to 60 tokens
/// each, whatever they drift.
[[nodiscard]] World log_normal(double mean, double variation);
/// As that with a coefficient of ½, and a share `bad` of the sequences that carry three quarters of the mean,
/// each of them at most wholly wrong.
[[nodiscard]] World few_bad(double mean, double bad);
/// A share `bad` of the sequences is wholly wrong and nothing else drifts.
[[nodiscard]] World all_or_nothing(double bad);
/// One sequence in two hundred is 25 times as long as the others and holds the drift.
[[nodiscard]] World long_and_bad();
/// Tokens of the longest sequence of `long_and_bad`.
inline constexpr double kLongest = 400;

/// What n sequences of the world look like.
[[nodiscard]] std::vector<stages::ClusterSum> sample(const World& world, std::size_t n,
                                                     stages::Random& random);

/// Figures of the world over four million sequences: the mean over sequences, each capped at `clip`; the mean
/// over tokens; the share of sequences above `clip`.
struct Truth {
  double mean = 0, by_token = 0, above = 0;
};
[[nodiscard]] Truth truth_of(const World& world, double clip = 1);

}  // namespace driftgate::simulation
