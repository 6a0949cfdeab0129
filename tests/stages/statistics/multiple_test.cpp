#include "stages/statistics/multiple.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

using namespace driftgate::stages;

TEST_CASE("Holm stops at the first p-value over its share and rejects none after it") {
  const std::vector<double> p{0.04, 0.01, 0.03, 0.005};
  CHECK(holm(p, 0.05) == std::vector<bool>{false, true, false, true});
  CHECK(holm(std::vector<double>{0.05}, 0.05) == std::vector<bool>{true});
  CHECK(holm(std::vector<double>{}, 0.05).empty());
}

TEST_CASE("e-Holm rejects an e-value at the number of hypotheses over alpha") {
  CHECK(e_holm(std::vector<double>{40, 1}, 0.05) == std::vector<bool>{true, false});
  CHECK(e_holm(std::vector<double>{39.9, 1}, 0.05) == std::vector<bool>{false, false});
  CHECK(e_holm(std::vector<double>{40, 20}, 0.05) == std::vector<bool>{true, true});
}

TEST_CASE("e-Holm and e-BH take a value that is not a number for no evidence") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  CHECK(e_holm(std::vector<double>{kNaN, 40}, 0.05) == std::vector<bool>{false, true});
  CHECK(e_bh(std::vector<double>{kNaN, 40}, 0.05) == std::vector<bool>{false, true});
}

TEST_CASE("e-BH rejects the k largest of K when the k-th reaches K over k alpha") {
  // K = 4: the lines are 80, 40, 26.7 and 20 for k = 1 to 4.
  CHECK(e_bh(std::vector<double>{1, 79, 1, 1}, 0.05) == std::vector<bool>{false, false, false, false});
  CHECK(e_bh(std::vector<double>{1, 80, 1, 1}, 0.05) == std::vector<bool>{false, true, false, false});
  CHECK(e_bh(std::vector<double>{41, 40, 1, 1}, 0.05) == std::vector<bool>{true, true, false, false});
  // The second is short of 40 and the third reaches 26.7: three are rejected together.
  CHECK(e_bh(std::vector<double>{30, 27, 27, 1}, 0.05) == std::vector<bool>{true, true, true, false});
  CHECK(e_bh(std::vector<double>{20, 20, 20, 20}, 0.05) == std::vector<bool>{true, true, true, true});
  CHECK(e_bh(std::vector<double>{}, 0.05).empty());
  CHECK(e_bh_threshold(std::vector<double>{41, 40, 1, 1}, 0.05) == 40);
  CHECK(e_bh_threshold(std::vector<double>{1, 1, 1, 1}, 0.05) == 80);
}
