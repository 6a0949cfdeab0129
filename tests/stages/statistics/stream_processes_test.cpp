#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "stages/statistics/betting_martingale.hpp"
#include "stages/statistics/e_values.hpp"
#include "stages/statistics/log_mean_sequence.hpp"
#include "stages/statistics/noise_contrast.hpp"
#include "stages/statistics/random.hpp"
#include "stages/statistics/rate_difference_process.hpp"

using namespace driftgate::stages;

namespace {

/// Three standard errors over the level, of `runs` runs.
double most_alarms(double alpha, int runs) {
  return alpha * runs + 3 * std::sqrt(alpha * (1 - alpha) * runs);
}

double normal(Random& random) {
  constexpr double kTau = 6.283185307179586;
  return std::sqrt(-2 * std::log(1 - random.uniform())) * std::cos(kTau * random.uniform());
}

}  // namespace

TEST_CASE("the bet follows its formula from past values alone") {
  // t = 1: σ̂² = ¼, λ = √(2 ln 20/(¼·ln 2)) = 5.880…, capped at ½/m = 1 for m = ½.
  PredictableBet bet(0.05);
  CHECK(bet.next() == doctest::Approx(std::sqrt(2 * std::log(20) / (0.25 * std::log(2)))));
  BettingMartingale capital(0.05);
  capital.update(1, 0.5);
  CHECK(capital.e_value() == doctest::Approx(1.5));
  capital.update(0, 0.5);
  CHECK(capital.e_value() == doctest::Approx(0.75));
  // μ̂ = (½ + 1)/2 = ¾ after one value of 1, so σ̂² = (¼ + (1 − ¾)²)/2 = 0.15625.
  PredictableBet after(0.05);
  after.update(1);
  CHECK(after.next() == doctest::Approx(std::sqrt(2 * std::log(20) / (0.15625 * 2 * std::log(3)))));
}

TEST_CASE("against a mean of 0 the first positive value is proof and nothing before it is") {
  BettingMartingale capital(0.05);
  for (int i = 0; i < 100; ++i) capital.update(0, 0);
  CHECK(capital.e_value() == 1);
  capital.update(1e-9, 0);
  CHECK(capital.e_value() == std::numeric_limits<double>::infinity());
  const auto restored = BettingMartingale::from_json(capital.to_json(), 0.05);
  CHECK(restored.e_value() == std::numeric_limits<double>::infinity());
}

