#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/table/histogram_bins.hpp"
#include "gpu/table/measurement.hpp"

namespace driftgate::gpu {

namespace {

// Bin i holds [1.01^(2i−1), 1.01^(2i+1)) and stands for 1.01^(2i), which is within 1% of every value in it
// and makes 1 (flips, full overlap) exact.
const double kLogGamma = 2.0 * std::log(1.01);

double bin_value(std::int32_t bin) {
  return std::exp(static_cast<double>(bin) * kLogGamma);
}

}  // namespace

HistogramBin histogram_bin(double value) {
  if (value == std::numeric_limits<double>::infinity()) return {HistogramBin::Kind::overflow, 0};
  if (value == -std::numeric_limits<double>::infinity()) return {HistogramBin::Kind::underflow, 0};
  const double size = std::abs(value);
  if (size < std::numeric_limits<double>::min()) return {HistogramBin::Kind::zero, 0};
  const auto bin = static_cast<std::int32_t>(std::lround(std::log(size) / kLogGamma));
  return {value > 0 ? HistogramBin::Kind::positive : HistogramBin::Kind::negative, bin};
}

double upper_edge(const HistogramBin& bin) {
  switch (bin.kind) {
    case HistogramBin::Kind::positive:
      return std::exp((static_cast<double>(bin.index) + 0.5) * kLogGamma);
    case HistogramBin::Kind::negative:
      return -std::exp((static_cast<double>(bin.index) - 0.5) * kLogGamma);
    case HistogramBin::Kind::overflow:
      return std::numeric_limits<double>::infinity();
    case HistogramBin::Kind::underflow:
      return -std::numeric_limits<double>::infinity();
    case HistogramBin::Kind::zero:
      break;
  }
  return 0;
}

void Histogram::add(double value) {
  if (std::isnan(value)) return;
  const auto [kind, bin] = histogram_bin(value);
  switch (kind) {
    case HistogramBin::Kind::positive:
      ++positive[bin];
      break;
    case HistogramBin::Kind::negative:
      ++negative[bin];
      break;
    case HistogramBin::Kind::zero:
      ++zero;
      break;
    case HistogramBin::Kind::overflow:
      ++overflow;
      break;
    case HistogramBin::Kind::underflow:
      ++underflow;
      break;
  }
}

void Histogram::merge(const Histogram& other) {
  for (const auto& [bin, count_of_bin] : other.positive) positive[bin] += count_of_bin;
  for (const auto& [bin, count_of_bin] : other.negative) negative[bin] += count_of_bin;
  zero += other.zero;
  overflow += other.overflow;
  underflow += other.underflow;
}

std::uint64_t Histogram::count() const {
  std::uint64_t total = zero + overflow + underflow;
  for (const auto& [bin, count_of_bin] : positive) total += count_of_bin;
  for (const auto& [bin, count_of_bin] : negative) total += count_of_bin;
  return total;
}

double Histogram::quantile(double p) const {
  const std::uint64_t total = count();
  if (total == 0) return std::numeric_limits<double>::quiet_NaN();
  // ⌈pn⌉ with a guard: 0.99 · 100 is 99.00000000000001 in binary.
  const double exact = p * static_cast<double>(total);
  const double rank =
      std::clamp(std::ceil(exact - 1e-9 * std::max(1.0, exact)), 1.0, static_cast<double>(total));
  auto left = static_cast<std::uint64_t>(rank);
  if (left <= underflow) return -std::numeric_limits<double>::infinity();
  left -= underflow;
  for (auto it = negative.rbegin(); it != negative.rend(); ++it) {
    if (left <= it->second) return -bin_value(it->first);
    left -= it->second;
  }
  if (left <= zero) return 0.0;
  left -= zero;
  for (const auto& [bin, count_of_bin] : positive) {
    if (left <= count_of_bin) return bin_value(bin);
    left -= count_of_bin;
  }
  return std::numeric_limits<double>::infinity();
}

void HistogramBuilder::Dense::add(std::int32_t bin) {
  if (counts.empty()) {
    first = bin;
    counts.push_back(1);
    return;
  }
  if (bin < first) {
    counts.insert(counts.begin(), static_cast<std::size_t>(first - bin), 0);
    first = bin;
  }
  const auto index = static_cast<std::size_t>(bin - first);
  if (index >= counts.size()) counts.resize(index + 1, 0);
  ++counts[index];
}

void HistogramBuilder::add(const HistogramBin& bin) {
  switch (bin.kind) {
    case HistogramBin::Kind::positive:
      positive_.add(bin.index);
      break;
    case HistogramBin::Kind::negative:
      negative_.add(bin.index);
      break;
    case HistogramBin::Kind::zero:
      ++zero_;
      break;
    case HistogramBin::Kind::overflow:
      ++overflow_;
      break;
    case HistogramBin::Kind::underflow:
      ++underflow_;
      break;
  }
}

Histogram HistogramBuilder::build() const {
  Histogram out;
  const auto fill = [](const Dense& dense, std::map<std::int32_t, std::uint64_t>& bins) {
    for (std::size_t i = 0; i < dense.counts.size(); ++i) {
      if (dense.counts[i] != 0) bins.emplace(dense.first + static_cast<std::int32_t>(i), dense.counts[i]);
    }
  };
  fill(positive_, out.positive);
  fill(negative_, out.negative);
  out.zero = zero_;
  out.overflow = overflow_;
  out.underflow = underflow_;
  return out;
}

}  // namespace driftgate::gpu
