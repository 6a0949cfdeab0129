#include "gpu/table/cumulative.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using namespace driftgate::gpu;

namespace {

double share_at_most(const std::vector<double>& values, double edge) {
  const auto count = std::ranges::count_if(values, [&](double value) { return value <= edge; });
  return static_cast<double>(count) / static_cast<double>(values.size());
}

Histogram histogram_of(const std::vector<double>& values) {
  Histogram histogram;
  for (const double value : values) histogram.add(value);
  return histogram;
}

}  // namespace

TEST_CASE("a histogram's distribution says which share of the values is at most each edge") {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0.1, 1);
  std::vector<double> values(2'000);
  for (double& value : values) value = normal(random);
  values.insert(values.end(), 50, 0.0);
  const auto found = cumulative(histogram_of(values), 10'000);
  REQUIRE(found.edges.size() == found.shares.size());
  REQUIRE(found.edges.size() > 100);
  CHECK(std::ranges::is_sorted(found.edges));
  for (std::size_t i = 0; i < found.edges.size(); ++i)
    CHECK(found.shares[i] == doctest::Approx(share_at_most(values, found.edges[i])).epsilon(1e-12));
  CHECK(found.shares.back() == 1);
}

TEST_CASE("a thinned distribution keeps true shares, its number of edges and its end") {
  // No value lies on an edge, where rounding decides between two bins.
  std::vector<double> values;
  for (int i = 1; i <= 5'000; ++i) values.push_back(std::pow(1.0137, i % 900) * 1.003);
  const auto found = cumulative(histogram_of(values), 64);
  CHECK(found.edges.size() == 64);
  CHECK(found.shares.back() == 1);
  for (std::size_t i = 0; i < found.edges.size(); ++i)
    CHECK(found.shares[i] == doctest::Approx(share_at_most(values, found.edges[i])).epsilon(1e-12));
  const auto exact = cumulative(values, 64);
  CHECK(exact.edges.size() == 64);
  CHECK(exact.edges.back() == *std::ranges::max_element(values));
  for (std::size_t i = 0; i < exact.edges.size(); ++i)
    CHECK(exact.shares[i] == doctest::Approx(share_at_most(values, exact.edges[i])).epsilon(1e-12));
}

TEST_CASE("infinite values have infinite edges, and nothing has no edge") {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const auto found = cumulative(histogram_of({-kInfinite, 0, 0, kInfinite}), 10);
  CHECK(found.edges == std::vector<double>{-kInfinite, 0, kInfinite});
  CHECK(found.shares == std::vector<double>{0.25, 0.75, 1});
  CHECK(cumulative(Histogram(), 10).edges.empty());
  CHECK(cumulative(std::vector<double>(), 10).shares.empty());
  CHECK(cumulative(std::vector<double>{3, 3, 3}, 10).edges == std::vector<double>{3});
}
