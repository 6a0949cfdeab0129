#include "daemon/route/table/route_json.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/daemon/route/sample_route.hpp"

using namespace driftgate::route;

namespace {

ModelRoute full_route() {
  auto route = sample_route();
  route.seed = std::numeric_limits<std::uint64_t>::max();
  route.slices = {{{{"language", "de"}}, 250, false}, {{{"domain", "code"}, {"language", "fr"}}, 0, true}};
  route.pins = {{"al\"ice", "candidate"}};
  route.mirror_bp = 5'000;
  route.mirror_token_budget = 1'000'000;
  return route;
}

}  // namespace

TEST_CASE("routes survive the trip through JSON text") {
  for (auto route : {sample_route(), full_route()}) {
    for (const bool with_arms : {true, false}) {
      if (!with_arms) route.candidate.reset(), route.fallback.reset();
      const auto back = route_from_json(*parse_json(to_json(route).dump()));
      REQUIRE(back);
      CHECK(*back == route);
    }
  }
  const auto observed = observed_from_json(to_json(ObservedRoute{full_route(), true}));
  REQUIRE(observed);
  CHECK(observed->reverted);
  CHECK(observed->route == full_route());
}

TEST_CASE("a missing, wrong or unknown member is refused and named") {
  const auto good = to_json(full_route());
  for (const auto& [name, value] : good.items()) {
    CAPTURE(name);
    auto json = good;
    json.erase(name);
    const bool optional_member = name == "candidate" || name == "fallback";
    CHECK(route_from_json(json).has_value() == optional_member);
    json[name] = -1;
    const auto wrong = route_from_json(json);
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().where.find(name) != std::string::npos);
  }
  auto unknown = good;
  unknown["extra"] = 1;
  CHECK_FALSE(route_from_json(unknown));
  unknown = good;
  unknown["incumbent"]["extra"] = 1;
  CHECK_FALSE(route_from_json(unknown));
  auto large = good;
  large["candidate_bp"] = 1ULL << 32;
  CHECK_FALSE(route_from_json(large));
  for (const char* text : {"[]", "1", "null", "\"x\""})
    CHECK_FALSE(route_from_json(nlohmann::json::parse(text)));
}

TEST_CASE("text that is no JSON, or too deep, is refused") {
  CHECK_FALSE(parse_json("{"));
  CHECK_FALSE(parse_json(std::string(40, '[') + std::string(40, ']')));
  CHECK_FALSE(parse_json(std::string(1'000'000, '[')));
  CHECK(parse_json(std::string(20, '[') + std::string(20, ']')));
}

TEST_CASE("errors keep their code on the way") {
  const auto back = error_from_json(
      to_json(driftgate::schema::Error{driftgate::schema::ErrorCode::conflict, "old", "", nullptr}));
  CHECK(back.code == driftgate::schema::ErrorCode::conflict);
  CHECK(back.message == "old");
  CHECK(error_from_json(nlohmann::json::parse(R"({"code":"new_kind"})")).code ==
        driftgate::schema::ErrorCode::internal);
}
