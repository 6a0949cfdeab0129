#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "daemon/auth/tokens.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

constexpr std::int64_t kHourMs = 3'600'000;

/// With the schedules beside the pipeline, as in the daemon.
struct Scheduled : Harness {
  std::unique_ptr<pipeline::ScheduleAdmin> schedules;
  pipeline::ScheduleRequest wanted{
      .name = "hourly",
      .cron = "0 * * * *",
      .request =
          R"({"model":"m","engine":"new","contract":"test","captures":{)"
          R"("numeric":{"train":"train.safetensors","inf":"inf.safetensors","corpus":"corpus.jsonl"},)"
          R"("slice":{"train":"train.safetensors","inf":"inf.safetensors","corpus":"corpus.jsonl"}}})"};
  void start() {
    set_up();
    open_schedules();
  }
  void open_schedules() {
    schedules = pipeline::stored_schedules(*store, [this] { return clock.now_us_; });
  }
  void create() { REQUIRE(schedules->create("sam", wanted).has_value()); }
  json schedule() const { return json::parse(schedules->get("hourly").value().json); }
  /// To just after the next full hour, which the clock of the harness starts at.
  void next_hour(std::int64_t hours = 1) {
    clock.advance_ms(hours * kHourMs + 1'000);
    pipeline->tick();
    clock.advance_ms(-1'000);
  }
};

}  // namespace

TEST_CASE("a schedule that is due asks for its promotion, once for each fire time") {
  Scheduled h;
  h.start();
  h.create();
  h.pipeline->tick();
  CHECK(h.entries("", "schedule_fired").empty());
  h.next_hour();
  const auto fired = h.entries("", "schedule_fired");
  REQUIRE(fired.size() == 1);
  const auto id = fired[0]["subject"]["promotion"].get<std::string>();
  CHECK(fired[0]["actor"] == "schedule/hourly");
  CHECK(fired[0]["body"]["owner"] == "sam");
  CHECK(fired[0]["body"]["fire_us"] == h.clock.now_us_);
  CHECK(fired[0]["body"]["missed"] == 0);
  CHECK(h.view(id)["requester"] == "schedule/hourly");
  CHECK(h.view(id)["state"] == "running");
  h.pipeline->tick();
  h.restart();
  h.open_schedules();
  h.clock.advance_ms(2'000);
  h.pipeline->tick();
  CHECK(h.entries("", "schedule_fired").size() == 1);
  CHECK(h.schedule()["fires"][0]["promotion"] == id);
  CHECK(h.schedule()["next_us"] == h.clock.now_us_ - 2'000'000 + kHourMs * 1'000);
}

TEST_CASE("who set a schedule does not approve what it asked for") {
  Scheduled h;
  h.start();
  h.create();
  h.next_hour();
  const auto id = h.entries("", "schedule_fired").at(0)["subject"]["promotion"].get<std::string>();
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  const auto digest = h.view(id)["approval"]["evidence_digest"].get<std::string>();
  const auto own = h.pipeline->approve("sam", id, digest, "mine");
  REQUIRE_FALSE(own.has_value());
  CHECK(own.error().code == ErrorCode::forbidden);
  CHECK(h.entries(id, "approval_given").at(0)["body"]["decision"] == "refused_self");
  CHECK(h.pipeline->approve("anna", id, digest, "read it").has_value());
}

TEST_CASE(
    "a fire time in a blackout, beside a running promotion or of a bad request is skipped and says so") {
  for (const std::string why : {"blackout", "running", "refused"}) {
    CAPTURE(why);
    Scheduled h;
    if (why == "blackout") h.settings.blackouts = {"0 * * * * 30m UTC m"};
    h.start();
    if (why == "running") (void)h.request();
    if (why == "refused") h.wanted.request = R"({"model":"m","engine":"none","contract":"test"})";
    h.create();
    h.next_hour();
    CHECK(h.entries("", "schedule_fired").empty());
    const auto skipped = h.entries("", "schedule_skipped");
    REQUIRE(skipped.size() == 1);
    CHECK(skipped[0]["body"]["why"] == why);
    CHECK(skipped[0]["subject"]["model"] == "m");
    CHECK(h.schedule()["fires"][0]["outcome"] == "skipped");
    h.pipeline->tick();
    CHECK(h.entries("", "schedule_skipped").size() == 1);
  }
}

TEST_CASE("a schedule starts nothing once its owner's token was revoked, until there is another") {
  Scheduled h;
  h.start();
  const auto issue = [&] {
    h.clock.advance_ms(1);
    auto issued = h.store->write("issue token", [&](store::Tx& tx) {
      return auth::issue_token(tx, {.name = "sam", .scopes = {auth::Scope::promoter}, .granted_by = "admin"},
                               auth::random_secret(), h.clock.now_us_);
    });
    return issued.value().info.id;
  };
  const auto revoke = [&](const std::string& id) {
    auto revoked = h.store->write(
        "revoke token", [&](store::Tx& tx) { return auth::revoke_token(tx, id, "admin", h.clock.now_us_); });
    REQUIRE(revoked.has_value());
  };
  revoke(issue());
  h.create();
  h.next_hour();
  CHECK(h.entries("", "schedule_fired").empty());
  const auto skipped = h.entries("", "schedule_skipped");
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0]["body"]["why"] == "owner_revoked");
  CHECK(skipped[0]["body"]["reason"].get<std::string>().find("the token of sam") == 0);
  issue();
  h.next_hour();
  CHECK(h.entries("", "schedule_fired").size() == 1);
}

TEST_CASE("a long reason is cut between characters, so that what was refused is recorded") {
  Scheduled h;
  h.start();
  for (std::size_t shift = 0; shift < 3; ++shift) {
    std::string path(shift, 'x');
    for (int i = 0; i < 600; ++i) path += i % 10 == 0 ? "/\u20ac" : "\u20ac";
    auto request = json::parse(h.wanted.request);
    request["captures"]["numeric"]["train"] = path;
    h.wanted.name = "hourly" + std::to_string(shift);
    h.wanted.request = request.dump();
    h.create();
  }
  h.next_hour();
  const auto skipped = h.entries("", "schedule_skipped");
  REQUIRE(skipped.size() == 3);
  for (const auto& entry : skipped) CHECK(entry["body"]["why"] == "refused");
}

TEST_CASE("what was missed while the daemon was away is skipped, or run once within the grace time") {
  for (const bool once : {false, true}) {
    CAPTURE(once);
    Scheduled h;
    h.start();
    h.wanted.misfire = once ? "run_once" : "skip";
    h.wanted.grace_s = 1'800;
    h.create();
    h.clock.advance_ms(5 * kHourMs + 20 * 60'000);  // five fire times, the last 20 minutes ago
    h.restart();
    h.open_schedules();
    h.pipeline->tick();
    const auto decided = h.entries("", once ? "schedule_fired" : "schedule_skipped");
    REQUIRE(decided.size() == 1);
    CHECK(decided[0]["body"]["missed"] == 4);
    CHECK(decided[0]["body"]["late_ms"] == 20 * 60'000);
    if (!once) CHECK(decided[0]["body"]["why"] == "misfire");
  }
}

TEST_CASE("a misfire beyond the grace time is skipped") {
  Scheduled h;
  h.start();
  h.wanted.misfire = "run_once";
  h.wanted.grace_s = 600;
  h.create();
  h.clock.advance_ms(kHourMs + 20 * 60'000);
  h.pipeline->tick();
  CHECK(h.entries("", "schedule_fired").empty());
  CHECK(h.entries("", "schedule_skipped").size() == 1);
}

TEST_CASE("a paused schedule neither fires nor misses, and changes name the revision that was read") {
  Scheduled h;
  h.start();
  h.create();
  REQUIRE(h.schedules->set_paused("olga", "hourly", true, 1).has_value());
  CHECK(h.schedule()["next_us"].is_null());
  h.next_hour(3);
  REQUIRE(h.schedules->set_paused("olga", "hourly", false, 2).has_value());
  h.pipeline->tick();
  CHECK(h.entries("", "schedule_fired").empty());
  CHECK(h.entries("", "schedule_skipped").empty());
  const auto stale = h.schedules->set_paused("olga", "hourly", true, 2);
  REQUIRE_FALSE(stale.has_value());
  CHECK(stale.error().code == ErrorCode::conflict);
  h.wanted.cron = "30 * * * *";
  REQUIRE(h.schedules->replace("kim", h.wanted, 3).has_value());
  CHECK(h.schedule()["owner"] == "kim");
  CHECK(h.schedules->create("sam", h.wanted).error().code == ErrorCode::already_exists);
  CHECK(h.schedules->remove("olga", "hourly", 3).error().code == ErrorCode::conflict);
  REQUIRE(h.schedules->remove("olga", "hourly", 4).has_value());
  CHECK(h.schedules->get("hourly").error().code == ErrorCode::not_found);
  std::vector<std::string> changes;
  for (const auto& entry : h.entries("", "schedule_set")) {
    const auto& body = entry["body"];
    changes.push_back(entry["actor"].get<std::string>() + " " + body["change"].get<std::string>() + " " +
                      std::to_string(body["revision"].get<int>()));
    CHECK(body["request"]["model"] == "m");
  }
  CHECK(changes ==
        std::vector<std::string>{"sam created 1", "olga paused 2", "olga resumed 3", "kim replaced 4"});
  const auto deleted = h.entries("", "schedule_deleted");
  REQUIRE(deleted.size() == 1);
  CHECK(deleted[0]["actor"] == "olga");
  CHECK(deleted[0]["subject"]["model"] == "m");
}

TEST_CASE("in a blackout weights do not grow, and abort works") {
  Harness h;
  h.settings.blackouts = {"0 0 * * * 1d UTC"};
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 60 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  for (int i = 0; i < 30; ++i) h.second();
  CHECK(h.driver.share("m") == 1'000);
  const auto waits_for = h.view(id)["canary"]["waits_for"];
  REQUIRE(waits_for.is_array());
  CHECK(waits_for[0] == "Every clause is proven; the blackout '0 0 * * * 1d UTC' lasts.");
  REQUIRE(h.pipeline->abort("olga", id, "no").has_value());
  CHECK(h.view(id)["canary"]["waits_for"].empty());
  CHECK(h.driver.share("m") == 0);
}

TEST_CASE("a step of the wall clock is recorded and moves no deadline") {
  constexpr std::int64_t kYearUs = 365LL * 86'400 * 1'000'000;
  for (const std::int64_t step : {kYearUs, -kYearUs}) {
    CAPTURE(step);
    Harness h;
    h.set_up();
    const auto id = h.request();
    REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
    const auto deadline = h.view(id)["approval"]["deadline_us"];
    h.clock.offset_us_ = step;
    h.second();
    h.second();
    const auto noted = h.entries("", "clock_stepped");
    REQUIRE(noted.size() == 1);
    CHECK(noted[0]["body"]["step_us"] == step);
    CHECK(h.state(id) == "awaiting_approval");
    CHECK(h.view(id)["approval"]["deadline_us"] == deadline);
  }
}

TEST_CASE("a wall clock that stands still is recorded a bounded number of times, and time goes on") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  REQUIRE(h.run_until(id, {"awaiting_approval"}, false) == "awaiting_approval");
  for (int i = 0; i < 200; ++i) {
    h.clock.offset_us_ -= 10'000'000;
    h.second();
  }
  CHECK(h.entries("", "clock_stepped").size() == 120);
  h.clock.advance_ms(kHourMs);
  h.second();
  const auto noted = h.entries("", "clock_stepped");
  REQUIRE(noted.size() == 121);
  CHECK(noted.back()["body"]["step_us"] == -800'000'000);  // all that had added up
  CHECK(noted.back()["body"]["offset_us"] == -2'000'000'000);
}
