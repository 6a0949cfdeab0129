#include "schema/number_text.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

using namespace driftgate::schema;

TEST_CASE("numbers are written in their shortest form and as their bits") {
  const std::pair<double, std::pair<const char*, const char*>> vectors[] = {
      {0.0, {"0", "0000000000000000"}},
      {-0.0, {"-0", "8000000000000000"}},
      {1.0, {"1", "3ff0000000000000"}},
      {0.1, {"0.1", "3fb999999999999a"}},
      {1e-7, {"1e-07", "3e7ad7f29abcaf48"}},
      {5e-324, {"5e-324", "0000000000000001"}},
      {std::numeric_limits<double>::max(), {"1.7976931348623157e+308", "7fefffffffffffff"}},
      {std::numeric_limits<double>::infinity(), {"Infinity", "7ff0000000000000"}},
      {-std::numeric_limits<double>::infinity(), {"-Infinity", "fff0000000000000"}}};
  for (const auto& [value, texts] : vectors) {
    CHECK(number_text(value) == texts.first);
    CHECK(number_hex(value) == texts.second);
  }
  CHECK(number_text(std::nan("")) == "NaN");
  CHECK(number_hex(-std::nan("7")) == "7ff8000000000000");
}

TEST_CASE("every number survives both texts, bit for bit") {
  constexpr std::uint64_t kSeed = 7;
  INFO("seed " << kSeed);
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 20'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    CAPTURE(value);
    if (std::isnan(value)) continue;
    REQUIRE(std::bit_cast<std::uint64_t>(parse_number_text(number_text(value)).value()) ==
            std::bit_cast<std::uint64_t>(value));
    REQUIRE(std::bit_cast<std::uint64_t>(parse_number_hex(number_hex(value)).value()) ==
            std::bit_cast<std::uint64_t>(value));
  }
  CHECK(std::isnan(parse_number_text("NaN").value()));
  CHECK(std::isnan(parse_number_hex("7ff8000000000000").value()));
}

TEST_CASE("other spellings of a number are refused") {
  for (const char* bad :
       {"", "1.0", "01", "+1", "1e-7", "0.10", ".1", "1.", "inf", "nan", "infinity", "-NaN", "1 ", " 1",
        "0x1p0", "1e999", "--1", "1,5", "0.1000000000000000055511151231257827"}) {
    CAPTURE(bad);
    CHECK(!parse_number_text(bad));
  }
  for (const char* bad :
       {"", "3ff", "3FF0000000000000", "3ff00000000000000", "7ff8000000000001", "fff8000000000000"}) {
    CAPTURE(bad);
    CHECK(!parse_number_hex(bad));
  }
}
