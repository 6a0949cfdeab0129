#include "daemon/route/http/json_scan.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/daemon/route/body_oracle.hpp"

using namespace driftgate::route;

namespace {

/// Writes down what it is told.
class Notes final : public JsonEvents {
 public:
  std::string text;
  std::size_t code_points = 0;  ///< of the last string

  bool begin_object() override { return note("{"); }
  bool begin_array() override { return note("["); }
  void end() override { note("."); }
  bool key(const JsonText& name) override { return note("k:" + name.decoded()); }
  bool string(const JsonText& value) override {
    code_points = value.code_points();
    return note("s:" + value.decoded());
  }
  bool number(std::string_view digits) override { return note("n:" + std::string(digits)); }
  bool boolean(bool value) override { return note(value ? "true" : "false"); }
  bool null() override { return note("null"); }

 private:
  bool note(const std::string& what) {
    text += what + ' ';
    return true;
  }
};

bool accepts(std::string_view text) {
  Notes notes;
  return scan_json(text, notes);
}

/// The other parser's verdict. It takes a NUL for the end of the text, where no JSON may have one.
bool other_accepts(const std::string& text) {
  return !text.contains('\0') && nlohmann::json::accept(text);
}

/// The scanner's verdict, which must be that of the other parser.
bool both_accept(const std::string& text) {
  CAPTURE(text);
  const bool accepted = accepts(text);
  CHECK(accepted == other_accepts(text));
  return accepted;
}

std::string quoted(const std::string& inside) {
  return '"' + inside + '"';
}

std::string unicode_escape(unsigned unit) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "\\u%04x", unit);
  return text.data();
}

std::string bytes_of(std::initializer_list<unsigned> codes) {
  std::string bytes;
  for (const unsigned code : codes) bytes += static_cast<char>(static_cast<unsigned char>(code));
  return bytes;
}

/// A request with something of everything that the router reads.
const std::string kRich =
    R"( {"model":"m\u006f","user":"u\"\\/","stream":true,"n":2,"max_tokens":7,"max_completion_tokens":9,)"
    R"("prompt":"h\u00e4 ä€😀\ud83d\ude00","metadata":{"a":"b","c":1.5e-3,"d":["e"]},"messages":[{"role":"user",)"
    R"("content":[{"type":"text","text":"x\ny"}]},{"content":"z"}],"x":[-0,0.1E+2,null,false,{}], "choices":[]} )";

/// Bytes that mean something somewhere in a JSON text, or end what does.
const std::string kTelling = bytes_of({0x00, 0x01, 0x09, 0x0a, 0x1f, 0x20, 0x7f, 0x80, 0xa0, 0xbf, 0xc0, 0xc2,
                                       0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xff}) +
                             "\"\\/+-.019:,[]{}aeEfnrtudx";

constexpr std::array kJson{"[]",
                           "{}",
                           "0",
                           "-0",
                           "1",
                           "-1.5",
                           "\"\"",
                           "null",
                           "true",
                           "false",
                           " [ ] ",
                           "\t\r\n{ }\n",
                           "[1,2]",
                           R"({"a":1,"a":2})",
                           R"({"":0})",
                           "[[],[[]]]",
                           "[-0e-1]",
                           "[1E+2]",
                           "[1e22]",
                           "[0.0]",
                           "[123456789012345678901]",
                           "[1e-999]",
                           "[\"\x7f\"]",
                           R"(["\u0000"])",
                           R"(["\"\\\/\b\f\n\r\t"])",
                           R"(["\uDBFF\udfff"])",
                           "[1.7976931348623157e308]",
                           "[-1.7976931348623157e308]",
                           "[1.7976931348623158e308]",
                           "[0.00000000000000000000000000000000000000000000000000001e340]"};

