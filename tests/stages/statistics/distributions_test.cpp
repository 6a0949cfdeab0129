#include "stages/statistics/distributions.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

using namespace driftgate::stages;

TEST_CASE("Clopper-Pearson limits agree with the tails that define them") {
  for (const std::uint64_t n : {1ULL, 7ULL, 50ULL, 1000ULL}) {
    for (std::uint64_t k = 0; k <= n; k += n > 100 ? 97 : 1) {
      CAPTURE(n);
      CAPTURE(k);
      const double lower = clopper_pearson_lower(k, n, 0.05);
      const double upper = clopper_pearson_upper(k, n, 0.05);
      // Boost inverts the incomplete beta to full precision; 1e-9 leaves room for its last digits.
      if (k > 0) CHECK(binomial_at_least(k, n, lower) == doctest::Approx(0.05).epsilon(1e-9));
      if (k < n) CHECK(binomial_at_most(k, n, upper) == doctest::Approx(0.05).epsilon(1e-9));
    }
  }
}

TEST_CASE("the tails of a binomial of three are those computed by hand") {
  CHECK(binomial_at_most(0, 3, 0.5) == doctest::Approx(0.125).epsilon(1e-14));
  CHECK(binomial_at_most(1, 3, 0.5) == doctest::Approx(0.5).epsilon(1e-14));
  CHECK(binomial_at_least(2, 3, 0.5) == doctest::Approx(0.5).epsilon(1e-14));
  CHECK(binomial_at_least(0, 3, 0.5) == 1.0);
  CHECK(binomial_at_most(3, 3, 0.5) == 1.0);
}

TEST_CASE("Fisher's tail is that of the lady who tastes tea, and of draws counted by hand") {
  // Four of eight cups: all four right in 1 of 70 choices, three or more in 17 of 70.
  CHECK(hypergeometric_at_least(4, 4, 4, 8) == doctest::Approx(1.0 / 70).epsilon(1e-12));
  CHECK(hypergeometric_at_least(3, 4, 4, 8) == doctest::Approx(17.0 / 70).epsilon(1e-12));
  CHECK(hypergeometric_at_least(0, 4, 4, 8) == 1.0);
  CHECK(hypergeometric_at_least(5, 4, 4, 8) == 0.0);
  // Of seven of eight cups at least three are marked.
  CHECK(hypergeometric_at_least(3, 7, 4, 8) == 1.0);
  CHECK(hypergeometric_at_least(4, 7, 4, 8) == doctest::Approx(0.5).epsilon(1e-12));
  CHECK(hypergeometric_at_least(1, 5, 0, 8) == 0.0);
}

TEST_CASE("no trial at all limits a rate to the whole range") {
  CHECK(clopper_pearson_lower(0, 0, 0.05) == 0.0);
  CHECK(clopper_pearson_upper(0, 0, 0.05) == 1.0);
  CHECK(zero_event_bound(0, 0.05) == 1.0);
}

TEST_CASE("no event in 2,995 units is the least that proves one in a thousand") {
  CHECK(zero_event_units(0.001, 0.05) == 2995);
  CHECK(zero_event_bound(2995, 0.05) <= 0.001);
  CHECK(zero_event_bound(2994, 0.05) > 0.001);
}

TEST_CASE("299 keys without a failure are the least that prove one in a hundred") {
  CHECK(zero_event_units(0.01, 0.05) == 299);
}
