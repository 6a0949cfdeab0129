#include "schema/evidence/canonical_entry.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace driftgate::schema;

namespace {

const EntryValue kSample = EntryValue::Object{
    {"a", EntryValue::Array{1, -2, true, false, nullptr, "text", EntryValue::Object{}, EntryValue::Array{}}},
    {"b_2", EntryValue::measured(0.1)},
    {"c", "\"\\\b\f\n\r\t\x01\x1f é € 𝄞"},
    {"z", kMaxEntryInteger}};
const std::string kSampleBytes =
    R"({"a":[1,-2,true,false,null,"text",{},[]],"b_2":{"dec":"0.1","hex":"3fb999999999999a"},)"
    R"("c":"\"\\\b\f\n\r\t\u0001\u001f é € 𝄞","z":9007199254740991})";

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

}  // namespace

TEST_CASE("a value is written in canonical form and reads back") {
  CHECK(write_canonical(kSample) == kSampleBytes);
  CHECK(parse_canonical(kSampleBytes) == kSample);
  CHECK(kSample.find("b_2")->number() == 0.1);
  CHECK(!kSample.find("a")->number());
  CHECK(kSample.find("none") == nullptr);
}

TEST_CASE("a canonical document cut at any byte is refused with a place") {
  for (std::size_t cut = 0; cut < kSampleBytes.size(); ++cut) {
    CAPTURE(cut);
    const auto refused = parse_canonical(kSampleBytes.substr(0, cut));
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::invalid_document);
    CHECK(refused.error().where.starts_with("byte "));
  }
}

TEST_CASE("whatever single byte is put anywhere, what is accepted is canonical") {
  int accepted = 0;
  for (std::size_t at = 0; at < kSampleBytes.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = kSampleBytes;
      changed[at] = static_cast<char>(byte);
      const auto parsed = parse_canonical(changed);
      if (!parsed) continue;
      ++accepted;
      REQUIRE(write_canonical(*parsed) == changed);
    }
  }
  CHECK(accepted > static_cast<int>(kSampleBytes.size()) / 2);  // letters in strings may be others
}

TEST_CASE("every other spelling is refused") {
  for (const std::string_view bad : {"",
                                     " ",
                                     " 1",
                                     "1 ",
                                     "\n",
                                     "\xEF\xBB\xBF{}",
                                     "{} ",
                                     "{}{}",
                                     "{ }",
                                     "[ ]",
                                     "[1, 2]",
                                     "[1,]",
                                     "[,1]",
                                     "[1 2]",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "{\"a\"}",
                                     "{\"a\":}",
                                     "{\"a\":1,}",
                                     "{,\"a\":1}",
                                     "{\"a\" :1}",
                                     "{\"a\": 1}",
                                     "{a:1}",
                                     "{\"b\":1,\"a\":2}",
                                     "{\"a\":1,\"a\":1}",
                                     "{\"A\":1}",
                                     "{\"\":1}",
                                     "{\"1a\":1}",
                                     "{\"a-b\":1}",
                                     "{\"a\\u0062\":1}",
                                     "{\"é\":1}",
                                     "{1:1}",
                                     "01",
                                     "-0",
                                     "+1",
                                     "1.0",
                                     "1e3",
                                     "1.",
                                     ".5",
                                     "-",
                                     "0x1",
                                     "9007199254740992",
                                     "-9007199254740992",
                                     "99999999999999999999999",
                                     "tru",
                                     "True",
                                     "nul",
                                     "NaN",
                                     "Infinity",
                                     "'a'",
                                     "\"",
                                     "\"a",
                                     "\"\\u0041\"",
                                     "\"\\/\"",
                                     "\"\\u000a\"",
                                     "\"\\u001F\"",
                                     "\"\\u2028\"",
                                     "\"\\x41\"",
                                     "\"\\",
                                     "\"\\u00\"",
                                     "\"\x01\"",
                                     "\"\n\"",
                                     "// c\n1",
                                     "[1]//",
                                     "{\"dec\":\"0.1\",\"hex\":\"3fb999999999999b\"}",
                                     "{\"dec\":\"0.10\",\"hex\":\"3fb999999999999a\"}",
                                     "{\"dec\":1,\"hex\":\"3ff0000000000000\"}"}) {
    CAPTURE(bad);
    CHECK(!parse_canonical(bad));
  }
  CHECK(!parse_canonical(std::string("\"\0\"", 3)));
}

TEST_CASE("strings that are not UTF-8 are refused by reader and writer") {
  for (const std::string_view bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xE0\x80\x80", "\xE0\x9F\xBF",
                                     "\xED\xA0\x80", "\xED\xBF\xBF", "\xE2\x82", "\xF0\x8F\xBF\xBF",
                                     "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFE", "\xFF", "a\xC3("}) {
    CHECK(!parse_canonical("\"" + std::string(bad) + "\""));
    const auto refused = write_canonical(EntryValue::Object{{"k", EntryValue::Array{bad}}});
    REQUIRE(!refused);
    CHECK(refused.error().where == "/k/0");
  }
  for (const std::string_view good : {"\x7F", "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                                      "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    CHECK(parse_canonical("\"" + std::string(good) + "\"").has_value());
  }
}

TEST_CASE("depth and length have their limits to the byte") {
  CHECK(parse_canonical(nested(kMaxEntryDepth)).has_value());
  CHECK(write_canonical(parse_canonical(nested(kMaxEntryDepth)).value()) == nested(kMaxEntryDepth));
  CHECK(!parse_canonical(nested(kMaxEntryDepth + 1)));
  CHECK(!parse_canonical(std::string(kMaxEntryBytes, '[')));
  EntryValue deep;
  for (std::size_t i = 0; i <= kMaxEntryDepth; ++i) deep = EntryValue::Array{deep};
  CHECK(write_canonical(deep).error().code == ErrorCode::limit_exceeded);
  const std::string longest(kMaxEntryBytes - 2, 'x');
  CHECK(write_canonical(longest)->size() == kMaxEntryBytes);
  CHECK(parse_canonical("\"" + longest + "\"").has_value());
  CHECK(write_canonical(longest + "x").error().code == ErrorCode::limit_exceeded);
  CHECK(parse_canonical("\"" + longest + "x\"").error().code == ErrorCode::limit_exceeded);
}

TEST_CASE("the writer refuses bad keys and integers beyond 2^53 by pointer") {
  const auto where = [](EntryValue value) {
    return write_canonical(EntryValue::Object{{"a", std::move(value)}}).error().where;
  };
  CHECK(where(kMaxEntryInteger + 1) == "/a");
  CHECK(where(-kMaxEntryInteger - 1) == "/a");
  CHECK(where(~std::uint64_t{0}) == "/a");
  CHECK(where(EntryValue::Object{{"Bad", 1}}) == "/a");
  CHECK(where(EntryValue::Object{{std::string(65, 'k'), 1}}) == "/a");
  CHECK(write_canonical(EntryValue::Object{{std::string(64, 'k'), 1}}).has_value());
}
