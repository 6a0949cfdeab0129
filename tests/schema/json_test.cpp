#include "schema/json.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace driftgate::schema {
namespace {

std::string canonical(std::string_view text) {
  return canonical_json(nlohmann::json::parse(text));
}

TEST_CASE("canonical JSON is the example of RFC 8785 section 3.2.2") {
  const char* input = R"({
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
    "literals": [null, true, false]})";
  CHECK(canonical(input) ==
        "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
        "\"string\":\"\xE2\x82\xAC$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

TEST_CASE("canonical JSON sorts keys by UTF-16 code unit as in RFC 8785 section 3.2.3") {
  const char* input =
      R"({"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7})";
  CHECK(canonical(input) ==
        "{\"\\r\":2,\"1\":4,\"\xC2\x80\":6,\"\xC3\xB6\":7,\"\xE2\x82\xAC\":1,\"\xF0\x9F\x98\x80\":5,"
        "\"\xEF\xAC\xB3\":3}");
}

TEST_CASE("numbers are printed as ECMAScript prints them, with the samples of RFC 8785 appendix B") {
  const std::vector<std::pair<double, std::string>> samples = {
      {0.0, "0"},
      {-0.0, "0"},
      {5e-324, "5e-324"},
      {-5e-324, "-5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {9007199254740992.0, "9007199254740992"},
      {295147905179352830000.0, "295147905179352830000"},
      {9.999999999999997e22, "9.999999999999997e+22"},
      {1e23, "1e+23"},
      {1.0000000000000001e23, "1.0000000000000001e+23"},
      {999999999999999700000.0, "999999999999999700000"},
      {999999999999999900000.0, "999999999999999900000"},
      {1e21, "1e+21"},
      {9.999999999999997e-7, "9.999999999999997e-7"},
      {0.000001, "0.000001"},
      {333333333.3333332, "333333333.3333332"},
      {-0.0000033333333333333333, "-0.0000033333333333333333"},
      {1424953923781206.25, "1424953923781206.2"}};
  for (const auto& [value, text] : samples) CHECK(ecmascript_number(value) == text);
}

TEST_CASE("numbers that are not finite become the strings of the measurement document and come back") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(canonical_json(nlohmann::json{infinity, -infinity, std::nan("")}) ==
        R"(["Infinity","-Infinity","NaN"])");
  CHECK(*number_from_json("Infinity") == infinity);
  CHECK(*number_from_json("-Infinity") == -infinity);
  CHECK(std::isnan(*number_from_json("NaN")));
  CHECK_FALSE(number_from_json("1").has_value());
}

TEST_CASE("a document that breaks a rule is refused before it is built") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"a":1,"a":2})", "appears twice"},
      {R"([{"x":{"k":1,"k":1}}])", "appears twice"},
      {"[9007199254740992]", "beyond 2^53"},
      {"[-9007199254740992]", "beyond 2^53"},
      {"[123456789012345678901234567890]", "beyond 2^53"},
      {"[1e999]", "not valid JSON"},
      {"\xEF\xBB\xBF{}", "byte-order mark"},
      {std::string("{}\0x", 4), "NUL"},
      {"{} {}", "not valid JSON"},
      {"\"\xFF\"", "not valid JSON"},
      {R"("\ud800")", "not valid JSON"},
      {"", "not valid JSON"},
      {"[1,]", "not valid JSON"},
      {"// c\n1", "not valid JSON"}};
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    const auto parsed = parse_json(text);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().message.find(expected) != std::string::npos);
  }
  CHECK(parse_json("[9007199254740991,-9007199254740991,1e300,12345678901234567890.5]").has_value());
}

TEST_CASE("faults of a document name their place") {
  CHECK(parse_json(R"({"a":[0,{"b/c":1,"b/c":2}]})").error().where == "/a/1/b~1c");
  CHECK(parse_json("{\n  \"a\": 1,\n  x\n}").error().where == "line 3 column 3");
}

TEST_CASE("the limits on depth, number of values and size hold at their edge") {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  CHECK(parse_json(nested(32)).has_value());
  CHECK(parse_json(nested(33)).error().code == ErrorCode::limit_exceeded);
  // Far deeper than any stack: the check must not recurse.
  JsonLimits deep;
  deep.bytes = std::size_t{1} << 22;
  CHECK(parse_json(std::string(2'000'000, '['), deep).error().code == ErrorCode::limit_exceeded);

  JsonLimits few;
  few.values = 4;
  CHECK(parse_json("[1,2,3]", few).has_value());
  CHECK(parse_json("[1,2,3,4]", few).error().code == ErrorCode::limit_exceeded);
  few.bytes = 5;
  CHECK(parse_json("[1,2]", few).has_value());
  CHECK(parse_json("[1,2] ", few).error().code == ErrorCode::limit_exceeded);
}

TEST_CASE("every truncation of a document is refused and none crashes") {
  const std::string text = R"({"a":[1,-2.5e3,"\u00e9",{"b":null}],"c":true})";
  REQUIRE(parse_json(text).has_value());
  for (std::size_t length = 0; length < text.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(parse_json(text.substr(0, length)).has_value());
  }
}

TEST_CASE("the digest of a document is the SHA-256 of its canonical text") {
  CHECK(document_digest("{}") == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
}

}  // namespace
}  // namespace driftgate::schema
