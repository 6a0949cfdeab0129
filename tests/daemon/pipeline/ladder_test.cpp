#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/people/redact.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/outbox.hpp"
#include "daemon/store/promotions/live_series.hpp"
#include "schema/sha256.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

constexpr const char* kRecovery = "\n  recovery: {clean_windows: 2, min_dwell: 2s}";

/// The contract with a fallback kernel, `errors` on the critical slice too, and this policy.
void use_policy(Harness& h, const std::string& policy, const std::string& max_errors = "0.5") {
  const auto replace = [&](const std::string& from, const std::string& to) {
    const auto at = h.contract.find(from);
    REQUIRE(at != std::string::npos);
    h.contract.replace(at, from.size(), to);
  };
  replace("inf: {ref: k-inf}}", "inf: {ref: k-inf}, fallback: {ref: k-safe}}");
  replace("  - {id: errors, metric: error_rate, max_ratio: 1.5, max: 0.2}",
          "  - {id: errors, metric: error_rate, max: " + max_errors +
              "}\n"
              "  - {id: slice-errors, metric: error_rate, max: 0.2, slices: [critical], stages: [canary]}");
  replace("  defaults: {hard: rollback, soft: freeze}", policy + kRecovery);
}

const char* kRouteSlice =
    "  rules: [{match: runtime.slice-errors, slice: any, stage: canary, action: route_slice}]\n"
    "  defaults: {hard: rollback, soft: freeze}";

std::vector<json> decisions(const Harness& h, const std::string& id, const std::string& action) {
  auto found = h.entries(id, "escalation_decided");
  std::erase_if(found, [&](const json& entry) { return entry["body"]["action"] != action; });
  return found;
}

const route::ModelRoute& route_of(const Harness& h) {
  return h.driver.routes.at("m").route;
}

bool reach_canary(Harness& h, std::uint32_t share = 1'000) {
  for (int i = 0; i < 300 && h.driver.share("m") != share; ++i) h.second();
  return h.driver.share("m") == share;
}

template <typename Done>
bool seconds_until(Harness& h, Done done, int limit = 300) {
  for (int i = 0; i < limit && !done(); ++i) h.second();
  return done();
}

/// Starts a promotion whose candidate fails for one slice, up to where that is routed away; its id.
std::string route_german_away(Harness& h) {
  use_policy(h, kRouteSlice);
  h.behaviour.only_german = true;
  h.set_up();
  h.add_engine("safe", "k-safe", 4);
  auto id = h.request();
  REQUIRE(reach_canary(h));
  h.behaviour.fails_after = 0;
  REQUIRE(seconds_until(h, [&] { return !route_of(h).slices.empty(); }));
  return id;
}

}  // namespace

TEST_CASE(
    "route_slice sends only the violating slice to the fallback engine, and its recovery brings it back") {
  Harness h;
  const auto id = route_german_away(h);
  const auto& routed = route_of(h);
  REQUIRE(routed.slices.size() == 1);
  CHECK(routed.slices[0].where == std::map<std::string, std::string>{{"language", "de"}});
  CHECK(routed.slices[0].to_fallback);
  CHECK(routed.fallback->url == "http://127.0.0.1:4");
  CHECK_FALSE(routed.all_to_fallback);
  CHECK(h.state(id) == "running");
  CHECK(h.probed == std::vector<std::string>{"http://127.0.0.1:4"});
  CHECK(decisions(h, id, "route_slice").size() == 1);
  const auto checks = decisions(h, id, "check_capacity");
  REQUIRE(checks.size() == 1);
  CHECK(checks[0]["body"]["enough"] == true);
  const auto german = h.driver.german_candidate_requests;
  const auto all = h.driver.candidate_requests;
  h.second();
  CHECK(h.driver.german_candidate_requests == german);
  CHECK(h.driver.candidate_requests > all);
  h.behaviour.fails_after = ~std::uint64_t{0};
  CHECK(seconds_until(h, [&] { return route_of(h).slices.empty(); }));
  CHECK_FALSE(decisions(h, id, "restore_slice").empty());
  CHECK_FALSE(route_of(h).fallback.has_value());
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
}

