#include "daemon/route/table/slice.hpp"

#include <doctest/doctest.h>

using namespace driftgate::route;

TEST_CASE("a slice header becomes attributes sorted by dimension") {
  const auto slice = parse_slice_header(" language=de ; domain = code;");
  REQUIRE(slice);
  CHECK(canonical_slice(*slice) == "domain=code;language=de");
  CHECK(canonical_slice(*parse_slice_header("")).empty());
}

TEST_CASE("hostile slice headers are refused") {
  const std::string long_value(kMaxSliceValueBytes + 1, 'x');
  std::string many;
  for (std::size_t i = 0; i <= kMaxSliceDimensions; ++i) many += "d" + std::to_string(i) + "=x;";
  for (const std::string& text :
       {std::string("language"), std::string("=de"), std::string("language="), std::string("Language=de"),
        std::string("1a=de"), std::string("a=b=c"), std::string("a=b,c"), std::string("a=\"b\""),
        std::string("a=b\\"), std::string("a=\x01"), std::string("a=\xc3\xa4"), std::string("a=b;a=c"),
        std::string("a-b=c"), std::string(kMaxDimensionBytes + 1, 'd') + "=x", "a=" + long_value, many,
        std::string(kMaxSliceHeaderBytes + 1, ';'), std::string("a=b\0c", 5)}) {
    CAPTURE(text);
    CHECK_FALSE(parse_slice_header(text));
  }
}

TEST_CASE("every truncation of a slice header is parsed or refused without harm") {
  const std::string whole = "language=de;domain=code";
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const auto slice = parse_slice_header(whole.substr(0, size));
    if (slice) CHECK(slice->size() <= 2);
  }
}

TEST_CASE("metadata that cannot be a slice is left out, the first dimensions by name are kept") {
  std::map<std::string, std::string> metadata{
      {"language", "fr"}, {"Session", "x"}, {"note", "a;b"}, {"empty", ""}};
  CHECK(canonical_slice(slice_of_metadata(metadata)) == "language=fr");
  for (int i = 0; i < 20; ++i) metadata["d" + std::to_string(i)] = "x";
  CHECK(slice_of_metadata(metadata).size() == kMaxSliceDimensions);
}

TEST_CASE("a slice matches when it has every attribute asked for") {
  const SliceAttributes slice{{"domain", "code"}, {"language", "de"}};
  CHECK(matches({{"language", "de"}}, slice));
  CHECK(matches({{"language", "de"}, {"domain", "code"}}, slice));
  CHECK_FALSE(matches({{"language", "fr"}}, slice));
  CHECK_FALSE(matches({{"language", "de"}, {"tier", "a"}}, slice));
}