constexpr std::array kNearlyJson{"",
                                 " ",
                                 "[",
                                 "]",
                                 "{",
                                 "}",
                                 "[1,]",
                                 "[,1]",
                                 "[,]",
                                 "[1 2]",
                                 "[1,,2]",
                                 "[1}",
                                 "{1}",
                                 "{,}",
                                 R"({"a"})",
                                 R"({"a":})",
                                 R"({"a":1,})",
                                 R"({"a",1})",
                                 R"({"a":1 "b":2})",
                                 R"({"a"::1})",
                                 R"({a:1})",
                                 R"({'a':1})",
                                 R"({"a":1]})",
                                 "[]]",
                                 "[][]",
                                 "{}{}",
                                 "1 2",
                                 "01",
                                 "-01",
                                 "00",
                                 "-",
                                 "+1",
                                 ".5",
                                 "1.",
                                 "1.e1",
                                 "1e",
                                 "1e+",
                                 "1e-",
                                 "0x1",
                                 "1_000",
                                 "1.5.5",
                                 "1ee2",
                                 "--1",
                                 "- 1",
                                 "Infinity",
                                 "-Infinity",
                                 "NaN",
                                 "nan",
                                 "tru",
                                 "truee",
                                 "True",
                                 "nul",
                                 "nulll",
                                 "fals",
                                 "[true false]",
                                 "\"",
                                 "\"a",
                                 R"("\")",
                                 R"("\x")",
                                 R"("\u")",
                                 R"("\u12")",
                                 R"("\u123g")",
                                 R"("\u-123")",
                                 R"("\u+123")",
                                 R"("\U0041")",
                                 R"("\ud800")",
                                 R"("\udc00")",
                                 R"("\ud800a")",
                                 R"("\ud800\n")",
                                 R"("\ud800\ud800")",
                                 R"("\ud800\u0041")",
                                 R"("\udc00\ud800")",
                                 R"("\ud800\u")",
                                 "\"\t\"",
                                 "\"\n\"",
                                 "'a'",
                                 "/**/1",
                                 "1//",
                                 "[1] x",
                                 "\x0b[]",
                                 "\f[]",
                                 "[1e309]",
                                 "[-1e309]",
                                 "[1e999999999999999999999]",
                                 "[1.7976931348623159e308]",
                                 "\xef\xbb[]",
                                 "\xfe\xff[]",
                                 "\xc2\xa0[]"};

}  // namespace

TEST_CASE("everything in a JSON text is told in its order") {
  Notes notes;
  REQUIRE(scan_json(R"({"a":[1,-2.5e3,"x"],"b":{"c":null,"d":true},"e":false,"f":[],"g":{}})", notes));
  CHECK(notes.text == "{ k:a [ n:1 n:-2.5e3 s:x . k:b { k:c null k:d true . k:e false k:f [ . k:g { . . ");
}

TEST_CASE("texts that are JSON are accepted") {
  for (const char* text : kJson) CHECK(both_accept(text));
}

TEST_CASE("texts that are nearly JSON are refused") {
  for (const char* text : kNearlyJson) CHECK_FALSE(both_accept(text));
}