TEST_CASE(
    "a kill at any second while a slice is routed away never shows it to the candidate before recovery") {
  for (int seconds = 0; seconds < 8; ++seconds) {
    CAPTURE(seconds);
    Harness h;
    const auto id = route_german_away(h);
    for (int i = 0; i < seconds && !route_of(h).slices.empty(); ++i) h.second();
    const bool routed = !route_of(h).slices.empty();
    h.restart();
    CHECK(!route_of(h).slices.empty() == routed);
    if (routed) CHECK(route_of(h).fallback.has_value());
    CHECK(h.model()["route"]["desired"]["slices"].empty() == !routed);
    CHECK(h.run_until(id, {"succeeded", "rejected", "errored", "inconclusive", "awaiting_approval"}, false) !=
          "errored");
  }
}

TEST_CASE("fallback sends all traffic to the fallback engine, and its recovery brings it back") {
  Harness h;
  use_policy(h,
             "  rules: [{match: runtime.errors, stage: canary, action: fallback}, "
             "{match: runtime.slice-errors, slice: any, action: freeze}]\n"
             "  defaults: {hard: freeze, soft: freeze}",
             "0.2");
  h.set_up();
  h.add_engine("safe", "k-safe", 4, 1'000);
  const auto id = h.request();
  REQUIRE(reach_canary(h));
  h.behaviour.fails_after = 0;
  REQUIRE(seconds_until(h, [&] { return route_of(h).all_to_fallback || h.state(id) == "rejected"; }));
  REQUIRE(h.state(id) != "rejected");
  CHECK(route_of(h).fallback->url == "http://127.0.0.1:4");
  const auto candidate = h.driver.candidate_requests;
  const auto fallback = h.driver.fallback_requests;
  h.second();
  CHECK(h.driver.candidate_requests == candidate);
  CHECK(h.driver.fallback_requests == fallback + 200);
  h.behaviour.fails_after = ~std::uint64_t{0};
  CHECK(seconds_until(h, [&] { return !route_of(h).all_to_fallback; }));
  CHECK_FALSE(decisions(h, id, "restore").empty());
}

TEST_CASE("without capacity the fallback is not used: the candidate is rolled back, and evidence says why") {
  Harness h;
  use_policy(h,
             "  rules: [{match: runtime.errors, stage: canary, action: fallback}, "
             "{match: runtime.slice-errors, slice: any, action: freeze}]\n"
             "  defaults: {hard: freeze, soft: freeze}",
             "0.2");
  h.set_up();
  std::string why;
  SUBCASE("it is not healthy") {
    h.add_engine("safe", "k-safe", 4);
    h.unhealthy = {"http://127.0.0.1:4"};
    why = "nobody listens";
  }
  SUBCASE("more would come than it is registered for") {
    h.add_engine("safe", "k-safe", 4, 10);
    why = "registered for 10 requests/s";
  }
  const auto id = h.request();
  REQUIRE(reach_canary(h));
  h.behaviour.fails_after = 0;
  REQUIRE(h.run_until(id, {"succeeded", "rejected", "errored"}) == "rejected");
  CHECK(h.view(id)["reason"].get<std::string>().find(why) != std::string::npos);
  CHECK(h.driver.share("m") == 0);
  CHECK(h.driver.fallback_requests == 0);
  CHECK(h.model()["hold"].is_object());
  const auto checks = decisions(h, id, "check_capacity");
  REQUIRE(checks.size() == 1);
  CHECK(checks[0]["body"]["enough"] == false);
  CHECK(checks[0]["body"]["capacity"]["engine"] == "safe");
}

TEST_CASE("the fallback engine serves the candidate's checkpoint with the contract's fallback kernel") {
  Harness h;
  use_policy(h, kRouteSlice);
  h.set_up();
  const auto refused = [&] {
    const auto made = h.pipeline->request_promotion("pia", h.request_for());
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().where == "/fallback_engine");
    return made.error();
  };
  CHECK(refused().message.find("driftgate engine register NAME --engine-url URL --kernel k-safe") !=
        std::string::npos);
  h.add_engine("other", "k-safe", 5, 0, "other weights");
  CHECK(refused().code == ErrorCode::conflict);
  h.fallback_engine = "other";
  CHECK(refused().message.find("same model at higher precision") != std::string::npos);
  h.fallback_engine = "new";
  CHECK(refused().message.find("the contract's fallback is k-safe") != std::string::npos);
  h.fallback_engine = "nobody";
  CHECK(refused().code == ErrorCode::not_found);
  h.fallback_engine.clear();
  h.add_engine("safe", "k-safe", 4);
  h.add_engine("safer", "k-safe", 6);
  CHECK(refused().message.find("safe, safer") != std::string::npos);
  h.fallback_engine = "safer";
  const auto id = h.request();
  const auto requested = h.entries(id, "promotion_requested");
  REQUIRE(requested.size() == 1);
  CHECK(requested[0]["body"]["fallback"]["engine"] == "safer");
  CHECK(requested[0]["body"]["fallback"]["kernel"] == "k-safe");
}

