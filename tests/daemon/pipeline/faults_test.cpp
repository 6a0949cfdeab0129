#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/evidence/log/log.hpp"
#include "daemon/store/sqlite/write_scope.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;

namespace {

/// A walk to the end, undisturbed: what the disturbed ones must come to.
struct Reference {
  std::vector<std::string> states, verdicts;
};

Reference undisturbed() {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
  return {h.states(id), h.verdicts(id)};
}

}  // namespace

TEST_CASE("a daemon that is killed after every second ends with the same states and verdicts") {
  const auto reference = undisturbed();
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 400 && !h.pipeline->outcome(id)->terminal; ++i) {
    h.approve_if_asked(id);
    h.second();
    h.restart();
  }
  CHECK(h.state(id) == "succeeded");
  CHECK(h.verdicts(id) == reference.verdicts);
  const auto states = h.states(id);
  for (const auto& state : reference.states) {
    CHECK_MESSAGE(std::ranges::find(states, state) != states.end(), state);
  }
  CHECK(h.model()["incumbent"]["engine"] == "new");
}

TEST_CASE("a restart never exposes more than the smaller of the desired and the observed share") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 5'000; ++i) {
    h.approve_if_asked(id);
    h.second();
  }
  REQUIRE(h.driver.share("m") == 5'000);
  SUBCASE("the data plane lost its route") {
    h.driver.routes.clear();
  }
  SUBCASE("the data plane reverted") {
    h.driver.routes.at("m").reverted = true;
  }
  SUBCASE("the data plane holds less") {
    h.driver.routes.at("m").route.candidate_bp = 0;
  }
  h.kill();
  h.driver.applied.clear();
  h.boot();
  REQUIRE_FALSE(h.driver.applied.empty());
  CHECK(h.driver.applied.front().candidate_bp == 0);
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
}

TEST_CASE("while the data plane cannot be read at a start the candidate's desired share is 0") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  h.kill();
  h.driver.broken = true;
  h.boot();
  CHECK(h.model()["route"]["desired"]["candidate_bp"] == 0);
  CHECK(h.model()["route"]["agree"] == false);
  h.driver.broken = false;
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
}

TEST_CASE("a commit that fails once, wherever it stands, changes nothing about the end") {
  const auto reference = undisturbed();
  for (std::int64_t n = 0; n < 200; n += 3) {
    CAPTURE(n);
    Harness h;
    h.set_up();
    const auto before = h.committer->count;
    h.committer->fail_at = before + n;
    const auto asked = [&] {
      pipeline::PromotionRequest request{
          .model = "m", .engine = "new", .contract = "test", .numeric = {}, .slice = {}, .note = {}};
      request.numeric =
          pipeline::StageCaptures{{"train.safetensors", ""}, {"inf.safetensors", ""}, "corpus.jsonl", {}};
      request.slice = request.numeric;
      return h.pipeline->request_promotion("pia", request);
    };
    auto made = asked();
    if (!made) made = asked();
    REQUIRE(made.has_value());
    CHECK(h.run_until(made->id, {"succeeded", "rejected", "errored"}) == "succeeded");
    // An attempt of a stage that could not spend its α is itself recorded, as an error of the stage.
    auto verdicts = h.verdicts(made->id);
    std::erase(verdicts, "verdict_reached canary error");
    CHECK(verdicts == reference.verdicts);
    if (h.committer->count < h.committer->fail_at) break;
  }
}

TEST_CASE("a data plane that refuses, or lies about what it applied, holds the ramp where it is") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  SUBCASE("refuses") {
    h.driver.broken = true;
  }
  SUBCASE("lies") {
    h.driver.lies = true;
  }
  for (int i = 0; i < 8; ++i) {
    h.approve_if_asked(id);
    h.second();
  }
  CHECK(h.driver.share("m") == 1'000);
  h.driver.broken = h.driver.lies = false;
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
}

TEST_CASE("a rollback whose COMMIT hangs applies weight 0 before the record is written") {
  Harness h;
  h.settings.commit_patience_ms = 1;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  bool applied_first = false;
  h.committer->before = [&](std::string_view what) {
    if (what != "withdraw promotion") return;
    std::unique_lock lock(h.driver.mutex);
    applied_first = h.driver.changed.wait_for(
        lock, std::chrono::seconds(60), [&] { return !h.driver.routes.at("m").route.candidate.has_value(); });
  };
  REQUIRE(h.pipeline->rollback("olga", id, "users complain").has_value());
  CHECK(applied_first);
  CHECK(h.state(id) == "rejected");
  CHECK(h.model()["hold"].is_object());
}

TEST_CASE("an abort that cannot be recorded keeps weight 0 and is recorded later") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  h.committer->fail_at = h.committer->count;
  CHECK_FALSE(h.pipeline->abort("olga", id, "enough").has_value());
  CHECK(h.driver.share("m") == 0);
  CHECK(h.run_until(id, {"aborted", "succeeded"}) == "aborted");
  CHECK(h.driver.share("m") == 0);
}

