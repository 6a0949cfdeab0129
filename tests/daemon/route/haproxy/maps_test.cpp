#include "daemon/route/haproxy/maps.hpp"

#include <doctest/doctest.h>

#include <regex>

#include "tests/daemon/route/sample_route.hpp"

using namespace driftgate::route;
using namespace driftgate::route::haproxy;
using driftgate::schema::ErrorCode;

namespace {

ObservedRoute full_observed() {
  ObservedRoute observed{sample_route(), false};
  observed.route.epoch = 7;
  observed.route.revision = 3;
  observed.route.seed = 12'345;
  observed.route.candidate_bp = 2'500;
  observed.route.mirror_bp = 400;
  observed.route.mirror_token_budget = 10;
  observed.route.slices = {{{{"domain", "my code"}, {"language", "de"}}, 100, false},
                           {{{"language", "de"}}, 0, true}};
  observed.route.pins = {{"al ice", "candidate"}, {"bob", "incumbent"}};
  return observed;
}

Maps maps_of(const ObservedRoute& observed) {
  Maps maps;
  append_entries(observed, "driftgate_1", maps);
  return maps;
}

/// The value of the first pattern that matches, as map_reg finds it; std::regex has no lookahead over lines,
/// and none is needed.
std::string first_match(const std::vector<MapEntry>& slices, const std::string& text) {
  for (const auto& [pattern, value] : slices) {
    if (std::regex_search(text, std::regex(pattern))) return value;
  }
  return {};
}

}  // namespace

TEST_CASE("a route is one entry, and each pin another one with the key in hexadecimal digits") {
  const auto maps = maps_of(full_observed());
  REQUIRE(maps.routes.size() == 3);
  CHECK(maps.routes[0] == MapEntry{"tiny", "7.3|driftgate_1|v1|v2|v0|2500|12345|400|P"});
  CHECK(maps.routes[1] == MapEntry{"7.3|driftgate_1|616C20696365", "candidate"});
  CHECK(maps.routes[2] == MapEntry{"7.3|driftgate_1|626F62", "incumbent"});
}

TEST_CASE("what a route lacks is a dash, and what has no budget is not mirrored") {
  auto observed = full_observed();
  observed.route.candidate.reset();
  observed.route.fallback.reset();
  observed.route.pins.clear();
  observed.route.candidate_bp = 0;
  CHECK(maps_of(observed).routes.front().value == "7.3|driftgate_1|v1|-|-|0|12345|400|-");
  observed = full_observed();
  observed.route.mirror_token_budget = 0;
  observed.route.all_to_fallback = true;
  CHECK(maps_of(observed).routes.front().value == "7.3|driftgate_1|v1|v2|v0|2500|12345|0|FP");
}

TEST_CASE("slices are found in headers as the router reads them, the first that matches wins") {
  const auto slices = maps_of(full_observed()).slices;
  REQUIRE(slices.size() == 2);
  const std::string owner = "7.3|driftgate_1|";
  CHECK(first_match(slices, owner + "language=de") == "f");
  CHECK(first_match(slices, owner + "language=de;domain=my code") == "b100");
  CHECK(first_match(slices, owner + " domain = my code ; language = de ;") == "b100");
  CHECK(first_match(slices, owner + "a=b;language=de") == "f");
  for (const char* other : {"language=dex", "xlanguage=de", "language=en", "language=en;language2=de", ""}) {
    CAPTURE(other);
    CHECK(first_match(slices, owner + other).empty());
  }
  CHECK(first_match(slices, "7.4|driftgate_1|language=de").empty());
  CHECK(first_match(slices, "7x3|driftgate_1|language=de").empty());
  for (const auto& entry : slices) CHECK(entry.key.find(' ') == std::string::npos);
}

TEST_CASE("an entry is read back with its epoch, revision and whether it was reverted") {
  auto observed = full_observed();
  auto held = read_route(maps_of(observed).routes.front());
  REQUIRE(held);
  CHECK(held->model == "tiny");
  CHECK(held->tag == "7.3");
  CHECK(held->backend == "driftgate_1");
  CHECK(held->epoch == 7);
  CHECK(held->revision == 3);
  CHECK_FALSE(held->reverted);
  observed.reverted = true;
  held = read_route(maps_of(observed).routes.front());
  REQUIRE(held);
  CHECK(held->tag == "7.3r");
  CHECK(held->reverted);
  const auto maps = maps_of(full_observed());
  const auto tag = read_route(maps.routes.front());
  for (std::size_t i = 1; i < maps.routes.size(); ++i) CHECK(belongs_to(maps.routes[i], *tag));
  for (const auto& entry : maps.slices) CHECK(belongs_to(entry, *tag));
  CHECK_FALSE(belongs_to(maps.slices.front(), *held));
  for (const char* value : {"", "candidate", "7.3|a|b", "x.3|b|i|c|f|1|2|3|-", "7|b|i|c|f|1|2|3|-",
                            "7.3q|b|i|c|f|1|2|3|-", "7.3|b|i|c|f|1|2|3|-|more"}) {
    CAPTURE(value);
    CHECK_FALSE(read_route({"tiny", value}));
  }
}

TEST_CASE("a route of an unknown model keeps its incumbent and its fallback") {
  auto observed = full_observed();
  observed.route.all_to_fallback = true;
  const auto safe = without_candidate(maps_of(observed).routes.front());
  REQUIRE(safe);
  CHECK(safe->value == "7.3r|driftgate_1|v1|-|v0|0|12345|0|F");
  CHECK(without_candidate(*safe) == safe);
  CHECK_FALSE(without_candidate({"tiny", "candidate"}));
}

TEST_CASE("names that HAProxy's maps or servers cannot carry are refused") {
  auto route = sample_route();
  REQUIRE(check_route(route));
  for (const char* model : {"a b", "a|b", "", "-a", "a\nb"}) {
    route.model = model;
    CAPTURE(model);
    const auto refused = check_route(route);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::unsupported);
  }
  for (const char* version : {"", "router", "-", "a/b", "a b", "a|b"}) {
    route = sample_route();
    route.candidate->version = version;
    CAPTURE(version);
    CHECK_FALSE(check_route(route));
  }
}

TEST_CASE("HAProxy's answer to show map is read line by line") {
  const auto entries = parse_map("0x55aa46401d00 m 7.3|a b\n0x1 k v\n\nnonsense\n0x2\n0x3 only\n");
  REQUIRE(entries.size() == 2);
  CHECK(entries[0] == MapEntry{"m", "7.3|a b"});
  CHECK(entries[1] == MapEntry{"k", "v"});
  CHECK(map_text(entries) == "m 7.3|a b\nk v\n");
}