TEST_CASE("notify tells the webhooks once, beside what else is ordered, in the transaction of its evidence") {
  Harness h;
  use_policy(h,
             "  rules: [{match: runtime.slice-errors, slice: any, action: notify}, "
             "{match: runtime.slice-errors, slice: any, action: freeze}]\n"
             "  defaults: {hard: rollback, soft: freeze}");
  h.webhooks = {{"ops", {}}, {"ends", {"promotion.*"}}};
  h.behaviour.only_german = true;
  h.set_up();
  const auto id = h.request();
  REQUIRE(reach_canary(h));
  h.behaviour.fails_after = 0;
  REQUIRE(seconds_until(h, [&] { return !decisions(h, id, "notify").empty(); }));
  for (int i = 0; i < 5; ++i) h.second();
  CHECK(decisions(h, id, "notify").size() == 1);
  REQUIRE(h.pipeline->abort("olga", id, "enough").has_value());
  const auto told = [&](const std::string& endpoint) {
    std::vector<std::string> types;
    const auto rows = h.store->read(
        [&](store::Reader& reader) { return store::due_outbox(reader, endpoint, h.clock.now_us_, 100); });
    REQUIRE(rows.has_value());
    for (const auto& row : *rows) {
      types.push_back(row.type);
      CHECK(json::parse(row.payload)["data"]["subject"]["promotion"] == id);
    }
    return types;
  };
  CHECK(told("ops") == std::vector<std::string>{"escalation.notify", "promotion.aborted"});
  CHECK(told("ends") == std::vector<std::string>{"promotion.aborted"});
}

TEST_CASE("people are told when an approval is awaited and when a promotion has succeeded") {
  Harness h;
  h.webhooks = {{"ops", {}}};
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  const auto rows = h.store->read(
      [&](store::Reader& reader) { return store::due_outbox(reader, "ops", h.clock.now_us_, 100); });
  REQUIRE(rows.has_value());
  REQUIRE(rows->size() == 2);
  CHECK((*rows)[0].type == "promotion.awaiting_approval");
  CHECK((*rows)[1].type == "promotion.succeeded");
}

