#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;

namespace {

ErrorCode code_of(const schema::Result<pipeline::View>& result) {
  REQUIRE_FALSE(result.has_value());
  return result.error().code;
}

}  // namespace

TEST_CASE("abort works in every state and leaves the candidate without traffic") {
  for (int seconds = 0; seconds < 60; seconds += 2) {
    CAPTURE(seconds);
    Harness h;
    h.set_up();
    const auto id = h.request();
    for (int i = 0; i < seconds && !h.pipeline->outcome(id)->terminal; ++i) {
      h.approve_if_asked(id);
      h.second();
    }
    if (h.pipeline->outcome(id)->terminal) break;
    REQUIRE(h.pipeline->abort("olga", id, "changed our mind").has_value());
    CHECK(h.state(id) == "aborted");
    CHECK(h.driver.share("m") == 0);
    CHECK_FALSE(h.driver.routes.at("m").route.candidate.has_value());
    CHECK(h.model()["incumbent"]["engine"] == "old");
    CHECK(h.model()["hold"].is_null());
    CHECK(h.runner.running() == 0);
  }
}

TEST_CASE("an approval needs another person and names the evidence that was read") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  CHECK(code_of(h.pipeline->approve("anna", id, "sha256:0", "")) == ErrorCode::conflict);
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  const auto approval = h.view(id)["approval"];
  REQUIRE(approval.is_object());
  const auto digest = approval["evidence_digest"].get<std::string>();
  CHECK(code_of(h.pipeline->approve("pia", id, digest, "mine")) == ErrorCode::forbidden);
  CHECK(code_of(h.pipeline->approve("anna", id, "sha256:0", "unread")) == ErrorCode::conflict);
  CHECK(h.driver.share("m") == 5'000);
  for (int i = 0; i < 5; ++i) h.second();
  CHECK(h.state(id) == "awaiting_approval");
  REQUIRE(h.pipeline->approve("anna", id, digest, "read it").has_value());
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}, false) == "succeeded");
}

TEST_CASE("an approval that nobody gives expires with weight 0") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  h.clock.advance_ms(86'400'001);
  h.driver.serve("m", 10, h.clock.now_us_);
  h.pipeline->tick();
  CHECK(h.state(id) == "expired");
  CHECK(h.driver.share("m") == 0);
}

