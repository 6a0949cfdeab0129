#include <doctest/doctest.h>

#include <cmath>

#include "stages/statistics/calibration.hpp"
#include "stages/statistics/distributions.hpp"
#include "stages/statistics/mean_test.hpp"
#include "stages/statistics/paired.hpp"
#include "stages/statistics/random.hpp"
#include "tests/stages/simulation/student_t.hpp"

using namespace driftgate::stages;

// Every rate below is over `runs` independent samples; its Monte-Carlo standard error at 0.05 is
// √(0.05·0.95/runs), and the limits leave three of them.

namespace {
double monte_carlo_limit(double alpha, int runs) {
  return alpha + 3 * std::sqrt(alpha * (1 - alpha) / runs);
}
double normal(Random& random) {
  return normal_quantile(random.uniform() * (1 - 1e-12) + 5e-13);
}
}  // namespace

TEST_CASE("betting keeps its level where the damage lies in few clusters and t does not") {
  constexpr int kRuns = 2'000;
  Random random(101);
  int betting_wrong = 0;
  int t_wrong = 0;
  for (int run = 0; run < kRuns; ++run) {
    // Two clusters in a hundred are wholly broken: the mean is exactly the limit of 0.02.
    std::vector<ClusterSum> clusters;
    for (int i = 0; i < 100; ++i) clusters.push_back({10, random.uniform() < 0.02 ? 10.0 : 0.0});
    betting_wrong += betting_mean(clusters, 0.02, {0, 1, 10}, 0.05, random.next()).p_low <= 0.05 ? 1 : 0;
    t_wrong += student_t(clusters, 0.02).p_low <= 0.05 ? 1 : 0;
  }
  MESSAGE("false passes of 2,000: betting " << betting_wrong << ", t " << t_wrong);
  CHECK(betting_wrong <= monte_carlo_limit(0.05, kRuns) * kRuns);
  CHECK(t_wrong > 0.10 * kRuns);
}

TEST_CASE("betting keeps its level in both directions on unequal clusters") {
  constexpr int kRuns = 1'500;
  Random random(102);
  int low = 0;
  int high = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<ClusterSum> clusters;
    for (int i = 0; i < 150; ++i) {
      const double n = 1 + static_cast<double>(random.below(20));
      const double rate = random.uniform() < 0.5 ? 0.05 : 0.15;  // mean rate 0.1, dependent within a cluster
      double sum = 0;
      for (int row = 0; row < static_cast<int>(n); ++row) sum += random.uniform() < rate ? 1 : 0;
      clusters.push_back({n, sum});
    }
    const MeanTest test = betting_mean(clusters, 0.1, {0, 1, 20}, 0.05, random.next());
    low += test.p_low <= 0.05 ? 1 : 0;
    high += test.p_high <= 0.05 ? 1 : 0;
  }
  MESSAGE("false proofs of 1,500: below " << low << ", above " << high);
  CHECK(low <= monte_carlo_limit(0.05, kRuns) * kRuns);
  CHECK(high <= monte_carlo_limit(0.05, kRuns) * kRuns);
}

TEST_CASE("a length that was seen is no scale: betting by it passes where long sequences hold the drift") {
  constexpr int kRuns = 1'000;
  constexpr double kLong = 25;
  Random random(103);
  int by_seen = 0;
  int by_known = 0;
  int once = 0;
  for (int run = 0; run < kRuns; ++run) {
    // One sequence in two hundred is 25 times as long and wholly drifted: the token mean is 0.125/1.12.
    std::vector<ClusterSum> clusters;
    double longest = 1;
    for (int i = 0; i < 150; ++i) {
      const bool bad = random.uniform() < 0.005;
      clusters.push_back(bad ? ClusterSum{kLong, kLong} : ClusterSum{1, 0});
      longest = std::max(longest, clusters.back().n);
    }
    const double limit = 0.99 * 0.005 * kLong / (0.995 + 0.005 * kLong);
    const std::uint64_t seed = random.next();
    by_seen += betting_mean(clusters, limit, {0, 1, longest}, 0.05, seed).p_low <= 0.05 ? 1 : 0;
    by_known += betting_mean(clusters, limit, {0, 1, kLong}, 0.05, seed).p_low <= 0.05 ? 1 : 0;
    count_once(clusters);
    once += betting_mean(clusters, 0.99 * 0.005, {}, 0.05, seed).p_low <= 0.05 ? 1 : 0;
  }
  MESSAGE("false passes of 1,000: scaled by the longest seen " << by_seen << ", by the longest there can be "
                                                               << by_known << ", sequences once " << once);
  CHECK(by_seen > 0.3 * kRuns);
  CHECK(by_known <= monte_carlo_limit(0.05, kRuns) * kRuns);
  CHECK(once <= monte_carlo_limit(0.05, kRuns) * kRuns);
}

TEST_CASE("the bootstrap-t of a log-normal mean is near its level and is called approximate") {
  constexpr int kRuns = 1'000;
  Random random(104);
  int wrong = 0;
  int t_wrong = 0;
  int decided = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<ClusterSum> clusters;
    for (int i = 0; i < 100; ++i) clusters.push_back({1, std::exp(0.7 * normal(random))});
    const MeanTest test = bootstrap_t(clusters, std::exp(0.245), 0.05, random.next());
    if (!test.undecidable.empty()) continue;
    ++decided;
    wrong += test.p_low <= 0.05 ? 1 : 0;
    t_wrong += student_t(clusters, std::exp(0.245)).p_low <= 0.05 ? 1 : 0;
  }
  MESSAGE("false passes: " << wrong << " of " << decided << " decided, by t " << t_wrong);
  CHECK(decided > 900);
  CHECK(wrong < t_wrong);
  // Approximate: twice the level is what the method is trusted for at this skew.
  CHECK(wrong <= 0.10 * decided);
}

