#include "schema/utf8.hpp"

#include <doctest/doctest.h>

using namespace driftgate::schema;

TEST_CASE("a text is cut between characters, never within one") {
  const std::string text = "a\u00e9\u20ac\U0001F600";  // 1, 2, 3 and 4 bytes
  const std::size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (std::size_t limit = 0; limit < 12; ++limit) {
    CAPTURE(limit);
    CHECK(utf8_text(text, limit) == text.substr(0, ends[limit]));
  }
}

TEST_CASE("each byte that belongs to no character becomes U+FFFD") {
  const std::string mark = "\xEF\xBF\xBD";
  CHECK(utf8_text("a\xff"
                  "b",
                  100) == "a" + mark + "b");
  CHECK(utf8_text("\xA9 tail", 100) == mark + " tail");         // the rest of a character that was cut
  CHECK(utf8_text("\xE2\x82", 100) == mark + mark);             // its beginning
  CHECK(utf8_text("\xC0\x80", 100) == mark + mark);             // overlong
  CHECK(utf8_text("\xED\xA0\x80", 100) == mark + mark + mark);  // a surrogate
  CHECK(utf8_text("\xff\xff", 5) == mark);
}