TEST_CASE("a step that was stepped back to asks for its approval again") {
  Harness h;
  const std::string from = "defaults: {hard: rollback, soft: freeze}";
  const auto at = h.contract.find(from);
  REQUIRE(at != std::string::npos);
  h.contract.replace(at, from.size(),
                     "defaults: {hard: step_back, soft: freeze}\n"
                     "  recovery: {clean_windows: 2, min_dwell: 2s}");
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 9'900; ++i) {
    h.approve_if_asked(id);
    h.second();
  }
  REQUIRE(h.driver.share("m") == 9'900);
  h.behaviour.fails_after = 0;
  for (int i = 0; i < 300 && h.driver.share("m") == 9'900; ++i) h.second();
  REQUIRE(h.driver.share("m") == 5'000);
  h.behaviour.fails_after = ~std::uint64_t{0};
  CHECK(h.run_until(id, {"awaiting_approval", "succeeded", "rejected"}, false) == "awaiting_approval");
  const auto digest = h.view(id)["approval"]["evidence_digest"].get<std::string>();
  h.restart();
  for (int i = 0; i < 3; ++i) h.second();
  REQUIRE(h.state(id) == "awaiting_approval");
  CHECK(h.view(id)["approval"]["evidence_digest"] == digest);
  CHECK(h.driver.share("m") == 5'000);
  REQUIRE(h.pipeline->approve("anna", id, digest, "read it again").has_value());
  CHECK(h.driver.share("m") == 9'900);
}

TEST_CASE("harm while an approval is awaited rolls back") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  h.behaviour.fails_after = 0;
  CHECK(h.run_until(id, {"rejected", "succeeded"}, false) == "rejected");
  CHECK(h.driver.share("m") == 0);
}

TEST_CASE("a pause freezes the weight, harm tests keep running, and resume goes on") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.pipeline->pause("olga", id, "lunch").has_value());
  for (int i = 0; i < 20; ++i) h.second();
  CHECK(h.state(id) == "paused");
  CHECK(h.driver.share("m") == 1'000);
  SUBCASE("resumed") {
    REQUIRE(h.pipeline->resume("olga", id, "back").has_value());
    CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
  }
  SUBCASE("harmed") {
    h.behaviour.fails_after = 0;
    CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "rejected");
  }
}

TEST_CASE("a pause in each stage, with a restart, is resumed to the same end") {
  for (int seconds = 0; seconds < 30; seconds += 3) {
    CAPTURE(seconds);
    Harness h;
    h.set_up();
    const auto id = h.request();
    for (int i = 0; i < seconds; ++i) h.second();
    if (!h.pipeline->pause("olga", id, "").has_value()) continue;
    h.restart();
    for (int i = 0; i < 3; ++i) h.second();
    CHECK(h.state(id) == "paused");
    REQUIRE(h.pipeline->resume("olga", id, "").has_value());
    CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
  }
}

TEST_CASE("a newer candidate supersedes the queued one, never the running one") {
  Harness h;
  h.set_up();
  const auto running = h.request();
  const auto queued = h.request();
  CHECK(h.state(running) == "running");
  CHECK(h.state(queued) == "queued");
  const auto newest = h.request();
  CHECK(h.state(running) == "running");
  CHECK(h.state(queued) == "superseded");
  CHECK(h.state(newest) == "queued");
  REQUIRE(h.pipeline->abort("olga", running, "").has_value());
  CHECK(h.state(newest) == "running");
}

TEST_CASE("rollback after success restores the version before and sets a hold") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  REQUIRE(h.pipeline->rollback("olga", id, "users complain").has_value());
  CHECK(h.model()["incumbent"]["engine"] == "old");
  CHECK(h.model()["hold"].is_object());
  CHECK(h.driver.routes.at("m").route.incumbent.url == "http://127.0.0.1:1");
  CHECK(h.view(id)["traffic"] == "reverted");
  h.restart();
  CHECK(h.model()["incumbent"]["engine"] == "old");
  CHECK(h.model()["route"]["agree"] == true);
}

TEST_CASE(
    "a rollback or an abort after the bake, while the new route does not stand, restores the baseline") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  h.committer->before = [&](std::string_view what) {
    if (what == "finish canary") h.driver.lies = true;
  };
  REQUIRE(h.run_until(id, {"finalizing", "succeeded"}) == "finalizing");
  CHECK(h.model()["route"]["desired"]["incumbent"]["url"] == "http://127.0.0.1:2");
  SUBCASE("the new route was never taken") {}
  SUBCASE("the new route was taken, which nobody knows yet") {
    h.driver.routes.at("m").route.incumbent.url = "http://127.0.0.1:2";
    h.driver.routes.at("m").route.candidate.reset();
  }
  const bool restarted = h.driver.routes.at("m").route.candidate.has_value();
  REQUIRE(h.pipeline->rollback("olga", id, "users complain").has_value());
  if (restarted) h.restart();
  h.driver.lies = false;
  CHECK(h.run_until(id, {"rejected", "succeeded"}) == "rejected");
  CHECK(h.model()["incumbent"]["engine"] == "old");
  CHECK(h.model()["hold"].is_object());
  CHECK(h.model()["route"]["agree"] == true);
  CHECK(h.driver.routes.at("m").route.incumbent.url == "http://127.0.0.1:1");
  CHECK(h.driver.share("m") == 0);
  CHECK(h.view(id)["traffic"] == "reverted");
}

TEST_CASE("rollback of the baseline ends what runs on it and starts nothing that waits") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  const auto running = h.request("newer");
  const auto queued = h.request("newer");
  REQUIRE(h.state(running) == "running");
  REQUIRE(h.pipeline->rollback("olga", id, "users complain").has_value());
  CHECK(h.state(running) == "aborted");
  CHECK(h.state(queued) == "queued");
  CHECK(h.model()["hold"].is_object());
  CHECK(h.model()["incumbent"]["engine"] == "old");
  CHECK_FALSE(h.pipeline->rollback("olga", running, "").has_value());
  REQUIRE(h.pipeline->lift_hold("olga", "m", "repaired").has_value());
  CHECK(h.state(queued) == "running");
}

