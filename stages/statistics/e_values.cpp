#include "stages/statistics/e_values.hpp"

#include <algorithm>
#include <numeric>

namespace driftgate::stages {

double mean_over_starts(std::span<const double> begun, std::uint32_t planned) {
  const auto open = static_cast<double>(begun.size());
  const double all = std::max(1.0, std::max(open, static_cast<double>(planned)));
  return (std::accumulate(begun.begin(), begun.end(), 0.0) + (all - open)) / all;
}

double first_start_e_value(std::span<const double> begun, std::uint32_t planned) {
  if (begun.empty()) return 1;
  const std::size_t all = std::max<std::size_t>(begun.size(), planned);
  if (all == 1) return begun.front();
  const double later = 0.5 / static_cast<double>(all - 1);
  double sum = 0.5 * begun.front() + later * static_cast<double>(all - begun.size());
  for (std::size_t i = 1; i < begun.size(); ++i) sum += later * begun[i];
  return sum;
}

double weighted_e_value(std::span<const double> e_values, std::span<const double> weights) {
  double sum = 0;
  const std::size_t count = std::min(e_values.size(), weights.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (weights[i] > 0) sum += weights[i] * e_values[i];
  }
  return sum;
}

}  // namespace driftgate::stages
