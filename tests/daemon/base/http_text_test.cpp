#include "daemon/base/http_text.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace driftgate::base;

TEST_CASE("names are compared without the case of ASCII letters and of nothing else") {
  CHECK(equal_ignoring_case("Content-LENGTH", "content-length"));
  CHECK(equal_ignoring_case("", ""));
  CHECK_FALSE(equal_ignoring_case("host", "hosts"));
  CHECK_FALSE(equal_ignoring_case("a[", "a{"));      // 0x5b and 0x7b, beside the letters
  CHECK_FALSE(equal_ignoring_case("\xc4", "\xe4"));  // letters of Latin-1
  CHECK_FALSE(equal_ignoring_case("@", "`"));
}

TEST_CASE("a token has exactly the characters of RFC 9110") {
  const std::string_view allowed =
      "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (int i = 0; i < 256; ++i) {
    CAPTURE(i);
    const char c = static_cast<char>(i);
    CHECK(is_token(std::string(1, c)) == allowed.contains(c));
    CHECK(is_token(std::string("a") + c) == allowed.contains(c));
  }
  CHECK_FALSE(is_token(""));
}

TEST_CASE("only blanks and tabs are trimmed, on both sides") {
  CHECK(trimmed(" \t a b\t ") == "a b");
  CHECK(trimmed(" \t ") == "");
  CHECK(trimmed("\na\r") == "\na\r");
}

TEST_CASE("a word is found in a list whatever its case and place, and only as a whole element") {
  CHECK(list_has("te, Close", "close"));
  CHECK(list_has("close", "close"));
  CHECK(list_has(",,\tclose\t,", "close"));
  CHECK_FALSE(list_has("closed, not close", "close"));
  CHECK_FALSE(list_has("", "close"));
}
