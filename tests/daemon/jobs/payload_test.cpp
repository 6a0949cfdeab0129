#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "daemon/jobs/worker.hpp"

using namespace driftgate;
using namespace driftgate::jobs;
using nlohmann::json;
using schema::ErrorCode;

namespace {

DriftPayload drift_payload() {
  DriftPayload payload;
  payload.train = "train.safetensors";
  payload.inf = "inf ä \"x\".safetensors";
  payload.contract = R"({"kind":"KernelContract"})";
  payload.roots = {"/a", "/b"};
  payload.threads = 4'294'967'295U;
  payload.worst_rows = 0;
  payload.floor_inf = DriftPayload::FloorPair{"one", "two"};
  payload.captures_of = CapturesOf{"k-train", "k-inf", "sha256:c"};
  return payload;
}

RescorePayload rescore_payload() {
  RescorePayload payload;
  payload.spool = "/spool/x.jsonl";
  payload.incumbent = {"http://127.0.0.1:1", "m", "k-train", Scoring::echo, false};
  payload.candidate = {"http://127.0.0.1:2", "m2", "k-inf", Scoring::none, true};
  payload.checkpoint = "sha256:c";
  payload.contract = "{}";
  payload.max_rescored = 7;
  payload.batch_prompts = 9;
  payload.compare_greedy = true;
  payload.seed = 0xffff'ffff'ffff'fff1;
  payload.outgoing.allowed_hosts = {"engine.internal", "::1"};
  payload.outgoing.public_hosts = true;
  payload.candidate.access = {"/keys/a", "X-Api-Key", "/keys/ca.pem"};
  return payload;
}

/// Every way of leaving one member out, or of giving it a type that it can not have, is an error that says
/// which member or which type.
template <typename Read>
void check_members(const std::string& text, Read read, const std::vector<std::string>& optional = {}) {
  const json whole = json::parse(text);
  REQUIRE(read(text));
  for (const auto& [name, value] : whole.items()) {
    CAPTURE(name);
    json without = whole;
    without.erase(name);
    const auto missing = read(without.dump());
    if (std::ranges::find(optional, name) != optional.end()) {
      CHECK(missing);
    } else {
      REQUIRE_FALSE(missing);
      CHECK(missing.error().code == ErrorCode::invalid_document);
      CHECK(missing.error().message.starts_with("the job's payload: "));
      CHECK(missing.error().message.find("'" + name + "'") != std::string::npos);
    }
    json odd = whole;
    odd[name] = value.is_object() ? json(3) : json{{"odd", true}};
    const auto mistyped = read(odd.dump());
    REQUIRE_FALSE(mistyped);
    CHECK(mistyped.error().code == ErrorCode::invalid_document);
  }
  for (const char* damaged : {"", "{", "[]", "null", "\"x\""}) {
    CAPTURE(damaged);
    CHECK(read(damaged).error().code == ErrorCode::invalid_document);
  }
  CHECK(read("\"" + std::string(4u << 20, 'x') + "\"").error().code == ErrorCode::limit_exceeded);
}

}  // namespace

TEST_CASE("what a drift job is given reads back as it was written, with one floor or both") {
  auto payload = drift_payload();
  for (const bool both : {false, true}) {
    if (both) payload.floor_train = DriftPayload::FloorPair{"three", "four"};
    const auto again = drift_payload_from_json(to_json(payload));
    REQUIRE(again);
    CHECK(again->train == payload.train);
    CHECK(again->inf == payload.inf);
    CHECK(again->corpus.empty());
    CHECK(again->contract == payload.contract);
    CHECK(again->roots == payload.roots);
    CHECK(again->threads == payload.threads);
    CHECK(again->worst_rows == 0);
    CHECK(again->floor_train == payload.floor_train);
    CHECK(again->floor_inf == payload.floor_inf);
  }
}

TEST_CASE("what a rescore job is given reads back as it was written, its 64-bit seed and its hosts too") {
  const auto payload = rescore_payload();
  const auto again = rescore_payload_from_json(to_json(payload));
  REQUIRE(again);
  CHECK(again->spool == payload.spool);
  for (const auto& [a, b] :
       {std::pair(&again->incumbent, &payload.incumbent), std::pair(&again->candidate, &payload.candidate)}) {
    CHECK(a->url == b->url);
    CHECK(a->model == b->model);
    CHECK(a->kernel == b->kernel);
    CHECK(a->scoring == b->scoring);
    CHECK(a->token_ids == b->token_ids);
  }
  CHECK(again->seed == payload.seed);
  CHECK(again->max_rescored == 7);
  CHECK(again->batch_prompts == 9);
  CHECK(again->compare_greedy);
  CHECK(again->outgoing.allowed_hosts == payload.outgoing.allowed_hosts);
  CHECK(again->outgoing.public_hosts);
  CHECK(again->candidate.access == payload.candidate.access);
  CHECK_FALSE(again->incumbent.access.any());
  CHECK_FALSE(json::parse(to_json(payload))["incumbent"].contains("access"));
  // A list that was emptied on purpose allows nobody: the worker must not fall back to the defaults.
  auto nobody = payload;
  nobody.outgoing = {{}, false};
  CHECK(rescore_payload_from_json(to_json(nobody))->outgoing.allowed_hosts.empty());
}

TEST_CASE("a payload that lacks a member, or has one of another type, is refused by the member's name") {
  SUBCASE("drift") {
    check_members(to_json(drift_payload()), drift_payload_from_json, {"floor_inf", "captures_of"});
  }
  SUBCASE("capture") {
    check_members(to_json(CapturePayload{"torch", {"/bin/true", "{out}"}}), capture_payload_from_json);
  }
  SUBCASE("rescore") {
    check_members(to_json(rescore_payload()), rescore_payload_from_json);
  }
}

TEST_CASE("a floor is two captures: one or none is a fault of the payload") {
  for (const char* floor : {"[]", "[\"one\"]", "\"one\"", "[1,2]", "null", "{}"}) {
    CAPTURE(floor);
    auto value = json::parse(to_json(drift_payload()));
    value["floor_train"] = json::parse(floor);
    const auto read = drift_payload_from_json(value.dump());
    REQUIRE_FALSE(read);
    CHECK(read.error().code == ErrorCode::invalid_document);
  }
}

TEST_CASE("a seed that is no number of 16 hexadecimal digits is refused: another would choose other pairs") {
  for (const char* seed : {"", "xyz", "12 ", "0x12", "-1", "11111111111111111"}) {
    CAPTURE(seed);
    auto value = json::parse(to_json(rescore_payload()));
    value["seed"] = seed;
    const auto read = rescore_payload_from_json(value.dump());
    REQUIRE_FALSE(read);
    CHECK(read.error().code == ErrorCode::invalid_document);
    CHECK(read.error().where == "/seed");
  }
}
