#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "stages/statistics/random.hpp"

namespace driftgate::stages {

/// The steps between the figures that are tried, of rates and means and of latencies; and how many times its
/// limit a latency may be.
inline constexpr double kRateStep = 0.1, kLatencyStep = 0.02, kMostSlower = 100;

/// True figures that are tried, from the smallest regression to the largest: `limit` times 1 + step, times (1
/// + step)², … up to `most`, which is the last one. From 1e-4 on where the limit is 0.
[[nodiscard]] std::vector<double> regressions_from(double limit, double most, double step);

/// Simulates a run with this true figure and returns the index of the first exposure by which the test has
/// found it; `exposures` or more for never.
using ExposureRun = std::function<std::size_t(double truth, Random& random)>;

/// For each of `exposures` exposures the smallest of the figures that kPowerWanted of the simulated runs find
/// by then; absent where none is. Precondition: a larger figure is found no later, but for chance.
[[nodiscard]] std::vector<std::optional<double>> smallest_found(const std::vector<double>& figures,
                                                                std::size_t exposures, const ExposureRun& run,
                                                                std::uint64_t seed);

}  // namespace driftgate::stages
