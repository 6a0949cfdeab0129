#include "daemon/pipeline/entry_bodies.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "daemon/evidence/verify/derivation.hpp"

using namespace driftgate;
using schema::EntryValue;

namespace {

/// Whole doubles around each size at which another way of writing begins, and those that are no numbers.
std::vector<double> awkward() {
  std::vector<double> values{0.0, -0.0, 3.0, -3.0, 0.1, 1e300, 5e-324, HUGE_VAL, -HUGE_VAL, std::nan("")};
  for (const int exponent : {31, 52, 53, 54, 60, 63, 64, 69, 70}) {
    for (const double sign : {1.0, -1.0}) {
      values.push_back(sign * std::ldexp(1, exponent));
      values.push_back(sign * std::nextafter(std::ldexp(1, exponent), 0));
      values.push_back(sign * std::nextafter(std::ldexp(1, exponent), HUGE_VAL));
    }
  }
  return values;
}

schema::ClauseVerdict verdict_with(double value) {
  schema::ClauseVerdict verdict;
  verdict.clause = "runtime.errors";
  verdict.verdict = schema::Verdict::inconclusive;
  verdict.where = {{"prompt length", "long"}};
  verdict.n = 2'000;
  verdict.e_value = value;
  verdict.threshold = value;
  verdict.details = {{"e_proof", value}, {"E proof", value}};
  return verdict;
}

bool is_same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b;
}

}  // namespace

TEST_CASE("each double of a verdict is a measured number in its entry, whatever its value") {
  for (const double value : awkward()) {
    CAPTURE(value);
    const auto verdict = verdict_with(value);
    const auto body = pipeline::verdict_body(verdict, "sha256:ab", "0.1");
    REQUIRE(body.at("e_value").number().has_value());
    CHECK(is_same(*body.at("e_value").number(), value));
    CHECK(body.at("alpha").number().has_value());
    CHECK(body.at("n").integer() != nullptr);
    CHECK(*body.at("rules").integer() == schema::kCurrentRules);
    const auto bytes = schema::write_canonical(body);
    REQUIRE_MESSAGE(bytes.has_value(), (bytes ? "" : bytes.error().describe()));
    const auto back = evidence::clause_verdict_of(*schema::parse_canonical(*bytes)->object());
    REQUIRE_MESSAGE(back.has_value(), (back ? "" : back.error().message));
    CHECK(is_same(*back->e_value, value));
    CHECK(is_same(back->details.at("E proof"), value));
    CHECK(back->where == verdict.where);
    CHECK(schema::to_json(*back) == schema::to_json(verdict));
  }
}

TEST_CASE("each double of a verdict comes back from its stored JSON") {
  for (const double value : awkward()) {
    CAPTURE(value);
    const auto verdict = verdict_with(value);
    const auto text = schema::to_json(verdict);
    for (const std::string& stored : {text, nlohmann::json::parse(text).dump()}) {
      const auto back = schema::clause_verdict_from_json(stored);
      REQUIRE_MESSAGE(back.has_value(), (back ? "" : back.error().message));
      CHECK(is_same(*back->e_value, value));
      CHECK(is_same(back->details.at("e_proof"), value));
    }
  }
}

TEST_CASE("integers of an entry that 2^53 cannot hold are texts of their hexadecimal digits") {
  const auto text = [](const nlohmann::json& value) {
    const auto entry = pipeline::entry_value(value);
    return entry.text() == nullptr ? std::string() : *entry.text();
  };
  CHECK(*pipeline::entry_value(9'007'199'254'740'991).integer() == 9'007'199'254'740'991);
  CHECK(*pipeline::entry_value(-9'007'199'254'740'991).integer() == -9'007'199'254'740'991);
  CHECK(text(std::uint64_t{9'007'199'254'740'992}) == "0020000000000000");
  CHECK(text(std::int64_t{-9'007'199'254'740'992}) == "-0020000000000000");
  CHECK(text(std::numeric_limits<std::uint64_t>::max()) == "ffffffffffffffff");
  CHECK(text(std::numeric_limits<std::int64_t>::min()) == "-8000000000000000");
  CHECK(pipeline::entry_value(18446744073709551616.0).number().has_value());
  CHECK(pipeline::entry_value(3.0).number().has_value());
}
