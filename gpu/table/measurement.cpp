#include "gpu/table/measurement.hpp"

#include <algorithm>
#include <limits>

namespace driftgate::gpu {

void Moments::add(double value) {
  min = n == 0 ? value : std::min(min, value);
  max = n == 0 ? value : std::max(max, value);
  ++n;
  sum += value;
  sum_squares += value * value;
}

void Moments::merge(const Moments& other) {
  if (other.n == 0) return;
  min = n == 0 ? other.min : std::min(min, other.min);
  max = n == 0 ? other.max : std::max(max, other.max);
  n += other.n;
  sum += other.sum;
  sum_squares += other.sum_squares;
}

double Moments::mean() const {
  return n == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(n);
}

std::optional<std::size_t> MeasurementTable::bounded(Metric metric) const {
  const auto found = std::ranges::find(partial.metrics, metric);
  if (found == partial.metrics.end()) return std::nullopt;
  return static_cast<std::size_t>(found - partial.metrics.begin());
}

bool MeasurementTable::sampled_by_inf() const {
  const bool unfiltered = inf.sampling_filter.empty() || inf.sampling_filter == "none";
  // The token source "corpus" means that no kernel sampled the tokens, even if a kernel has that name.
  const bool sampled = !inf.kernel.empty() && inf.kernel != "corpus" && inf.token_source == inf.kernel;
  return has_tokens && unfiltered && sampled;
}

}  // namespace driftgate::gpu
