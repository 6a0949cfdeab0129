#include "daemon/pipeline/read/what_if.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using nlohmann::json;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, text);
  return text.replace(at, from.size(), to);
}

json decided_again(Harness& h, const std::string& id, const std::string& contract) {
  const auto view = h.pipeline->what_if(id, contract);
  REQUIRE_MESSAGE(view.has_value(), view.error().message);
  return json::parse(view->json);
}

}  // namespace

TEST_CASE("evidence decided again under its own contract comes to the same verdicts") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  const json answer = decided_again(h, id, h.contract);
  CHECK(answer["verdict"] == "pass");
  REQUIRE(answer["stages"].size() == 4);
  for (const json& stage : answer["stages"]) {
    INFO(stage.dump(1));
    CHECK(stage["changes"].empty());
    CHECK(stage["same"].get<int>() > 0);
  }
}

TEST_CASE("a stricter limit shows which verdict it changes, and nothing else happens") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  const auto before = h.entries("", "verdict_reached").size();
  const json answer = decided_again(h, id, replaced(h.contract, "max: 0.1}", "max: 0.001}"));
  CHECK(answer["verdict"] == "violated");
  CHECK(answer["stages"][0]["before"] == "pass");
  CHECK(answer["stages"][0]["after"] == "violated");
  REQUIRE(answer["stages"][0]["changes"].size() == 1);
  CHECK(answer["stages"][0]["changes"][0]["clause"] == "numerical.tv");
  CHECK(h.entries("", "verdict_reached").size() == before);
  CHECK(h.state(id) == "succeeded");
}

TEST_CASE("what passes now does not pass for stages that never began") {
  Harness h;
  h.behaviour.numeric_tv = 0.3;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"rejected"}) == "rejected");
  const json answer = decided_again(h, id, replaced(h.contract, "max: 0.1}", "max: 0.9}"));
  CHECK(answer["stages"][0]["before"] == "violated");
  CHECK(answer["stages"][0]["after"] == "pass");
  CHECK(answer["not_begun"] == json::array({"statistical-slice", "shadow-runtime", "canary"}));
  CHECK(answer["verdict"] == "inconclusive");
}

TEST_CASE("a promotion that has begun nothing and a contract with faults are refused") {
  Harness h;
  h.set_up();
  CHECK(h.pipeline->what_if("pr-none", h.contract).error().code == schema::ErrorCode::not_found);
  const auto id = h.request();
  const auto faulty = h.pipeline->what_if(id, replaced(h.contract, "metric: tv", "metric: vt"));
  CHECK(faulty.error().code == schema::ErrorCode::invalid_document);
  CHECK(faulty.error().message.find("tv") != std::string::npos);
}
