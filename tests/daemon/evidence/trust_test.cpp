#include "daemon/evidence/keys/trust.hpp"

#include <doctest/doctest.h>

#include <string>

namespace driftgate::evidence {
namespace {

TrustedKey key(KeyUse use, const std::string& name, std::uint8_t fill, std::uint64_t from_size = 0) {
  TrustedKey made{.use = use, .name = name, .from_size = from_size, .from_us = 7};
  made.key.fill(fill);
  return made;
}

const std::string kKey = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

std::string file_of(const std::string& keys) {
  return R"({"v":1,"keys":[)" + keys + "]}";
}

TEST_CASE("a trust file reads back as it was written") {
  TrustFile trust{{key(KeyUse::head, "example.org/log", 1), key(KeyUse::head, "example.org/log", 2, 40),
                   key(KeyUse::attestation, "example.org/attest", 3)}};
  trust.keys[0].until_us = 12;
  const auto read = parse_trust(trust_json(trust));
  REQUIRE(read);
  CHECK(*read == trust);
}

TEST_CASE("what is not exactly a trust file is refused with a pointer to the fault") {
  const std::string good = R"({"use":"head","name":"a","from_us":0,"key":")" + kKey + "\"}";
  REQUIRE(parse_trust(file_of(good)));
  const std::pair<std::string, std::string> bad[] = {
      {"", ""},
      {"[]", ""},
      {R"({"v":2,"keys":[]})", ""},
      {R"({"v":1,"keys":[],"x":1})", ""},
      {file_of(""), "/keys"},
      {file_of("1"), "/keys/0"},
      {file_of(R"({"use":"webhook","name":"a","from_us":0,"key":")" + kKey + "\"}"), "/keys/0/use"},
      {file_of(R"({"use":"head","name":"a b","from_us":0,"key":")" + kKey + "\"}"), "/keys/0/name"},
      {file_of(R"({"use":"head","name":"","from_us":0,"key":")" + kKey + "\"}"), "/keys/0/name"},
      {file_of(R"({"use":"head","name":"a","from_us":0,"key":"AQE="})"), "/keys/0/key"},
      {file_of(R"({"use":"head","name":"a","from_us":-1,"key":")" + kKey + "\"}"), "/keys/0/from_us"},
      {file_of(R"({"use":"head","name":"a","key":")" + kKey + "\"}"), "/keys/0"},
      {file_of(R"({"use":"head","name":"a","from_us":0,"colour":1,"key":")" + kKey + "\"}"),
       "/keys/0/colour"},
      {file_of(good + "," + good), "/keys/1/key"},
      {file_of(good + R"(,{"use":"attestation","name":"b","from_us":0,"key":")" + kKey + "\"}"),
       "/keys/1/key"},
  };
  for (const auto& [text, where] : bad) {
    CAPTURE(text);
    const auto read = parse_trust(text);
    REQUIRE_FALSE(read);
    if (!where.empty()) CHECK(read.error().where == where);
  }
}

TEST_CASE("a head is trusted under the key in force at its size, at a rotation under both") {
  const TrustFile trust{{key(KeyUse::head, "a", 1), key(KeyUse::head, "a", 2, 40), key(KeyUse::head, "b", 3),
                         key(KeyUse::attestation, "a", 4), key(KeyUse::head, "a", 5, 90)}};
  const auto fills = [&](std::uint64_t size) {
    std::string text;
    for (const auto& found : head_keys_at(trust, "a", size)) text += static_cast<char>('0' + found.key[0]);
    return text;
  };
  CHECK(fills(0) == "1");
  CHECK(fills(39) == "1");
  CHECK(fills(40) == "21");
  CHECK(fills(41) == "2");
  CHECK(fills(90) == "52");
  CHECK(fills(91) == "5");
  CHECK(head_keys_at(trust, "c", 5).empty());
}

}  // namespace
}  // namespace driftgate::evidence