TEST_CASE("paired outcomes at the margin pass at about their level") {
  constexpr int kRuns = 4'000;
  Random random(105);
  int wrong = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<PairedOutcome> outcomes;
    for (std::uint64_t i = 0; i < 500; ++i) {
      const double draw = random.uniform();
      const bool only_train = draw < 0.07;
      const bool only_inf = !only_train && draw < 0.11;  // δ = −0.03
      outcomes.push_back({!only_inf, !only_train, i});
    }
    wrong += paired_outcomes(outcomes, 0.03, 0.05, 1).p_high <= 0.05 ? 1 : 0;
  }
  MESSAGE("false passes: " << wrong << " of 4,000");
  CHECK(wrong <= 0.065 * kRuns);
}

TEST_CASE("a drift of the calibration error at its limit passes at about the level of its method") {
  constexpr int kRuns = 150;
  constexpr double kOver = 0.05;  // inf claims this much more than it keeps; train is calibrated
  Random random(106);
  int wrong = 0;
  int harm = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<CalibrationOutcome> outcomes;
    for (std::size_t i = 0; i < 400; ++i) {
      const double confidence = 0.4 + 0.5 * random.uniform();
      const bool train = random.uniform() < confidence;
      const bool inf = random.uniform() < 0.9 ? train : random.uniform() < confidence;
      outcomes.push_back({confidence, confidence + kOver, train, inf, i});
    }
    const MeanTest test = calibration_drift(outcomes, kOver, 0.05, random.next());
    wrong += test.p_low <= 0.05 ? 1 : 0;
    harm += test.p_high <= 0.05 ? 1 : 0;
  }
  MESSAGE("of " << kRuns << ": false passes " << wrong << ", false alarms " << harm);
  // Approximate: twice the level, with three Monte-Carlo standard errors, is what the method is trusted for.
  CHECK(wrong <= monte_carlo_limit(0.10, kRuns) * kRuns);
  CHECK(harm <= monte_carlo_limit(0.05, kRuns) * kRuns);
}

TEST_CASE("paired outcomes that share clusters keep their level at the margin") {
  constexpr int kRuns = 1'500;
  Random random(107);
  int wrong = 0;
  int harm = 0;
  int unclustered = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<PairedOutcome> outcomes;
    std::vector<PairedOutcome> alone;
    for (std::uint64_t cluster = 0; cluster < 300; ++cluster) {
      // Four outcomes of one prompt that are right or wrong together: δ = −0.03 exactly.
      const double draw = random.uniform();
      const bool only_train = draw < 0.11;
      const bool only_inf = !only_train && draw < 0.19;
      for (int i = 0; i < 4; ++i) {
        outcomes.push_back({!only_inf, !only_train, cluster});
        alone.push_back({!only_inf, !only_train, outcomes.size()});
      }
    }
    const MeanTest test = paired_outcomes(outcomes, 0.03, 0.05, 1);
    wrong += test.p_high <= 0.05 ? 1 : 0;
    harm += test.p_low <= 0.05 ? 1 : 0;
    unclustered += paired_outcomes(alone, 0.03, 0.05, 1).p_high <= 0.05 ? 1 : 0;
  }
  MESSAGE("of " << kRuns << ": false passes " << wrong << ", false alarms " << harm
                << ", false passes taking outcomes for independent " << unclustered);
  CHECK(wrong <= monte_carlo_limit(0.05, kRuns) * kRuns);
  CHECK(harm <= monte_carlo_limit(0.05, kRuns) * kRuns);
  CHECK(unclustered > 2 * wrong);
}

TEST_CASE("both limits of a mean over unequal dependent clusters cover, and narrow as they come") {
  constexpr int kRuns = 400;
  Random random(108);
  int below = 0;
  int above = 0;
  double width[2] = {0, 0};
  for (int run = 0; run < kRuns; ++run) {
    for (const int clusters_here : {250, 1'000}) {
      std::vector<ClusterSum> clusters;
      for (int i = 0; i < clusters_here; ++i) {
        const double n = 1 + static_cast<double>(random.below(30));
        const double level = 0.1 * random.uniform();  // of the cluster, shared by its rows; mean 0.05
        double sum = 0;
        for (int row = 0; row < static_cast<int>(n); ++row) sum += 2 * level * random.uniform();
        clusters.push_back({n, sum});
      }
      count_once(clusters);
      const MeanTest test = betting_mean(clusters, 0.05, {}, 0.05, random.next());
      below += *test.upper < 0.05 ? 1 : 0;
      above += *test.lower > 0.05 ? 1 : 0;
      width[clusters_here == 250 ? 0 : 1] += *test.upper - *test.lower;
    }
  }
  MESSAGE("of " << 2 * kRuns << ": upper limits under the truth " << below << ", lower limits over it " << above);
  CHECK(below <= monte_carlo_limit(0.05, 2 * kRuns) * 2 * kRuns);
  CHECK(above <= monte_carlo_limit(0.05, 2 * kRuns) * 2 * kRuns);
  CHECK(width[1] < 0.6 * width[0]);
}
