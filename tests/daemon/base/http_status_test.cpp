#include "daemon/base/http_status.hpp"

#include <doctest/doctest.h>

#include "daemon/base/ascii.hpp"

using namespace driftgate::base;

TEST_CASE("each status has its phrase, and one that is not used has one that says so") {
  CHECK(reason_phrase(200) == "OK");
  CHECK(reason_phrase(304) == "Not Modified");
  CHECK(reason_phrase(404) == "Not Found");
  CHECK(reason_phrase(508) == "Loop Detected");
  CHECK(reason_phrase(299) == "Unknown");
}

TEST_CASE("only ASCII letters and digits are alphanumeric") {
  int count = 0;
  for (int c = -128; c < 128; ++c) count += is_alphanumeric(static_cast<char>(c)) ? 1 : 0;
  CHECK(count == 26 + 26 + 10);
  CHECK(is_alphanumeric('-', "-_"));
  CHECK(lower('Q') == 'q');
  CHECK(lower('[') == '[');
}
