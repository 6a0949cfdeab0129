#include "stages/guard/e_detector.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {

double factor(const Bet& bet, double limit, double value) {
  return 1 + bet.stake * (value / limit - 1);
}

/// What one bet has shown, by the definition: for each start its product of factors.
struct ByDefinition {
  double sum = 0, largest = 0;
};
ByDefinition by_definition(const Bet& bet, double limit, const std::vector<double>& values,
                           const std::vector<double>& starts) {
  ByDefinition out;
  for (std::size_t start = 0; start < values.size(); ++start) {
    double product = 1;
    for (std::size_t i = start; i < values.size(); ++i) product *= factor(bet, limit, values[i]);
    out.sum += starts[start] * product;
    out.largest = std::max(out.largest, product);
  }
  return out;
}

double weight_of(const std::vector<Bet>& bets) {
  double sum = 0;
  for (const Bet& bet : bets) sum += bet.weight;
  return sum;
}

}  // namespace

TEST_CASE("the recursions are the sum and the largest over all starts") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const double limit = 0.02 + 0.3 * random.uniform();
    const bool events = seed % 2 == 0;
    const auto bets = events ? event_bets(limit) : share_bets();
    EDetector detector(limit, bets);
    std::vector<double> values, starts;
    for (int t = 0; t < 120; ++t) {
      const double u = random.uniform();
      values.push_back(events ? (u < limit ? 1.0 : 0.0) : u * u * 3 * limit);
      starts.push_back(random.uniform());
      detector.observe(values.back(), starts.back(), 1'000 + t);
      double sum = 0, largest = 0;
      for (const Bet& bet : bets) {
        const ByDefinition expected = by_definition(bet, limit, values, starts);
        sum += bet.weight * expected.sum;
        largest += bet.weight * expected.largest;
      }
      REQUIRE(detector.sum() == doctest::Approx(sum).epsilon(1e-9));
      REQUIRE(detector.largest() == doctest::Approx(largest).epsilon(1e-9));
    }
  }
}

TEST_CASE("each factor has the mean one at the limit and less below it, and no value ruins a bet") {
  for (const double limit : {0.0001, 0.0113, 0.2, 0.7, 0.999}) {
    CAPTURE(limit);
    for (const auto& bets : {event_bets(limit), share_bets()}) {
      CHECK(weight_of(bets) == doctest::Approx(1).epsilon(1e-12));
      for (const Bet& bet : bets) {
        CHECK(bet.stake > 0);
        CHECK(bet.stake <= 0.99);
        CHECK(factor(bet, limit, 0) > 0);
        const double at = limit * factor(bet, limit, 1) + (1 - limit) * factor(bet, limit, 0);
        CHECK(at == doctest::Approx(1).epsilon(1e-9));
        const double less = limit / 2;
        CHECK(less * factor(bet, limit, 1) + (1 - less) * factor(bet, limit, 0) < 1);
      }
    }
  }
}

TEST_CASE("bets on events have the factors of a likelihood ratio, a rise of 1.77 with the most weight") {
  const double limit = 0.01;
  const auto bets = event_bets(limit);
  REQUIRE(bets.size() >= 3);
  CHECK(factor(bets[0], limit, 1) == doctest::Approx(1.25).epsilon(1e-12));
  CHECK(factor(bets[0], limit, 0) == doctest::Approx((1 - 0.0125) / (1 - 0.01)).epsilon(1e-12));
  CHECK(factor(bets[2], limit, 1) == doctest::Approx(2.5).epsilon(1e-12));
  CHECK(bets[0].weight == doctest::Approx(bets[1].weight / 2).epsilon(1e-12));
  for (std::size_t k = 2; k < bets.size(); ++k)
    CHECK(bets[k].weight == doctest::Approx(bets[k - 1].weight / 2).epsilon(1e-12));
  CHECK(factor(bets.back(), limit, 1) > 70);  // the last alternative is near certainty
}

