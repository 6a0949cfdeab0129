#include "stages/statistics/paired.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace driftgate::stages;

namespace {
std::vector<PairedOutcome> outcomes(std::uint64_t both, std::uint64_t only_train, std::uint64_t only_inf) {
  std::vector<PairedOutcome> list;
  const auto add = [&](std::uint64_t count, bool train, bool inf) {
    for (std::uint64_t i = 0; i < count; ++i) list.push_back({train, inf, list.size()});
  };
  add(both, true, true);
  add(only_train, true, false);
  add(only_inf, false, true);
  return list;
}
bool passes(const std::vector<PairedOutcome>& list, double margin) {
  return paired_outcomes(list, margin, 0.05, 1).p_high <= 0.05;
}
}  // namespace

TEST_CASE("without a discordant pair a margin of one percent passes from n = 368") {
  CHECK(passes(outcomes(368, 0, 0), 0.01));
  CHECK_FALSE(passes(outcomes(367, 0, 0), 0.01));
}

TEST_CASE("the z form with half a pair added is the one computed by hand") {
  const MeanTest test = paired_outcomes(outcomes(948, 40, 12), 0.03, 0.05, 1);
  const double n = 1002;
  const double delta = (12.5 - 40.5) / n;
  const double error = std::sqrt(53 - 28.0 * 28.0 / n) / n;
  CHECK(*test.lower == doctest::Approx(delta - 1.6448536269514722 * error).epsilon(1e-12));
  CHECK(*test.upper == doctest::Approx(delta + 1.6448536269514722 * error).epsilon(1e-12));
  CHECK(test.estimate == doctest::Approx(-0.028));
  CHECK(test.details.at("b") == 40);
  CHECK(test.details.at("c") == 12);
  CHECK(test.details.at("harm_p") < 0.001);
  CHECK(test.p_low > 0.05);
}

TEST_CASE("twenty-four discordant pairs are decided by Clopper-Pearson and twenty-five by z") {
  CHECK(paired_outcomes(outcomes(500, 12, 12), 0.05, 0.05, 1).method ==
        "difference of Clopper-Pearson limits");
  CHECK(paired_outcomes(outcomes(500, 13, 12), 0.05, 0.05, 1).method ==
        "paired z, half a pair added to each side");
}

TEST_CASE("a kernel that loses a tenth of its right answers is inferior at a margin of three percent") {
  const MeanTest test = paired_outcomes(outcomes(900, 100, 0), 0.03, 0.05, 1);
  CHECK(test.p_low <= 0.05);
  CHECK(*test.upper < -0.03);
}

TEST_CASE("outcomes that share a cluster are not counted as independent") {
  std::vector<PairedOutcome> list = outcomes(900, 60, 0);
  for (std::size_t i = 0; i < list.size(); ++i) list[i].cluster = i / 60;
  const MeanTest test = paired_outcomes(list, 0.02, 0.05, 1);
  CHECK(test.clusters == 16);
  // All sixty losses lie in one cluster of sixteen: that is no proof of inferiority.
  CHECK(test.p_low > 0.05);
}
