#include "stages/planning/regression_search.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "stages/planning/clause_world.hpp"

namespace driftgate::stages {

std::vector<double> regressions_from(double limit, double most, double step) {
  constexpr double kSmallest = 1e-4;
  std::vector<double> figures;
  for (double truth = limit > 0 ? limit * (1 + step) : kSmallest; truth < most; truth *= 1 + step)
    figures.push_back(truth);
  if (limit < most) figures.push_back(most);
  return figures;
}

std::vector<std::optional<double>> smallest_found(const std::vector<double>& figures, std::size_t exposures,
                                                  const ExposureRun& run, std::uint64_t seed) {
  const int wanted = static_cast<int>(std::ceil(kPowerWanted * kSimulatedRuns));
  // How many runs have found the figure by each exposure, for the figures that were simulated.
  std::map<std::size_t, std::vector<int>> known;
  const auto found_by = [&](std::size_t index, std::size_t exposure) {
    const auto [entry, fresh] = known.try_emplace(index, exposures, 0);
    std::vector<int>& counts = entry->second;
    for (int i = 0; fresh && i < kSimulatedRuns; ++i) {
      const auto open = [&](int count) { return count < wanted && count + kSimulatedRuns - i >= wanted; };
      if (std::ranges::none_of(counts, open)) break;
      Random random(mix64(seed + static_cast<std::uint64_t>(i)));
      for (std::size_t e = run(figures[index], random); e < exposures; ++e) ++counts[e];
    }
    return entry->second[exposure] >= wanted;
  };
  std::vector<std::optional<double>> smallest(exposures);
  for (std::size_t exposure = 0; exposure < exposures; ++exposure) {
    std::size_t low = 0;
    std::size_t high = figures.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (found_by(middle, exposure)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    if (high < figures.size()) smallest[exposure] = figures[high];
  }
  return smallest;
}

}  // namespace driftgate::stages