TEST_CASE("a number of any length is refused when no double holds it") {
  for (const std::size_t digits : {18u, 19u, 20u, 21u, 300u, 308u, 309u, 310u, 400u, 5'000u}) {
    const std::string nines(digits, '9');
    const std::string zeros(digits, '0');
    for (const std::string& number :
         {nines, '-' + nines, nines + ".5", "0." + zeros + "1", "0." + nines, '1' + zeros,
          "1" + zeros + "e-" + "400", "0." + zeros + "1e400", "0." + zeros + "1e5000", nines + "e-5000",
          nines + "e5000", "0e" + nines, "0.0e" + nines, "1e-" + nines, "1e" + nines, "1e0" + zeros})
      both_accept(number);
  }
}

TEST_CASE("strings are well-formed UTF-8") {
  for (unsigned first = 0; first < 256; ++first) {
    both_accept(quoted(bytes_of({first})));
    for (unsigned second = 0; second < 256; ++second) {
      const auto pair = bytes_of({first, second});
      if (accepts(quoted(pair)) != other_accepts(quoted(pair))) both_accept(quoted(pair));
      if (first < 0xe0) continue;
      for (const unsigned third : {0x00u, 0x22u, 0x7fu, 0x80u, 0xbfu, 0xc0u, 0xffu}) {
        const auto three = bytes_of({first, second, third});
        for (const std::string& inside :
             {three, three + '\x7f', three + '\x80', three + '\xbf', three + '\xc0'})
          if (accepts(quoted(inside)) != other_accepts(quoted(inside))) both_accept(quoted(inside));
      }
    }
  }
}

TEST_CASE("escaped characters are the characters that they mean") {
  for (unsigned unit = 0; unit < 0x10000; ++unit) {
    const auto text = '[' + quoted(unicode_escape(unit)) + ']';
    Notes notes;
    const bool accepted = scan_json(text, notes);
    const auto other = nlohmann::json::parse(text, nullptr, false);
    CAPTURE(unit);
    REQUIRE(accepted == !other.is_discarded());
    if (!accepted) continue;
    REQUIRE(notes.text == "[ s:" + other[0].get<std::string>() + " . ");
    REQUIRE(notes.code_points == 1);
  }
  for (const unsigned high : {0xd7ffu, 0xd800u, 0xd83du, 0xdbffu, 0xdc00u})
    for (const unsigned low : {0xdbffu, 0xdc00u, 0xde00u, 0xdfffu, 0xe000u}) {
      const auto text = '[' + quoted(unicode_escape(high) + unicode_escape(low)) + ']';
      if (!both_accept(text)) continue;
      Notes notes;
      CHECK(scan_json(text, notes));
      CHECK(notes.text == "[ s:" + nlohmann::json::parse(text)[0].get<std::string>() + " . ");
    }
}

TEST_CASE("what interrupts a string is found wherever it stands") {
  for (std::size_t size = 0; size < 70; ++size) {
    for (std::size_t at = 0; at <= size; ++at) {
      for (const char* special :
           {"\\n", "\\\"", "\\u00e4", "\\ud83d\\ude00", "ä", "€", "😀", "\x01", "\x80", "\\"}) {
        const auto text = '[' + quoted(std::string(at, 'a') + special + std::string(size - at, 'c')) + ']';
        Notes notes;
        const bool accepted = scan_json(text, notes);
        const auto other = nlohmann::json::parse(text, nullptr, false);
        CAPTURE(text);
        REQUIRE(accepted == !other.is_discarded());
        if (!accepted) continue;
        REQUIRE(notes.text == "[ s:" + other[0].get<std::string>() + " . ");
        REQUIRE(notes.code_points == size + 1);
      }
    }
  }
}

TEST_CASE("objects and arrays may be nested 64 deep") {
  const auto nested = [](const std::string& open, const std::string& close, int deep) {
    std::string text;
    for (int i = 0; i < deep; ++i) text += open;
    text += '1';
    for (int i = 0; i < deep; ++i) text += close;
    return text;
  };
  for (const auto& [open, close] :
       {std::pair{"[", "]"}, std::pair{"{\"a\":", "}"}, std::pair{"[{\"a\":", "}]"}}) {
    const int each = std::string(open).size() > 5 ? 2 : 1;
    CHECK(accepts(nested(open, close, kMaxJsonDepth / each)));
    CHECK_FALSE(accepts(nested(open, close, kMaxJsonDepth / each + 1)));
  }
  CHECK_FALSE(accepts(std::string(100'000, '[')));
  // The kind of each container is known to the last.
  CHECK_FALSE(accepts(nested("[", "]", 63).substr(0, 64) + "}" + std::string(62, ']')));
  CHECK(accepts("[" + nested("{\"a\":[", "]}", 31) + "]"));
}

TEST_CASE("what interrupts a long string is found wherever it stands") {
  constexpr std::size_t kAround = 80;
  for (const std::string middle : {R"(\n)", R"(\")", R"(\\)", R"(\u00e4)", R"(\ud83d\ude00)", "\xc3\xa4",
                                   "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    for (std::size_t at = 0; at <= kAround; ++at) {
      const auto text = '"' + std::string(at, 'a') + middle + std::string(kAround - at, 'b') + '"';
      CAPTURE(text);
      Notes notes;
      CHECK(scan_json(text, notes));
      CHECK(notes.text == "s:" + nlohmann::json::parse(text).get<std::string>() + ' ');
      CHECK(notes.code_points == kAround + 1);
    }
  }
}

TEST_CASE("names are compared by what they mean") {
  CHECK(JsonText{R"(mod\u0065l)", 5}.is("model"));
  CHECK_FALSE(JsonText{R"(mod\u0065l)", 0}.is("model"));
  CHECK_FALSE(JsonText{R"(mod\u0065l)", 5}.is("mode"));
  CHECK(JsonText{R"(\ud83d\ude00)", 11}.is("😀"));
}

TEST_CASE("a request is read as another parser reads it, whatever byte of it changes") {
  REQUIRE(scan_request_body(kRich));
  REQUIRE(oracle::agree_on_request(kRich));
  REQUIRE(oracle::agree_on_answer(kRich));
  for (std::size_t at = 0; at < kRich.size(); ++at) {
    CAPTURE(at);
    REQUIRE(oracle::agree_on_request(kRich.substr(0, at)));
    REQUIRE(oracle::agree_on_answer(kRich.substr(0, at)));
    REQUIRE(oracle::agree_on_request(kRich.substr(0, at) + kRich.substr(at + 1)));
    for (const char byte : kTelling) {
      auto changed = kRich;
      changed[at] = byte;
      CAPTURE(static_cast<int>(byte));
      REQUIRE(oracle::agree_on_request(changed));
      REQUIRE(oracle::agree_on_answer(changed));
    }
  }
}

TEST_CASE("texts of random pieces are read as another parser reads them") {
  const std::vector<std::string> pieces{"{",
                                        "}",
                                        "[",
                                        "]",
                                        ":",
                                        ",",
                                        " ",
                                        "\"model\":",
                                        "\"mod\\u0065l\":",
                                        "\"user\":",
                                        "\"metadata\":{",
                                        "\"stream\":",
                                        "\"n\":",
                                        "\"max_tokens\":",
                                        "\"prompt\":",
                                        "\"messages\":[{",
                                        "\"content\":",
                                        "\"text\":",
                                        "\"choices\":[",
                                        "\"a\":",
                                        "\"m\"",
                                        "\"\"",
                                        "\"ä\\n\"",
                                        "\"\\ud83d\\ude00\"",
                                        "true",
                                        "false",
                                        "null",
                                        "0",
                                        "-1",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "1.5",
                                        "1e400",
                                        "3",
                                        std::string(1, '\0'),
                                        "\xef\xbb\xbf",
                                        "\xff"};
  std::mt19937_64 random(7);
  for (int i = 0; i < 50'000; ++i) {
    std::string text = "{";
    const auto count = random() % 12;
    for (std::size_t j = 0; j < count; ++j) {
      text += pieces[random() % pieces.size()];
      if (random() % 2 == 0) text += ',';
    }
    if (random() % 4 != 0) text += '}';
    CAPTURE(text);
    REQUIRE(oracle::agree_on_request(text));
    REQUIRE(oracle::agree_on_answer(text));
  }
}

TEST_CASE("metadata keeps its limit, and the number of characters does too") {
  std::string many = R"({"model":"m","metadata":{)";
  for (std::size_t i = 0; i < 2 * kMaxMetadataEntries; ++i) many += "\"k" + std::to_string(i) + "\":\"v\",";
  many += R"("k0":"w"}})";
  REQUIRE(scan_request_body(many));
  CHECK(scan_request_body(many)->metadata.size() == kMaxMetadataEntries);
  CHECK(oracle::agree_on_request(many));
}
