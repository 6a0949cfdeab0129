#include "daemon/pipeline/requests/data_plane.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "daemon/route/worker/core.hpp"

using namespace driftgate;

namespace {

/// The contract of the demo, with a part of its text replaced.
schema::Contract demo_contract(const std::string& part = {}, const std::string& by = {}) {
  std::ifstream file("configs/demo/contract.yaml");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!part.empty()) {
    const auto at = text.find(part);
    REQUIRE(at != std::string::npos);
    text.replace(at, part.size(), by);
  }
  const auto report = schema::parse_contract(text, "contract.yaml");
  REQUIRE(report.contract);
  return *report.contract;
}

/// "" when the promotion can be made.
std::string refusal(const route::Capabilities& can, const schema::Contract& contract) {
  const auto checked = pipeline::check_data_plane(can, contract);
  if (checked) return {};
  CHECK(checked.error().code == schema::ErrorCode::unsupported);
  return checked.error().message;
}

constexpr const char* kTtft = "{id: ttft, metric: ttft_ms, aggregate: p95, max_ratio: 3, severity: soft}";
constexpr const char* kTtftOfShadow =
    "{id: ttft, metric: ttft_ms, aggregate: p95, max_ratio: 3, severity: soft, stages: [shadow-runtime]}";

}  // namespace

TEST_CASE("the embedded router can do whatever a contract asks") {
  CHECK(refusal(route::router_capabilities(), demo_contract()).empty());
  CHECK(refusal(
            route::router_capabilities(),
            demo_contract("  min_sequences: 116\n", "  min_sequences: 116\n  prompt_length_bounds: [100]\n"))
            .empty());
}

TEST_CASE("behind HAProxy no clause of the canary can be on tokens' times, or on the length of prompts") {
  const auto can = route::haproxy_capabilities();
  const auto said = refusal(can, demo_contract());
  CHECK(said.find("the data plane (haproxy) cannot") != std::string::npos);
  CHECK(said.find("ttft_ms") != std::string::npos);
  CHECK(said.find("runtime.ttft") != std::string::npos);
  CHECK(said.find("stages: [shadow-runtime]") != std::string::npos);
  CHECK(refusal(can, demo_contract(kTtft, kTtftOfShadow)).empty());
  auto bounded = demo_contract(kTtft, kTtftOfShadow);
  bounded.slices.prompt_length_bounds = {100};
  CHECK(refusal(can, bounded).find("prompt_length_bounds") != std::string::npos);
}

TEST_CASE("behind a Gateway a promotion can ask for all that the router can do") {
  const auto can = route::gateway_capabilities(10'000);
  CHECK(can.plane == "gateway_api");
  CHECK(refusal(can, demo_contract()).empty());
  auto contract = demo_contract();
  contract.slices.prompt_length_bounds = {100};
  contract.escalation.rules.front().action = schema::Action::route_slice;
  CHECK(refusal(can, contract).empty());
}

TEST_CASE("a guard needs a data plane that counts requests while a model has no candidate") {
  auto contract = demo_contract();
  contract.guard.reset();
  CHECK(refusal(route::gateway_capabilities(0), contract).empty());
  contract.guard.emplace();
  CHECK(refusal(route::gateway_capabilities(1), contract).empty());
  const auto said = refusal(route::gateway_capabilities(0), contract);
  CHECK(said.find("the data plane (gateway_api) cannot") != std::string::npos);
  CHECK(said.find("guard") != std::string::npos);
  CHECK(said.find("gateway.watched_share_bp") != std::string::npos);
}

TEST_CASE("each capability that a promotion needs is named when it is missing") {
  using Can = route::Capabilities;
  struct Row {
    bool Can::*member;
    const char* text;
  };
  const auto contract = demo_contract();
  for (const auto& row :
       {Row{&Can::basis_points, "basis points"}, Row{&Can::sticky_monotone, "on one version"},
        Row{&Can::atomic, "at once"}, Row{&Can::read_back, "in force"},
        Row{&Can::mirror_response, "both answers"}, Row{&Can::mirror_isolated, "without users waiting"},
        Row{&Can::per_arm_latency, "total_ms"}, Row{&Can::token_times, "ttft_ms"}}) {
    auto can = route::router_capabilities();
    can.*(row.member) = false;
    CAPTURE(row.text);
    CHECK(refusal(can, contract).find(row.text) != std::string::npos);
  }
}

TEST_CASE("slices are needed where the contract routes them") {
  auto can = route::router_capabilities();
  can.slices = false;
  CHECK(refusal(can, demo_contract()).empty());
  auto contract = demo_contract();
  contract.escalation.rules.front().action = schema::Action::route_slice;
  CHECK(refusal(can, contract).find("routes for slices") != std::string::npos);
}