TEST_CASE("betting on paired differences keeps its level at the margin and proves what is inside it") {
  constexpr int kRuns = 400;
  constexpr double kMargin = 0.05;
  Random random(11);
  int proven = 0;
  int harmed = 0;
  for (int run = 0; run < kRuns; ++run) {
    NonInferiorityProcess process(kMargin, 0.05);
    double proof = 0;
    double harm = 0;
    for (int i = 0; i < 1'000; ++i) {
      // P(−1) = 0.10, P(1) = 0.05: a mean of exactly −margin.
      const double u = random.uniform();
      process.update(u < 0.10 ? -1 : (u < 0.15 ? 1 : 0));
      proof = std::max(proof, process.e_proof());
      harm = std::max(harm, process.e_harm());
    }
    proven += proof >= 20 ? 1 : 0;
    harmed += harm >= 20 ? 1 : 0;
  }
  CAPTURE(proven);
  CAPTURE(harmed);
  CHECK(proven <= most_alarms(0.05, kRuns));
  CHECK(harmed <= most_alarms(0.05, kRuns));
  NonInferiorityProcess alike(kMargin, 0.05);
  for (int i = 0; i < 2'000; ++i) alike.update(i % 20 == 0 ? (i % 40 == 0 ? 1 : -1) : 0);
  CHECK(alike.e_proof() >= 20);
  CHECK(alike.e_harm() < 1);
  NonInferiorityProcess worse(kMargin, 0.05);
  for (int i = 0; i < 2'000; ++i) worse.update(i % 5 == 0 ? -1 : 0);
  CHECK(worse.e_harm() >= 20);
}

TEST_CASE("the betting confidence sequence covers at every look and closes in") {
  constexpr int kRuns = 150;
  Random random(12);
  int wrong = 0;
  double width = 0;
  for (int run = 0; run < kRuns; ++run) {
    BettingSequence sequence(0.05);
    bool missed = false;
    for (int i = 0; i < 400; ++i) {
      const double u = random.uniform();
      sequence.update(u * u);  // mean 1/3
      const QuantileLimits limits = sequence.limits();
      missed = missed || limits.lower > 1.0 / 3 || limits.upper < 1.0 / 3;
    }
    wrong += missed ? 1 : 0;
    width += sequence.limits().upper - sequence.limits().lower;
  }
  CAPTURE(wrong);
  // Each limit has the level 0.05.
  CHECK(wrong <= most_alarms(0.10, kRuns));
  CHECK(width / kRuns < 0.2);
}

TEST_CASE("the limits of a geometric mean are silent before 500 values and follow their formula from there") {
  LogMeanSequence sequence;
  for (int i = 0; i < 499; ++i) sequence.add(i % 2 == 0 ? 10 : 40);
  CHECK(sequence.limits(0.05, 1'000).upper == std::numeric_limits<double>::infinity());
  CHECK(sequence.limits(0.05, 1'000).lower == 0);
  sequence.add(40);
  const QuantileLimits limits = sequence.limits(0.05, 1'000);
  CHECK(limits.estimate == doctest::Approx(20));
  // σ̂ = ln 2 for values at ln 20 ± ln 2.
  const double rho2 = (2 * std::log(20) + std::log(1 + 2 * std::log(20))) / 1'000;
  const double width = std::log(2) * std::sqrt(2 * (500 * rho2 + 1) / (500.0 * 500 * rho2) *
                                               std::log(1 + std::sqrt(500 * rho2 + 1) / (2 * 0.05)));
  CHECK(limits.upper == doctest::Approx(20 * std::exp(width)));
  CHECK(limits.lower == doctest::Approx(20 * std::exp(-width)));
}

TEST_CASE("the asymptotic sequence of log-normal latencies seldom misses at any look from 500 on") {
  constexpr int kRuns = 300;
  Random random(13);
  int wrong = 0;
  for (int run = 0; run < kRuns; ++run) {
    LogMeanSequence sequence;
    bool missed = false;
    for (int i = 1; i <= 3'000; ++i) {
      sequence.add(std::exp(3 + 0.7 * normal(random)));
      if (i < 500 || i % 25 != 0) continue;
      missed = missed || sequence.limits(0.05, 1'000).lower > std::exp(3.0);
    }
    wrong += missed ? 1 : 0;
  }
  CAPTURE(wrong);
  CHECK(wrong <= most_alarms(0.05, kRuns));
}

TEST_CASE("the difference of two rates keeps its level through a ramp and shows a larger one") {
  constexpr int kRuns = 200;
  constexpr double kDelta = 0.02;
  const auto share_at = [](int key) { return key < 2'000 ? 0.05 : (key < 4'000 ? 0.25 : 0.5); };
  Random random(14);
  int harmed = 0;
  int proven = 0;
  int stopped = 0;
  for (int run = 0; run < kRuns; ++run) {
    RateDifferenceProcess boundary(kDelta, 0.05);
    RateDifferenceProcess worse(kDelta, 0.05);
    double harm = 0;
    double proof = 0;
    double shown = 0;
    for (int key = 0; key < 6'000; ++key) {
      const double share = share_at(key);
      const bool candidate = random.uniform() < share;
      boundary.update(candidate, random.uniform() < (candidate ? 0.03 : 0.01), share);
      worse.update(candidate, random.uniform() < (candidate ? 0.15 : 0.01), share);
      harm = std::max(harm, boundary.e_harm());
      proof = std::max(proof, boundary.e_proof());
      shown = std::max(shown, worse.e_harm());
    }
    harmed += harm >= 20 ? 1 : 0;
    proven += proof >= 20 ? 1 : 0;
    stopped += shown >= 20 ? 1 : 0;
  }
  CAPTURE(harmed);
  CAPTURE(proven);
  CHECK(harmed <= most_alarms(0.05, kRuns));
  CHECK(proven <= most_alarms(0.05, kRuns));
  CHECK(stopped == kRuns);
  RateDifferenceProcess edge(kDelta, 0.05);
  CHECK_FALSE(edge.update(true, true, 0));
  CHECK_FALSE(edge.update(true, true, 0.99));
  CHECK_FALSE(edge.update(true, true, 0.001));
}

TEST_CASE("e-values are combined by their mean, and those not begun count as 1") {
  const std::vector<double> two{9, 3};
  CHECK(mean_over_starts(two, 4) == (9 + 3 + 1 + 1) / 4.0);
  CHECK(mean_over_starts({}, 4) == 1);
  const std::vector<double> weights{0.5, 0.25};
  CHECK(weighted_e_value(two, weights) == 5.25);
  const std::vector<double> certain{std::numeric_limits<double>::infinity(), 0};
  const std::vector<double> unused{0, 1};
  CHECK(weighted_e_value(certain, unused) == 0);
}

TEST_CASE("the noise arm subtracts the incumbent's own noise and never speaks of equality") {
  Random random(15);
  const auto triples = [&](double candidate, double secondary, int count) {
    std::vector<NoiseTriple> made;
    for (int i = 0; i < count; ++i) {
      made.push_back(
          {random.uniform() < candidate, random.uniform() < secondary, static_cast<std::uint64_t>(i)});
    }
    return made;
  };
  const auto same = noise_contrast(triples(0.3, 0.3, 3'000), 0.05, 0.05, 1);
  CHECK(same.p_low <= 0.05);  // proven under an excess of 0.05
  const auto more = noise_contrast(triples(0.4, 0.2, 3'000), 0.05, 0.05, 1);
  CHECK(more.p_high <= 0.05);
  CHECK(more.details.at("no_evidence_of_equality") == 0);
  const auto less = noise_contrast(triples(0.1, 0.3, 3'000), 0.05, 0.05, 1);
  CHECK(less.details.at("no_evidence_of_equality") == 1);
  CHECK(noise_statement(less.estimate).find("no evidence that the kernels are equal") != std::string::npos);
  CHECK_FALSE(noise_contrast({}, 0.05, 0.05, 1).undecidable.empty());
  NoiseContrastProcess process(0.05, 0.05);
  for (const auto& triple : triples(0.5, 0.2, 2'000))
    process.update(triple.candidate_differs, triple.secondary_differs);
  CHECK(process.e_harm() >= 20);
  CHECK(process.excess() == doctest::Approx(0.3).epsilon(0.2));
}

TEST_CASE("every process goes on after a round trip as if there had been none") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    NonInferiorityProcess pairs(0.02, 0.01);
    NonInferiorityProcess pairs2 = pairs;
    RateDifferenceProcess rates(0.02, 0.01);
    RateDifferenceProcess rates2 = rates;
    BettingSequence means(0.01);
    BettingSequence means2 = means;
    LogMeanSequence latencies;
    LogMeanSequence latencies2 = latencies;
    NoiseContrastProcess noise(0.02, 0.01);
    NoiseContrastProcess noise2 = noise;
    const auto trip = [](const nlohmann::json& json) { return nlohmann::json::parse(json.dump()); };
    for (int i = 0; i < 600; ++i) {
      if (random.uniform() < 0.02) {
        pairs2 = NonInferiorityProcess::from_json(trip(pairs2.to_json()), 0.02, 0.01);
        rates2 = RateDifferenceProcess::from_json(trip(rates2.to_json()), 0.02, 0.01);
        means2 = BettingSequence::from_json(trip(means2.to_json()), 0.01);
        latencies2 = LogMeanSequence::from_json(trip(latencies2.to_json()));
        noise2 = NoiseContrastProcess::from_json(trip(noise2.to_json()), 0.02, 0.01);
      }
      const double u = random.uniform();
      const bool a = random.uniform() < 0.3;
      const bool b = random.uniform() < 0.2;
      for (auto* process : {&pairs, &pairs2}) process->update(2 * u - 1);
      for (auto* process : {&rates, &rates2}) process->update(a, b, 0.3);
      for (auto* sequence : {&means, &means2}) sequence->update(u);
      for (auto* sequence : {&latencies, &latencies2}) sequence->add(1 + u);
      for (auto* process : {&noise, &noise2}) process->update(a, b);
    }
    CHECK(pairs.to_json() == pairs2.to_json());
    CHECK(rates.to_json() == rates2.to_json());
    CHECK(means.to_json() == means2.to_json());
    CHECK(latencies.to_json() == latencies2.to_json());
    CHECK(noise.to_json() == noise2.to_json());
    CHECK(pairs.e_proof() == pairs2.e_proof());
    CHECK(means.limits().lower == means2.limits().lower);
  }
}
