#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gpu/table/histogram_bins.hpp"
#include "gpu/table/measurement.hpp"

using namespace driftgate::gpu;

namespace {

double exact_quantile(std::vector<double> values, double p) {
  std::ranges::sort(values);
  const double rank = std::ceil(p * static_cast<double>(values.size()) - 1e-9);
  return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace

TEST_CASE("quantiles are within one percent of the exact ones over all magnitudes and signs") {
  constexpr std::uint64_t kSeed = 5;
  CAPTURE(kSeed);
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  for (const double spread : {0.01, 1.0, 10.0}) {
    std::vector<double> values;
    Histogram histogram;
    for (int i = 0; i < 5'000; ++i) {
      const double size = std::exp(spread * normal(random));
      values.push_back(i % 7 == 0 ? 0.0 : (i % 3 == 0 ? -size : size));
      histogram.add(values.back());
    }
    for (const double p : {0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0}) {
      const double wanted = exact_quantile(values, p);
      CAPTURE(p);
      CHECK(std::abs(histogram.quantile(p) - wanted) <= 0.010001 * std::abs(wanted));
    }
  }
}

TEST_CASE("the rank of a quantile is not moved by rounding of p") {
  Histogram histogram;
  for (int i = 1; i <= 100; ++i) histogram.add(std::pow(2.0, i));
  CHECK(histogram.quantile(0.99) == doctest::Approx(std::pow(2.0, 99)).epsilon(0.01));
  CHECK(histogram.quantile(0.07) == doctest::Approx(std::pow(2.0, 7)).epsilon(0.01));
  CHECK(histogram.quantile(0.0) == doctest::Approx(2.0).epsilon(0.01));
}

TEST_CASE("zero and one come back exactly, infinities at the ends, NaN not at all") {
  Histogram histogram;
  for (const double value :
       {0.0, 1.0, -1.0, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    histogram.add(value);
  }
  CHECK(histogram.count() == 5);
  CHECK(histogram.quantile(0.2) == -std::numeric_limits<double>::infinity());
  CHECK(histogram.quantile(0.4) == -1.0);
  CHECK(histogram.quantile(0.6) == 0.0);
  CHECK(histogram.quantile(0.8) == 1.0);
  CHECK(histogram.quantile(1.0) == std::numeric_limits<double>::infinity());
  CHECK(std::isnan(Histogram{}.quantile(0.5)));
}

TEST_CASE("merged histograms equal the histogram of all values, and the builder builds the same") {
  Histogram all, left, right;
  HistogramBuilder builder;
  for (int i = -50; i < 50; ++i) {
    const double value = i * std::abs(i) * 1e-3;
    all.add(value);
    (i % 2 == 0 ? left : right).add(value);
    builder.add(histogram_bin(value));
  }
  left.merge(right);
  const Histogram built = builder.build();
  for (const Histogram* other : {static_cast<const Histogram*>(&left), &built}) {
    CHECK(other->positive == all.positive);
    CHECK(other->negative == all.negative);
    CHECK(other->zero == all.zero);
  }
}

TEST_CASE("the smallest and the largest double have bins") {
  for (const double value : {std::numeric_limits<double>::min(), std::numeric_limits<double>::max()}) {
    Histogram histogram;
    histogram.add(value);
    CHECK(std::abs(histogram.quantile(0.5) / value - 1) < 0.0101);
  }
}
