#include "daemon/route/health/first_byte_estimate.hpp"

#include <algorithm>
#include <cmath>

namespace driftgate::route {
namespace {

constexpr double kBinsPerOctave = 8;
constexpr double kQuantile = 0.99;

/// Bin i holds what is above edge(i − 1) and at most edge(i).
double edge_ms(std::size_t bin) {
  return std::exp2(static_cast<double>(bin) / kBinsPerOctave);
}

}  // namespace

void FirstByteEstimate::add(double ms, std::uint32_t count) {
  const double octaves = std::log2(std::max(ms, 1.0));
  const auto bin = static_cast<std::size_t>(std::ceil(kBinsPerOctave * octaves));
  bins_[std::min(bin, kBins - 1)].fetch_add(count, std::memory_order_relaxed);
  const auto before = added_.fetch_add(count, std::memory_order_relaxed);
  const auto after = before + count;
  if (before / kRefreshEvery == after / kRefreshEvery) return;
  if (before / kForgetEvery != after / kForgetEvery) forget();
  refresh();
}

std::optional<double> FirstByteEstimate::p99_ms() const {
  const double known = p99_ms_.load(std::memory_order_relaxed);
  return known > 0 ? std::optional(known) : std::nullopt;
}

/// By nearest rank, with the upper edge of its bin.
void FirstByteEstimate::refresh() {
  std::array<std::uint32_t, kBins> bins{};
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < kBins; ++i) {
    bins[i] = bins_[i].load(std::memory_order_relaxed);
    all += bins[i];
  }
  if (all < kLeastAnswers) return;
  const auto rank = static_cast<std::uint64_t>(std::ceil(kQuantile * static_cast<double>(all)));
  std::uint64_t below = 0;
  std::size_t bin = 0;
  while (bin + 1 < kBins && (below += bins[bin]) < rank) ++bin;
  p99_ms_.store(edge_ms(bin), std::memory_order_relaxed);
}

void FirstByteEstimate::forget() {
  for (auto& bin : bins_) bin.fetch_sub(bin.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed);
}

std::uint32_t first_byte_limit_ms(std::optional<double> p99_ms, std::uint32_t floor_ms,
                                  std::uint32_t cap_ms) {
  if (!p99_ms) return cap_ms;
  const double wanted = std::ceil(2 * *p99_ms) + floor_ms;
  return wanted >= cap_ms ? cap_ms : static_cast<std::uint32_t>(wanted);
}

}  // namespace driftgate::route
