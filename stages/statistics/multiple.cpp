#include "stages/statistics/multiple.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace driftgate::stages {

std::vector<bool> holm(std::span<const double> p_values, double alpha) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p_values[i]; });
  std::vector<bool> rejected(p_values.size(), false);
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    if (p_values[order[rank]] > alpha / static_cast<double>(order.size() - rank)) break;
    rejected[order[rank]] = true;
  }
  return rejected;
}

std::vector<bool> e_holm(std::span<const double> e_values, double alpha) {
  std::vector<double> p_values;
  p_values.reserve(e_values.size());
  for (const double e : e_values) p_values.push_back(e > 0 ? std::min(1.0, 1 / e) : 1.0);
  return holm(p_values, alpha);
}

double e_bh_threshold(std::span<const double> e_values, double alpha) {
  std::vector<double> sorted;
  sorted.reserve(e_values.size());
  for (const double e : e_values) sorted.push_back(e > 0 ? e : 0.0);  // NaN included
  std::ranges::sort(sorted, std::greater{});
  const auto count = static_cast<double>(sorted.size());
  for (std::size_t k = sorted.size(); k > 0; --k) {
    const double line = count / (alpha * static_cast<double>(k));
    if (sorted[k - 1] >= line) return line;
  }
  return count / alpha;
}

std::vector<bool> e_bh(std::span<const double> e_values, double alpha) {
  const double line = e_bh_threshold(e_values, alpha);
  std::vector<bool> rejected;
  rejected.reserve(e_values.size());
  for (const double e : e_values) rejected.push_back(e >= line);
  return rejected;
}

}  // namespace driftgate::stages
