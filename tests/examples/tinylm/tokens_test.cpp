#include "examples/tinylm/src/tokens.hpp"

#include <doctest/doctest.h>

#include <set>
#include <vector>

using namespace tinylm;

TEST_CASE("every token has a string of its own") {
  std::set<std::string> seen;
  for (std::int32_t token = 0; token <= 256; ++token) CHECK(seen.insert(token_string(token)).second);
  CHECK(token_string('a') == "a");
  CHECK(token_string(0xC3) == "bytes:\\xc3");
  CHECK(token_string(256) == "<s>");
}

TEST_CASE("valid text passes unchanged and each stray byte becomes one replacement character") {
  CHECK(to_valid_utf8("für → 𝄞") == "für → 𝄞");
  CHECK(to_valid_utf8("a\xC3") == "a\uFFFD");
  CHECK(to_valid_utf8("\xC0\x80") == "\uFFFD\uFFFD");
  CHECK(to_valid_utf8("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");
  CHECK(to_valid_utf8("\xF4\x90\x80\x80") == "\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST_CASE("text is held back exactly while its last character may still be completed") {
  const std::string text = "ü→𝄞x";
  const std::vector<std::size_t> complete = {0, 0, 2, 2, 2, 5, 5, 5, 5, 9, 10};
  for (std::size_t n = 0; n <= text.size(); ++n) CHECK(complete_prefix(text.substr(0, n)) == complete[n]);
  CHECK(complete_prefix("a\xFF") == 2);
  CHECK(complete_prefix("a\x80") == 2);
}
