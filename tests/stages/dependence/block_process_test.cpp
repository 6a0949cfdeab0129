#include "stages/dependence/block_process.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

namespace {

struct Arms {
  double share = 0.1;  ///< of the candidate
  double rate = 0.01;  ///< of the incumbent
  double ratio = 1;    ///< the candidate's rate as a multiple of it
  double stalled = 0;  ///< chance that an arm stalls in a block, each for itself
  std::uint64_t requests = 240;
};

std::uint64_t draw(Random& random, std::uint64_t n, double p) {
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < n; ++i) count += random.uniform() < p ? 1 : 0;
  return count;
}

/// A third of the requests of an arm that stalls fail.
BlockCounts block(Random& random, const Arms& arms) {
  BlockCounts counts;
  counts.candidate = draw(random, arms.requests, arms.share);
  counts.incumbent = arms.requests - counts.candidate;
  const bool stall_c = random.uniform() < arms.stalled;
  const bool stall_i = random.uniform() < arms.stalled;
  counts.failed_candidate = draw(random, counts.candidate, stall_c ? 1.0 / 3 : arms.rate * arms.ratio);
  counts.failed_incumbent = draw(random, counts.incumbent, stall_i ? 1.0 / 3 : arms.rate);
  return counts;
}

/// Of 200 runs of 250 blocks, those whose e-value ever reached 200.
int found(const Arms& arms, double max_ratio, std::uint64_t seed) {
  int runs = 0;
  for (std::uint64_t run = 0; run < 200; ++run) {
    Random random(mix64(seed + run));
    BlockProcess process(max_ratio);
    bool reached = false;
    for (int i = 0; i < 250 && !reached; ++i) {
      process.add(block(random, arms));
      reached = process.e_value(0) >= 200;
    }
    runs += reached ? 1 : 0;
  }
  return runs;
}

}  // namespace

TEST_CASE("the e-value of blocks is the one-sided mixture of their weighted differences") {
  // Each second block the candidate fails 3 of 20, else 1; the incumbent 2 of 40 in each: r·n_c + n_i = 80.
  BlockProcess process(2);
  for (int i = 0; i < 40; ++i) {
    process.add(
        {.candidate = 20, .incumbent = 40, .failed_candidate = i % 2 == 0 ? 3U : 1U, .failed_incumbent = 2});
  }
  const double high = (40.0 * 3 - 2 * 20 * 2) / 80, low = (40.0 * 1 - 2 * 20 * 2) / 80;
  const double mean = (high + low) / 2;
  const double own = 40 * (high - low) * (high - low) / 4 / 39;
  const double independent = (5 + 3) / 2.0 * 0.25;  // q = ½
  const double z = 40 * mean / std::sqrt(std::max(own, independent));
  const double spread = 40 * 0.16 + 1;
  const double e =
      2 / std::sqrt(spread) * std::exp(0.16 * z * z / (2 * spread)) * normal_cdf(0.4 * z / std::sqrt(spread));
  CHECK(process.e_value(0) == doctest::Approx(e).epsilon(1e-12));
  // An excess of 6 of all requests is 6·2·¼ of the difference of two arms of which each has half the weight.
  const double swinging = 40 * mean / std::sqrt(independent * 4);
  CHECK(process.e_value(6) ==
        doctest::Approx(2 / std::sqrt(spread) * std::exp(0.16 * swinging * swinging / (2 * spread)) *
                        normal_cdf(0.4 * swinging / std::sqrt(spread))));
  CHECK(*process.ratio() == doctest::Approx((2.0 / 20) / (2.0 / 40)));
  const auto restored = BlockProcess::from_json(nlohmann::json::parse(process.to_json().dump()), 2);
  CHECK(restored.e_value(0) == process.e_value(0));
  CHECK(restored.e_value(6) == process.e_value(6));
  CHECK(restored.ratio() == process.ratio());
}

TEST_CASE("nothing is said before thirty blocks in which both arms had requests") {
  BlockProcess process(1);
  const BlockCounts harm{.candidate = 50, .incumbent = 50, .failed_candidate = 50, .failed_incumbent = 1};
  for (int i = 0; i < 29; ++i) {
    process.add(harm);
    process.add({.candidate = 0, .incumbent = 50, .failed_candidate = 0, .failed_incumbent = 5});
    process.add({.candidate = 50, .incumbent = 0, .failed_candidate = 50, .failed_incumbent = 0});
    CHECK(process.e_value(0) == 1);
  }
  CHECK(process.blocks() == 29);
  process.add(harm);
  CHECK(process.e_value(0) > 1e4);
}

TEST_CASE("alike arms are rarely found, stalling or not, at small and at large shares") {
  for (const double share : {0.01, 0.1, 0.5, 0.9}) {
    for (const double stalled : {0.0, 0.06}) {
      CAPTURE(share);
      CAPTURE(stalled);
      CHECK(found({.share = share, .stalled = stalled}, 1, 5) <= 4);
    }
  }
  CHECK(found({.share = 0.25, .ratio = 1.5}, 1.5, 6) <= 4);
}

TEST_CASE("a candidate that fails twice as often is found, and one that stalls like the incumbent is not") {
  CHECK(found({.share = 0.25, .ratio = 2}, 1, 7) >= 195);
  CHECK(found({.share = 0.25, .ratio = 1, .stalled = 0.06}, 1, 8) <= 4);
  CHECK(found({.share = 0.25, .ratio = 4, .stalled = 0.06}, 1, 9) >= 150);
}

TEST_CASE("rare failures of the incumbent at a large share do not make the candidate look bad") {
  // Nine of ten requests are the candidate's: it fails now and then while the incumbent by chance does not.
  BlockProcess process(1);
  for (int i = 0; i < 60; ++i) {
    process.add(
        {.candidate = 216, .incumbent = 24, .failed_candidate = i % 2 == 0 ? 1U : 0U, .failed_incumbent = 0});
  }
  CHECK(process.e_value(0) < 10);
  CHECK_FALSE(process.ratio().has_value());
}