TEST_CASE("a rollback after success that cannot be recorded is in effect, stays so, and is recorded later") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  std::string next, queued;
  SUBCASE("nothing runs on the version") {}
  SUBCASE("a promotion is under way on it, and another one waits") {
    next = h.request("newer");
    queued = h.request("newer");
    for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
    REQUIRE(h.driver.share("m") == 1'000);
  }
  const auto users_have = [&](int port) {
    const auto& route = h.driver.routes.at("m").route;
    return route.incumbent.url == "http://127.0.0.1:" + std::to_string(port) && !route.candidate;
  };
  h.committer->before = [&](std::string_view) { h.committer->fail_at = h.committer->count; };
  const auto refused = h.pipeline->rollback("olga", id, "users complain");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == schema::ErrorCode::storage_full);
  CHECK_MESSAGE(refused.error().message.find("are served by http://127.0.0.1:1 alone") != std::string::npos,
                refused.error().message);
  CHECK(users_have(1));
  for (int i = 0; i < 90; ++i) {
    h.second();
    REQUIRE(users_have(1));
  }
  CHECK(h.pipeline->unrecorded_withdrawals() == std::vector<std::string>{"m"});
  CHECK_FALSE(h.pipeline->figures().route_agrees);
  SUBCASE("nobody asks again") {}
  SUBCASE("somebody asks again meanwhile") {
    CHECK_FALSE(h.pipeline->rollback("olga", id, "users complain"));
  }
  SUBCASE("somebody asks again when there is space") {
    h.committer->before = nullptr;
    CHECK(h.pipeline->rollback("olga", id, "users complain").has_value());
  }
  h.committer->before = nullptr;
  for (int i = 0; i < 90; ++i) {
    h.second();
    REQUIRE(users_have(1));
  }
  CHECK(h.pipeline->figures().unrecorded.empty());
  CHECK(h.view(id)["traffic"] == "reverted");
  CHECK(h.model()["incumbent"]["engine"] == "old");
  CHECK(h.model()["hold"]["by"] == "olga");
  CHECK(h.model()["route"]["agree"] == true);
  if (next.empty()) return;
  CHECK(h.state(next) == "aborted");
  CHECK(h.state(queued) == "queued");
}

TEST_CASE("a rollback after success is recorded although the end of what runs on the version is not yet") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"succeeded"}) == "succeeded");
  const auto next = h.request("newer");
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  h.committer->fail_at = h.committer->count;
  CHECK(h.pipeline->rollback("olga", id, "users complain").has_value());
  CHECK(h.view(id)["traffic"] == "reverted");
  CHECK(h.driver.routes.at("m").route.incumbent.url == "http://127.0.0.1:1");
  CHECK(h.driver.share("m") == 0);
  CHECK(h.pipeline->unrecorded_withdrawals().empty());
  CHECK(h.run_until(next, {"aborted", "succeeded"}) == "aborted");
  CHECK(h.driver.routes.at("m").route.incumbent.url == "http://127.0.0.1:1");
  CHECK(h.model()["hold"].is_object());
}

namespace {

/// The token of who asks: valid so many times, then revoked.
class EndingToken final : public store::WriteScope {
 public:
  explicit EndingToken(int valid) : valid_(valid) {}
  schema::Result<void> allow(store::Reader&) override {
    if (valid_-- > 0) return {};
    return schema::fail(schema::ErrorCode::unauthenticated, "the token was revoked");
  }
  schema::Result<void> made(store::Tx&, const store::Made&) override { return {}; }

 private:
  int valid_;
};

/// A request whose Idempotency-Key another request has used meanwhile.
class UsedKey final : public store::WriteScope {
 public:
  schema::Result<void> allow(store::Reader&) override { return {}; }
  schema::Result<void> made(store::Tx&, const store::Made&) override {
    refused_ = true;
    return schema::fail(schema::ErrorCode::already_exists, "the key was used at the same time");
  }
  [[nodiscard]] bool refused() const override { return refused_; }

 private:
  bool refused_ = false;
};

}  // namespace

TEST_CASE("a command whose token has ended changes nothing, whatever it is") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  const auto before = h.view(id);
  const auto digest = before["approval"]["evidence_digest"].get<std::string>();
  const auto size = [&] {
    return *h.store->read([](store::Reader& reader) { return evidence::tree_size(reader); });
  };
  const auto entries = size();
  auto other = h.contract;
  other.replace(other.find("name: test"), 10, "name: late");
  EndingToken token(0);
  const store::EnterWriteScope entered(&token);
  const auto& p = h.pipeline;
  for (const auto& refused :
       {p->abort("olga", id, "x"), p->rollback("olga", id, "x"), p->pause("olga", id, "x"),
        p->approve("anna", id, digest, "x"), p->approve("pia", id, digest, "own"),
        p->request_promotion("pia", h.request_for("newer")), p->register_kernel("pia", R"({"name": "late"})"),
        p->register_contract("pia", other, "late.yaml"), p->create_model("olga", {"late", "old", "x"})}) {
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == schema::ErrorCode::unauthenticated);
  }
  CHECK(size() == entries);
  CHECK(h.view(id) == before);
  CHECK(h.driver.share("m") == 5'000);
}