TEST_CASE("sample raises what is mirrored while it stands, and scores the pairs when it ends") {
  Harness h;
  use_policy(h,
             "  rules: [{match: runtime.slice-errors, slice: any, action: sample}]\n"
             "  defaults: {hard: rollback, soft: freeze}");
  h.settings.sample_bp = 3'000;
  h.settings.sample_token_budget = 77;
  h.behaviour.only_german = true;
  h.set_up();
  const auto id = h.request();
  REQUIRE(reach_canary(h));
  CHECK(route_of(h).mirror_bp == 0);
  h.behaviour.fails_after = 0;
  REQUIRE(seconds_until(h, [&] { return route_of(h).mirror_bp != 0; }));
  CHECK(route_of(h).mirror_bp == 3'000);
  CHECK(route_of(h).mirror_token_budget == 77);
  CHECK(decisions(h, id, "sample").size() == 1);
  h.behaviour.fails_after = ~std::uint64_t{0};
  REQUIRE(seconds_until(h, [&] { return route_of(h).mirror_bp == 0; }));
  const auto scored = [&] {
    const auto jobs = h.entries(id, "job_finished");
    return std::ranges::any_of(jobs, [](const json& entry) { return entry["body"]["name"] == "sample-1"; });
  };
  CHECK(seconds_until(h, scored, 20));
}

TEST_CASE(
    "a canary's samples are destroyed with the rest of single requests, and ask for no batches and no greedy "
    "answers") {
  Harness h;
  use_policy(h,
             "  rules: [{match: runtime.slice-errors, slice: any, action: sample}]\n"
             "  defaults: {hard: rollback, soft: freeze}");
  const std::string clause = "numerical:\n";
  h.contract.insert(h.contract.find(clause) + clause.size(),
                    "  - {id: batches, metric: batch_variant_rate, max: 0.9, severity: soft, "
                    "stages: [shadow-runtime]}\n"
                    "  - {id: prefix, metric: prefix_agreement, min: 0.1, severity: soft, "
                    "stages: [shadow-runtime]}\n");
  h.settings.sample_bp = 3'000;
  h.behaviour.only_german = true;
  std::string sampled, batches, greedy;
  const auto made = h.runner.make;
  h.runner.make = [&](const jobs::JobSpec& spec, const std::string& where) {
    auto result = made(spec, where);
    if (spec.kind == jobs::JobKind::rescore) {
      const json payload = json::parse(spec.payload);
      batches += std::to_string(payload["batch_prompts"].get<int>()) + " ";
      greedy += payload["compare_greedy"].get<bool>() ? "asked " : "not ";
    }
    if (spec.key.find("sample-1") == std::string::npos) return result;
    const std::string pairs = "{\"salt\":\"another\"}\n";
    std::ofstream(where + "/pairs.jsonl", std::ios::binary) << pairs;
    sampled = result.digests["pairs"] = schema::sha256_digest(pairs);
    return result;
  };
  h.set_up();
  const auto id = h.request();
  REQUIRE(reach_canary(h));
  h.behaviour.fails_after = 0;
  REQUIRE(seconds_until(h, [&] { return route_of(h).mirror_bp != 0; }));
  h.behaviour.fails_after = ~std::uint64_t{0};
  REQUIRE(seconds_until(h, [&] { return !sampled.empty(); }));
  CHECK(batches == "256 0 ");
  CHECK(greedy == "asked not ");
  const auto kept = [&] {
    return h.store->read([&](store::Reader& reader) { return store::find_blob(reader, sampled); })
        .value()
        .has_value();
  };
  CHECK(kept());
  REQUIRE(h.pipeline->abort("olga", id, "enough").has_value());
  REQUIRE(pipeline::redact_promotion(*h.store, "olga", id, "a user asked", h.clock.now_us_).has_value());
  CHECK_FALSE(kept());
  const auto destroyed = h.entries(id, "evidence_redacted").at(0)["body"]["destroyed"];
  CHECK(std::ranges::any_of(destroyed, [&](const json& item) {
    return item["what"] == "canary_samples" && item["digest"] == sampled;
  }));
  const auto series = [&](const char* stage) {
    const store::StageKey key{id, stage, 1};
    return h.store->read([&](store::Reader& reader) { return store::find_live_series(reader, key); }).value();
  };
  for (const char* stage : {"shadow-runtime", "canary"}) CHECK(series(stage).points.empty());
  CHECK(std::ranges::any_of(destroyed, [](const json& item) {
    return item["what"] == "live_series" && item["rows"].get<int>() > 0;
  }));
}

TEST_CASE("block rejects and keeps the pair from being asked for again until an operator lifts it") {
  Harness h;
  use_policy(h,
             "  rules: [{match: runtime.slice-errors, slice: any, stage: canary, action: block}]\n"
             "  defaults: {hard: rollback, soft: freeze}");
  h.behaviour.only_german = true;
  h.set_up();
  const auto id = h.request();
  REQUIRE(reach_canary(h));
  h.behaviour.fails_after = 0;
  REQUIRE(h.run_until(id, {"succeeded", "rejected", "errored"}) == "rejected");
  CHECK(h.driver.share("m") == 0);
  const auto set = h.entries(id, "block_set");
  REQUIRE(set.size() == 1);
  CHECK(set[0]["body"]["kernel"] == "k-inf");
  REQUIRE(h.pipeline->lift_hold("olga", "m", "looked at it").has_value());
  for (const char* engine : {"new", "newer"}) {
    const auto refused = h.pipeline->request_promotion("pia", h.request_for(engine));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == ErrorCode::conflict);
    CHECK(refused.error().message.find("driftgate blocked it on 2027-") != std::string::npos);
    CHECK(refused.error().message.find(id) != std::string::npos);
  }
  const auto page = h.pipeline->blocks({});
  REQUIRE(page.has_value());
  REQUIRE(page->items.size() == 1);
  const auto block = page->items[0].id;
  CHECK_FALSE(h.pipeline->lift_block("olga", "bl-0", "x").has_value());
  const auto lifted = h.pipeline->lift_block("olga", block, "the engine was repaired");
  REQUIRE(lifted.has_value());
  CHECK(json::parse(lifted->json)["lifted"]["by"] == "olga");
  CHECK_FALSE(h.pipeline->lift_block("olga", block, "again").has_value());
  CHECK(h.entries(id, "block_lifted").size() == 1);
  CHECK(h.pipeline->request_promotion("pia", h.request_for()).has_value());
}