TEST_CASE("of several queued promotions, left by a kill, only the newest starts") {
  Harness h;
  h.set_up();
  const auto running = h.request();
  const auto older = h.request();
  h.committer->before = [&](std::string_view what) {
    if (what == "withdraw promotion") h.committer->fail_at = h.committer->count;
  };
  const auto newest = h.request();
  h.restart();
  REQUIRE(h.state(older) == "queued");
  REQUIRE(h.state(newest) == "queued");
  REQUIRE(h.pipeline->abort("olga", running, "").has_value());
  CHECK(h.state(older) == "superseded");
  CHECK(h.state(newest) == "running");
}

TEST_CASE("a stronger end that is asked for during a withdrawal replaces the weaker, never the reverse") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  h.driver.lies = true;
  REQUIRE(h.pipeline->abort("olga", id, "enough").has_value());
  REQUIRE(h.state(id) == "rolling_back");
  REQUIRE(h.pipeline->rollback("otto", id, "users complain").has_value());
  REQUIRE(h.pipeline->abort("olga", id, "again").has_value());
  CHECK(h.state(id) == "rolling_back");
  h.driver.lies = false;
  CHECK(h.run_until(id, {"rejected", "aborted"}) == "rejected");
  CHECK(h.model()["hold"]["by"] == "otto");
  CHECK(h.view(id)["reason"].get<std::string>().find("users complain") != std::string::npos);
}

TEST_CASE("a promotion that cannot be made is refused with what to do") {
  Harness h;
  h.set_up();
  pipeline::PromotionRequest request{
      .model = "m", .engine = "new", .contract = "test", .numeric = {}, .slice = {}, .note = {}};
  request.numeric = pipeline::StageCaptures{{"train.safetensors", ""}, {"inf.safetensors", ""}, "", {}};
  request.slice = request.numeric;
  const auto refusal = [&](const pipeline::PromotionRequest& asked) {
    const auto result = h.pipeline->plan_promotion("pia", asked);
    return result ? std::string() : result.error().message;
  };
  CHECK(refusal(request).empty());
  auto other = request;
  other.model = "nobody";
  CHECK(refusal(other).find("driftgate model create nobody --engine E --reason") != std::string::npos);
  other = request;
  other.slice.reset();
  CHECK(refusal(other).find("captures.slice is needed") != std::string::npos);
  other = request;
  other.numeric->inf = {"", "nothing"};
  CHECK(refusal(other).find("there is no adapter 'nothing'") != std::string::npos);
  other = request;
  other.numeric->inf = {"../data/driftgate.db", ""};
  CHECK(refusal(other).find("not below a configured root") != std::string::npos);
  other = request;
  other.engine = "old";
  CHECK(refusal(other).find("is the incumbent") != std::string::npos);
  h.driver.can.mirror_response = false;
  CHECK(refusal(request).find("mirroring") != std::string::npos);
}

TEST_CASE("a plan names stages, clauses and needed samples and changes nothing") {
  Harness h;
  h.set_up();
  pipeline::PromotionRequest request{
      .model = "m", .engine = "new", .contract = "test", .numeric = {}, .slice = {}, .note = {}};
  request.numeric = pipeline::StageCaptures{{"train.safetensors", ""}, {"inf.safetensors", ""}, "", {}};
  request.slice = request.numeric;
  const auto plan = h.pipeline->plan_promotion("pia", request);
  REQUIRE(plan.has_value());
  const auto value = nlohmann::json::parse(plan->json);
  CHECK(value["stages"].size() == 4);
  CHECK(value["starts_now"] == true);
  CHECK(value["stages"][0]["clauses"][0]["clause"] == "numerical.finite");
  CHECK(h.pipeline->promotions({}, {}).value().items.empty());
}
