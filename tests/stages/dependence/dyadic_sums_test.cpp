#include "stages/dependence/dyadic_sums.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {

/// The variance over windows of `length` units that overlap by half, from the definition.
double variance_of(const std::vector<Portion>& units, std::size_t length) {
  double value = 0, size = 0;
  for (const Portion& unit : units) {
    value += unit.value;
    size += unit.size;
  }
  double squares = 0, windows = 0;
  for (std::size_t first = 0; first + length <= units.size(); first += std::max<std::size_t>(1, length / 2)) {
    double seen = 0, expected = 0;
    for (std::size_t i = first; i < first + length; ++i) {
      seen += units[i].value;
      expected += units[i].size * value / size;
    }
    squares += (seen - expected) * (seen - expected);
    ++windows;
  }
  const double apart = static_cast<double>(units.size()) / static_cast<double>(length);
  return squares / windows / (1 - 1 / apart);
}

/// Numbers that depend on those before by `memory` in [0, 1).
std::vector<Portion> series(std::size_t units, double memory, std::uint64_t seed) {
  Random random(seed);
  std::vector<Portion> made;
  double state = 0;
  for (std::size_t i = 0; i < units; ++i) {
    state = memory * state + (random.uniform() - 0.5);
    made.push_back({3 + state, 1, 0});
  }
  return made;
}

DyadicSums sums_of(const std::vector<Portion>& units) {
  DyadicSums sums;
  for (const Portion& unit : units) sums.add(unit);
  return sums;
}

}  // namespace

TEST_CASE("variances over windows of every length are those of their definition") {
  Random random(1);
  std::vector<Portion> units;
  for (int i = 0; i < 333; ++i) units.push_back({random.uniform(), 0.5 + random.uniform(), 0});
  const DyadicSums sums = sums_of(units);
  CHECK(sums.units() == 333);
  REQUIRE(sums.levels() == 6);  // windows of 32 units, of 333
  for (std::size_t level = 0; level < sums.levels(); ++level) {
    CAPTURE(level);
    CHECK(sums.variance(level) == doctest::Approx(variance_of(units, std::size_t{1} << level)).epsilon(1e-9));
  }
}

TEST_CASE("independent units show no inflation and units that remember do") {
  int shown = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    shown += sums_of(series(400, 0, mix64(seed))).inflation(3) > 0 ? 1 : 0;
  CHECK(shown <= 8);
  // Of an autoregression by 0.8, sums over long windows vary (1 + 0.8)/(1 − 0.8) = 9 times as much.
  const DyadicSums wandering = sums_of(series(20'000, 0.8, 5));
  CHECK(wandering.inflation(3) == doctest::Approx(8).epsilon(0.3));
  // From windows of 16 units on, there is little left.
  CHECK(wandering.inflation(3, 4) < 1);
}

TEST_CASE("records of two days count the windows of both") {
  const auto first = series(200, 0.5, 1), second = series(300, 0.5, 2);
  DyadicSums both = sums_of(first);
  both.include(sums_of(second));
  CHECK(both.units() == 500);
  CHECK(both.levels() == 6);
  CHECK(both.value() == doctest::Approx(sums_of(first).value() + sums_of(second).value()));
}

TEST_CASE("sums go on from what was written of them") {
  DyadicSums steady, resumed;
  for (const Portion& unit : series(150, 0.3, 9)) {
    steady.add(unit);
    resumed.add(unit);
    resumed = DyadicSums::from_json(nlohmann::json::parse(resumed.to_json().dump()));
  }
  CHECK(resumed.to_json() == steady.to_json());
  CHECK(resumed.inflation(0) == steady.inflation(0));
}