TEST_CASE(
    "a rule blocks on fixed data too, where nothing was ever exposed, and a queued promotion is rejected") {
  Harness h;
  use_policy(h,
             "  rules: [{match: numerical.tv, action: block}]\n"
             "  defaults: {hard: rollback, soft: freeze}");
  h.behaviour.numeric_tv = 0.5;
  h.set_up();
  const auto id = h.request();
  const auto queued = h.request("newer");
  REQUIRE(h.run_until(id, {"succeeded", "rejected", "errored"}) == "rejected");
  CHECK(h.view(id)["traffic"] == "never_exposed");
  CHECK(h.model()["hold"].is_null());
  CHECK(h.entries(id, "block_set").size() == 1);
  CHECK(decisions(h, id, "block").size() == 1);
  CHECK(h.state(queued) == "rejected");
}

TEST_CASE("a soft clause that a rule ends the promotion for rejects it on fixed data") {
  Harness h;
  use_policy(h,
             "  rules: [{match: numerical.tv, action: rollback}]\n"
             "  defaults: {hard: rollback, soft: freeze}");
  const std::string hard = "{id: tv, metric: tv, aggregate: sequence_mean, max: 0.1}";
  h.contract.replace(h.contract.find(hard), hard.size(),
                     "{id: tv, metric: tv, aggregate: sequence_mean, max: 0.1, severity: soft}");
  h.behaviour.numeric_tv = 0.5;
  h.set_up();
  const auto id = h.request();
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "rejected");
  CHECK(h.view(id)["stage"] == "offline-numeric");
}