TEST_CASE("weight 0 that went out for a token which ended before the record is taken back") {
  Harness h;
  h.settings.commit_patience_ms = 1;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  const auto revision = h.driver.routes.at("m").route.revision;
  h.committer->before = [&](std::string_view what) {
    if (what != "withdraw promotion") return;
    std::unique_lock lock(h.driver.mutex);
    CHECK(h.driver.changed.wait_for(lock, std::chrono::seconds(60),
                                    [&] { return !h.driver.routes.at("m").route.candidate.has_value(); }));
  };
  EndingToken token(1);
  {
    const store::EnterWriteScope entered(&token);
    const auto refused = h.pipeline->abort("olga", id, "enough");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == schema::ErrorCode::unauthenticated);
  }
  CHECK(h.driver.share("m") == 1'000);
  CHECK(h.driver.routes.at("m").route.revision == revision + 2);
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored", "aborted"}) == "succeeded");
}

TEST_CASE("an abort whose idempotency key was used is not carried out, neither at once nor later") {
  Harness h;
  bool in_time = true;
  SUBCASE("the record is in time") {}
  SUBCASE("weight 0 went out before the record") {
    in_time = false;
    h.settings.commit_patience_ms = 1;
  }
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  if (!in_time) {
    h.committer->before = [&](std::string_view what) {
      if (what != "withdraw promotion") return;
      std::unique_lock lock(h.driver.mutex);
      CHECK(h.driver.changed.wait_for(lock, std::chrono::seconds(60),
                                      [&] { return !h.driver.routes.at("m").route.candidate.has_value(); }));
    };
  }
  UsedKey key;
  {
    const store::EnterWriteScope entered(&key);
    const auto refused = h.pipeline->abort("olga", id, "enough");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == schema::ErrorCode::already_exists);
  }
  CHECK(key.refused());
  CHECK(h.state(id) == "running");
  CHECK(h.driver.share("m") == 1'000);
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored", "aborted"}) == "succeeded");
}

TEST_CASE("windows of other models that are missing break nothing") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  h.driver.next_number += 2;
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
}

TEST_CASE("windows that are missing break the measurement: weight 0 and errored") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  h.driver.last_number["m"] = h.driver.next_number++;
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "errored");
  CHECK(h.driver.share("m") == 0);
}

TEST_CASE("a router that takes the place of a dead one is told in the record, and the stage goes on") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  for (int i = 0; i < 3; ++i) h.second();
  h.driver.router_id = "router-2";
  h.driver.last_number.clear();
  for (int i = 0; i < 3; ++i) h.second();
  const auto told = h.entries(id, "escalation_decided");
  const auto count = std::ranges::count_if(told, [](const auto& entry) {
    return entry["body"]["action"] == "log" && entry["body"]["figures"].value("router", "") == "router-2";
  });
  CHECK(count == 1);
  CHECK(h.run_until(id, {"succeeded"}) == "succeeded");
}

TEST_CASE("a promotion that is read again does not hold up windows of other stages and models") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  h.committer->fail_at = h.committer->count;  // the end of the first job
  h.second();
  CHECK(h.driver.closed.empty());
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
}

TEST_CASE("a router whose clock is ahead, or a clock set back, does not hide silence") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 200 && h.driver.share("m") == 0; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  constexpr std::int64_t kHourMs = 3'600'000;
  SUBCASE("the router's clock is ahead") {
    h.clock.advance_ms(1'000);
    h.driver.serve("m", 200, h.clock.now_us_ + kHourMs * 1'000);
    h.pipeline->tick();
  }
  SUBCASE("the daemon's clock was set back between two runs") {
    h.second();
    h.kill();
    h.clock.advance_ms(-kHourMs);
    h.boot();
  }
  for (int i = 0; i < 24 && h.state(id) == "running"; ++i) {
    h.clock.advance_ms(1'000);
    h.pipeline->tick();
  }
  CHECK(h.state(id) == "errored");
  CHECK(h.driver.share("m") == 0);
}

TEST_CASE("a job's long error in another script than Latin ends the promotion like any other") {
  for (std::size_t shift = 0; shift < 3; ++shift) {
    CAPTURE(shift);
    Harness h;
    h.behaviour.capture_error = std::string(shift, 'x');
    for (int i = 0; i < 700; ++i) h.behaviour.capture_error += "\u20ac";
    h.set_up();
    const auto id = h.request();
    CHECK(h.run_until(id, {"errored"}) == "errored");
  }
}
