#include "gpu/table/cumulative.hpp"

#include <algorithm>
#include <limits>

#include "gpu/table/histogram_bins.hpp"

namespace driftgate::gpu {

namespace {

/// Counts by upper edge, in ascending order of the edges.
class Steps {
 public:
  void add(double edge, std::uint64_t count) {
    if (count == 0) return;
    total_ += count;
    if (!edges_.empty() && edges_.back() == edge) {
      counts_.back() = total_;
      return;
    }
    edges_.push_back(edge);
    counts_.push_back(total_);
  }

  [[nodiscard]] Cumulative thinned(std::size_t most) const {
    Cumulative out;
    const std::size_t size = edges_.size();
    const std::size_t kept = std::min(size, std::max<std::size_t>(most, 2));
    for (std::size_t i = 1; i <= kept; ++i) {
      const std::size_t at = i * size / kept - 1;
      out.edges.push_back(edges_[at]);
      out.shares.push_back(static_cast<double>(counts_[at]) / static_cast<double>(total_));
    }
    return out;
  }

 private:
  std::vector<double> edges_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

}  // namespace

Cumulative cumulative(const Histogram& histogram, std::size_t most) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  Steps steps;
  steps.add(-kInfinite, histogram.underflow);
  for (auto bin = histogram.negative.rbegin(); bin != histogram.negative.rend(); ++bin)
    steps.add(upper_edge({HistogramBin::Kind::negative, bin->first}), bin->second);
  steps.add(0.0, histogram.zero);
  for (const auto& [bin, count] : histogram.positive)
    steps.add(upper_edge({HistogramBin::Kind::positive, bin}), count);
  steps.add(kInfinite, histogram.overflow);
  return steps.thinned(most);
}

Cumulative cumulative(std::vector<double> values, std::size_t most) {
  std::ranges::sort(values);
  Steps steps;
  for (const double value : values) steps.add(value, 1);
  return steps.thinned(most);
}

}  // namespace driftgate::gpu
