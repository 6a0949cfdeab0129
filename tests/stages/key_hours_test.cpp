#include "stages/canary/key_hours.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "stages/statistics/distributions.hpp"
#include "stages/statistics/random.hpp"

using namespace driftgate::stages;

TEST_CASE("with one hour for each key the limit is that of Clopper and Pearson") {
  KeyHours keyed, keyless;
  for (std::uint64_t key = 0; key < 16'000; ++key) {
    keyed.observe(key, key < 160);
    keyless.observe_keyless(key < 160);
  }
  CHECK(keyed.periods() == 16'000);
  CHECK(keyed.keys() == 16'000);
  CHECK(keyed.failed() == 160);
  CHECK(keyed.upper(0.05) == doctest::Approx(clopper_pearson_upper(160, 16'000, 0.05)).epsilon(1e-3));
  CHECK(keyless.upper(0.05) == doctest::Approx(keyed.upper(0.05)).epsilon(1e-12));
  KeyHours spotless;
  for (std::uint64_t key = 0; key < 300; ++key) spotless.observe(key, false);
  CHECK(spotless.upper(0.05) == doctest::Approx(clopper_pearson_upper(0, 300, 0.05)));
  CHECK(KeyHours{}.upper(0.05) == 1);
}

TEST_CASE("keys whose hours all fail together count as one each") {
  KeyHours together, spread;
  for (std::uint64_t key = 0; key < 4'000; ++key) {
    for (std::uint64_t hour = 0; hour < 10; ++hour) {
      together.observe(key, key < 40);
      spread.observe(key, (key + 400 * hour) % 4'000 < 40);
    }
  }
  CHECK(together.failed() == 400);
  CHECK(spread.failed() == 400);
  CHECK(together.upper(0.05) == doctest::Approx(clopper_pearson_upper(40, 4'000, 0.05)).epsilon(2e-3));
  CHECK(spread.upper(0.05) == doctest::Approx(clopper_pearson_upper(400, 40'000, 0.05)).epsilon(2e-3));
}

TEST_CASE("the limit is above the truth in 95 of 100 where heavy users fail more often") {
  // A hundredth of the users is there in eight hours of ten and fails in a tenth of them, the others in one
  // of forty and in a hundredth.
  constexpr int kRuns = 2'000;
  const double heavy = 0.01 * 8, light = 0.99 * 0.25;
  const double truth = (heavy * 0.1 + light * 0.01) / (heavy + light);
  int below = 0;
  for (int run = 0; run < kRuns; ++run) {
    Random random(mix64(static_cast<std::uint64_t>(run)));
    KeyHours hours;
    for (std::uint64_t key = 0; key < 2'000; ++key) {
      const bool is_heavy = random.uniform() < 0.01;
      for (int hour = 0; hour < 10; ++hour) {
        if (random.uniform() >= (is_heavy ? 0.8 : 0.025)) continue;
        hours.observe(key, random.uniform() < (is_heavy ? 0.1 : 0.01));
      }
    }
    below += hours.upper(0.05) < truth ? 1 : 0;
  }
  CHECK(below <= 0.05 * kRuns + 30);  // three standard errors
}

TEST_CASE("a tally survives its JSON, and damaged JSON is told") {
  KeyHours hours;
  hours.observe(7, true);
  hours.observe(7, false);
  hours.observe(8, false);
  hours.observe_keyless(true);
  const nlohmann::json json = hours.to_json();
  KeyHours read;
  read.restore(json);
  CHECK(read.to_json() == json);
  CHECK(read.periods() == 4);
  CHECK(read.failed() == 2);
  CHECK(read.keys() == 3);
  CHECK(read.upper(0.05) == hours.upper(0.05));
  for (const char* damaged :
       {R"(["1",0,0])", R"(["0000000g0101",0,0])", R"(["000000010102",0,0])", R"(["",1,2])", "[]"})
    CHECK_THROWS_AS(read.restore(nlohmann::json::parse(damaged)), nlohmann::json::exception);
}

TEST_CASE("a key that is there for very long is not counted on") {
  KeyHours hours;
  for (int hour = 0; hour < 1'000; ++hour) hours.observe(1, true);
  CHECK(hours.periods() == 255);
}