TEST_CASE("the expectation of the sum over all starts is the sum of their weights at the limit") {
  // Every sequence of eight events, each with its probability at the limit.
  const double limit = 0.3;
  const auto bets = event_bets(limit);
  double expected = 0;
  for (int pattern = 0; pattern < 256; ++pattern) {
    EDetector detector(limit, bets);
    double probability = 1;
    for (int i = 0; i < 8; ++i) {
      const bool event = ((pattern >> i) & 1) != 0;
      probability *= event ? limit : 1 - limit;
      detector.observe(event ? 1 : 0, 0.1 * (i + 1), i);
    }
    expected += probability * detector.sum();
  }
  CHECK(expected == doctest::Approx(3.6).epsilon(1e-12));
}

TEST_CASE("a limit of nothing is exceeded by the first value above it") {
  EDetector detector(0, {});
  detector.observe(0, 1, 1);
  CHECK(detector.sum() == 0);
  detector.observe(0.001, 1, 2);
  CHECK(std::isinf(detector.sum()));
  detector.restart();
  CHECK(detector.sum() == 0);
}

TEST_CASE("values outside [0, 1] count as the nearest one inside") {
  EDetector one(0.2, share_bets()), other(0.2, share_bets());
  for (const double value : {7.0, -3.0}) one.observe(value, 1, 5);
  for (const double value : {1.0, 0.0}) other.observe(value, 1, 5);
  CHECK(one.sum() == other.sum());
  CHECK(one.mean() == 0.5);
}

TEST_CASE("the change is told with its beginning and its rate") {
  Random random(11);
  EDetector detector(0.02, event_bets(0.02));
  for (int t = 0; t < 40'000; ++t) detector.observe(random.uniform() < 0.015 ? 1 : 0, 1e-6, t);
  for (int t = 40'000; t < 43'000; ++t) detector.observe(random.uniform() < 0.06 ? 1 : 0, 1e-6, t);
  const EDetector::Change change = detector.change();
  CHECK(change.since_us > 39'000);
  CHECK(change.since_us < 40'500);
  CHECK(change.mean == doctest::Approx(0.06).epsilon(0.2));
  CHECK(change.seen == static_cast<std::uint64_t>(43'000 - change.since_us));
}

TEST_CASE("sums stay within their bound and come back once values are good") {
  EDetector detector(0.1, event_bets(0.1));
  for (int t = 0; t < 10'000; ++t) detector.observe(1, 1, t);
  CHECK(detector.sum() == doctest::Approx(EDetector::kMostSum).epsilon(1e-9));
  CHECK(std::isfinite(detector.largest()));
  for (int t = 0; t < 5'000; ++t) detector.observe(0, 1e-9, t);
  CHECK(detector.sum() < 1e-3);
}

TEST_CASE("a detector that was written and read goes on as if it had not been") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Random random(seed);
    EDetector steady(0.05, event_bets(0.05)), restarted(0.05, event_bets(0.05));
    for (int t = 0; t < 3'000; ++t) {
      const double value = random.uniform() < 0.06 ? 1 : 0;
      const double start = random.uniform() * 1e-7;
      steady.observe(value, start, t);
      restarted.observe(value, start, t);
      if (random.uniform() > 0.01) continue;
      EDetector read(0.05, event_bets(0.05));
      read.restore(nlohmann::json::parse(restarted.to_json().dump()));
      restarted = read;
    }
    CHECK(restarted.sum() == steady.sum());
    CHECK(restarted.largest() == steady.largest());
    CHECK(restarted.to_json() == steady.to_json());
  }
}

TEST_CASE("a state of fewer bets is refused") {
  EDetector few(0.05, {{0.1, 1}}), many(0.05, event_bets(0.05));
  CHECK_THROWS_AS(many.restore(few.to_json()), nlohmann::json::exception);
  CHECK_THROWS_AS(many.restore(nlohmann::json::parse("{}")), nlohmann::json::exception);
}

TEST_CASE("the weight of a start is the time before it, whatever clocks do") {
  constexpr std::int64_t kYearUs = std::int64_t{365} * 86'400'000'000;
  CHECK(start_mass(0, kYearUs / 1'000, kYearUs) == doctest::Approx(0.001).epsilon(1e-12));
  CHECK(start_mass(5'000'000, 5'000'000, kYearUs) == 0);
  CHECK(start_mass(5'000'000, 4'000'000, kYearUs) == 0);
  CHECK(start_mass(0, 10 * kYearUs, kYearUs) == doctest::Approx(1.0 / 365).epsilon(1e-12));
}
