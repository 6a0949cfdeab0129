#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/auth/tokens.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/pipeline/read/schedules/schedule_report.hpp"
#include "daemon/pipeline/requests/schedule_admin.hpp"
#include "daemon/store/outbox.hpp"
#include "daemon/store/registry/schedules.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using driftgate::schema::ErrorCode;
using nlohmann::json;

namespace {

constexpr std::int64_t kHourUs = 3'600'000'000;
constexpr std::int64_t kStart = 1'800'000'000'000'000;  // of the harness: 2027-01-15 08:00:00 UTC

/// Schedules that are tried, beside the pipeline as in the daemon.
struct Nights : Harness {
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
    schedules = pipeline::stored_schedules(
        *store, [this] { return clock.now_us_; },
        [this](const std::string& actor, const pipeline::PromotionRequest& request) {
          return pipeline->try_request(actor, request);
        });
  }
  json create() {
    auto made = schedules->create("sam", wanted);
    REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().describe()));
    return json::parse(made->json);
  }
  json schedule() const { return json::parse(schedules->get("hourly").value().json); }
  void at(std::int64_t now_us) {
    clock.now_us_ = now_us;
    pipeline->tick();
  }
  /// Behind the back of the daemon: a test that does so undoes it, since the tables must be what the log
  /// says.
  void change(const store::Sql& sql, const std::string& value) {
    const auto done = store->write("change", [&](store::Tx& tx) { return tx.run(sql, {value}); });
    REQUIRE(done.has_value());
  }
  json report(std::int64_t since_us, std::int64_t until_us) {
    auto made = schedules->report(since_us, until_us, "");
    REQUIRE(made.has_value());
    return json::parse(made->json);
  }
  std::string issue(const std::string& name, auth::Scope scope) {
    clock.now_us_ += 1'000;
    auto issued = store->write("issue token", [&](store::Tx& tx) {
      return auth::issue_token(tx, {.name = name, .scopes = {scope}, .granted_by = "admin"},
                               auth::random_secret(), clock.now_us_);
    });
    return issued.value().info.id;
  }
  void revoke(const std::string& id) {
    auto revoked = store->write(
        "revoke token", [&](store::Tx& tx) { return auth::revoke_token(tx, id, "admin", clock.now_us_); });
    REQUIRE(revoked.has_value());
  }
};

json with(const std::string& request, const std::string& pointer, const json& value) {
  auto changed = json::parse(request);
  changed[json::json_pointer(pointer)] = value;
  return changed;
}

}  // namespace

TEST_CASE(
    "a schedule whose request can never be accepted is refused, when it is made and when it is changed") {
  Nights h;
  h.start();
  const auto good = h.wanted;
  for (const auto& [pointer, value] : {std::pair{"/engine", json("none")},
                                       {"/contract", json("none")},
                                       {"/model", json("mistyped")},
                                       {"/engine", json("old")},
                                       {"/captures/numeric/inf", json({{"adapter", "none"}})},
                                       {"/captures/numeric/train", json("/etc/passwd")}}) {
    CAPTURE(pointer);
    CAPTURE(value.dump());
    h.wanted = good;
    h.wanted.request = with(good.request, pointer, value).dump();
    const auto refused = h.schedules->create("sam", h.wanted);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().where.starts_with("/promotion"));
  }
  CHECK(h.entries("", "schedule_set").empty());
  h.wanted = good;
  CHECK(h.create()["warnings"].empty());
  h.wanted.request = with(good.request, "/engine", "none").dump();
  CHECK_FALSE(h.schedules->replace("sam", h.wanted, 1).has_value());
  CHECK(h.schedule()["revision"] == 1);
}

TEST_CASE("a schedule whose request merely cannot be accepted now is made, and the answer warns") {
  const auto warned = [](auto&& prepare) {
    Nights h;
    h.start();
    prepare(h);
    const auto warnings = h.create()["warnings"];
    REQUIRE(warnings.size() == 1);
    return warnings[0].get<std::string>();
  };
  CHECK(warned([](Nights& h) {
          h.wanted.request = with(h.wanted.request, "/captures/numeric/inf", "tonight.safetensors").dump();
        }).find("tonight.safetensors does not exist") != std::string::npos);
  CHECK(warned([](Nights& h) { h.unhealthy = {"http://127.0.0.1:2"}; }) ==
        "Engine new does not answer now: nobody listens");
  CHECK(warned([](Nights& h) { (void)h.request("newer"); }).find("is running now") != std::string::npos);
  CHECK(warned([](Nights& h) {
          const auto id = h.request("newer");
          REQUIRE(h.pipeline->rollback("olga", id, "smells").has_value());
        }).find("m is on hold") != std::string::npos);
}

TEST_CASE("a hold hides no fault of a request that can never be accepted") {
  Nights h;
  h.start();
  const auto id = h.request("newer");
  REQUIRE(h.pipeline->rollback("olga", id, "smells").has_value());
  h.wanted.request = with(h.wanted.request, "/contract", "none").dump();
  CHECK(h.schedules->create("sam", h.wanted).error().code == ErrorCode::not_found);
}

TEST_CASE("a schedule that is made again goes on with its revision and has no fires of the one before") {
  Nights h;
  h.start();
  CHECK(h.create()["revision"] == 1);
  REQUIRE(h.schedules->set_paused("olga", "hourly", true, 1).has_value());
  REQUIRE(h.schedules->set_paused("olga", "hourly", false, 2).has_value());
  h.at(kStart + kHourUs);
  CHECK(h.schedule()["fires"].size() == 1);
  REQUIRE(h.schedules->remove("olga", "hourly", 3).has_value());
  CHECK(h.create()["revision"] == 4);
  CHECK(h.schedule()["fires"].empty());
  for (std::uint64_t old = 1; old <= 3; ++old)
    CHECK(h.schedules->remove("olga", "hourly", old).error().code == ErrorCode::conflict);
  const auto report = h.report(kStart, kStart + 2 * kHourUs);
  REQUIRE(report["items"].size() == 1);
  CHECK(report["items"][0]["revision"] == 3);
  h.at(kStart + 2 * kHourUs);
  REQUIRE(h.schedule()["fires"].size() == 1);
  CHECK(h.schedule()["fires"][0]["revision"] == 4);
}

TEST_CASE("a fire time that is due when somebody changes the schedule is recorded as skipped") {
  for (const std::string how : {"replaced", "paused", "deleted"}) {
    CAPTURE(how);
    Nights h;
    h.start();
    h.create();
    h.clock.now_us_ = kStart + kHourUs;  // due, and the pipeline has not looked yet
    if (how == "replaced") REQUIRE(h.schedules->replace("kim", h.wanted, 1).has_value());
    if (how == "paused") REQUIRE(h.schedules->set_paused("kim", "hourly", true, 1).has_value());
    if (how == "deleted") REQUIRE(h.schedules->remove("kim", "hourly", 1).has_value());
    h.pipeline->tick();
    CHECK(h.entries("", "schedule_fired").empty());
    const auto skipped = h.entries("", "schedule_skipped");
    REQUIRE(skipped.size() == 1);
    CHECK(skipped[0]["body"]["why"] == "changed");
    CHECK(skipped[0]["body"]["reason"] == "kim " + how + " the schedule before it was decided");
    const auto report = h.report(kStart, kStart + kHourUs + 1);
    CHECK(report["totals"]["unrecorded"] == 0);
    CHECK(report["totals"]["skipped_by"] == json{{"changed", 1}});
  }
}

TEST_CASE("a schedule shows the whole reason of a skip and how its promotion ended") {
  Nights h;
  h.start();
  h.create();
  h.at(kStart + kHourUs);
  const auto id = h.schedule()["fires"][0]["promotion"].get<std::string>();
  CHECK(h.schedule()["fires"][0]["standing"]["state"] == "running");
  h.at(kStart + 2 * kHourUs);
  const auto skipped = h.schedule()["fires"][0];
  CHECK(skipped["why"] == "running");
  CHECK(skipped["reason"] == "promotion " + id + " is running");
  CHECK(skipped["standing"].is_null());
  REQUIRE(h.pipeline->abort("olga", id, "enough").has_value());
  const auto ended = h.schedule()["fires"][1]["standing"];
  CHECK(ended["state"] == "aborted");
  CHECK(ended["traffic"] == "never_exposed");
  CHECK(ended["ended_us"] == h.clock.now_us_);
  CHECK(ended["why"].get<std::string>().find("enough") != std::string::npos);
}

TEST_CASE("a report has every fire time: fired, skipped, missed with another, and one that is not recorded") {
  Nights h;
  h.start();
  h.create();
  h.at(kStart + kHourUs);                       // fires
  h.at(kStart + 4 * kHourUs + 60'000'000 * 5);  // two missed with a third
  // Somebody loses the fire time of five o'clock.
  REQUIRE(h.store
              ->write("lose",
                      [](store::Tx& tx) { return store::set_next_fire(tx, "hourly", kStart + 6 * kHourUs); })
              .has_value());
  h.at(kStart + 6 * kHourUs);
  h.clock.now_us_ = kStart + 7 * kHourUs;  // due, and nobody has looked yet
  const auto report = h.report(kStart, kStart + 8 * kHourUs);
  std::vector<std::string> outcomes;
  for (const auto& item : report["items"])
    outcomes.push_back(item["outcome"].get<std::string>() + " " + item["why"].get<std::string>());
  CHECK(outcomes == std::vector<std::string>{"fired on time", "skipped misfire", "skipped misfire",
                                             "skipped misfire", "unrecorded nothing is recorded of it",
                                             "skipped running", "pending it is due and being decided"});
  const auto& totals = report["totals"];
  CHECK(totals["times"] == 7);
  CHECK(totals["fired"] == 1);
  CHECK(totals["skipped"] == 4);
  CHECK(totals["unrecorded"] == 1);
  CHECK(totals["pending"] == 1);
  CHECK(totals["promotions"] == json{{"running", 1}});
  CHECK(report["items"][0]["duration_ms"] == 6 * 3'600'000);
  CHECK(report["items"][4]["needs"][0]["action"] == "look_into");
  CHECK(report["items"][4]["local"] == "2027-01-15 13:00:00 UTC");
  const auto digest = pipeline::report_digest(report, 2);
  CHECK(digest["items"].size() == 2);  // of the misfires and the lost one
  CHECK(digest["more"] == 2);
  CHECK(h.schedules->report(kStart, kStart, "").error().code == ErrorCode::invalid_argument);
  CHECK(h.schedules->report(kStart, kStart + pipeline::kMaxReportUs + 1, "").error().code ==
        ErrorCode::invalid_argument);
  CHECK(
      json::parse(h.schedules->report(kStart, kStart + 8 * kHourUs, "other").value().json)["items"].empty());
}

TEST_CASE("a report follows the expression that was in force, and leaves out what was paused") {
  Nights h;
  h.start();
  h.create();
  REQUIRE(h.schedules->set_paused("olga", "hourly", true, 1).has_value());
  h.at(kStart + 2 * kHourUs + 1);
  REQUIRE(h.schedules->set_paused("olga", "hourly", false, 2).has_value());
  h.wanted.cron = "30 * * * *";
  h.wanted.zone = "Asia/Kolkata";  // half an hour off
  REQUIRE(h.schedules->replace("sam", h.wanted, 3).has_value());
  h.at(kStart + 3 * kHourUs);
  const auto report = h.report(kStart, kStart + 4 * kHourUs);
  REQUIRE(report["items"].size() == 1);
  CHECK(report["items"][0]["fire_us"] == kStart + 3 * kHourUs);
  CHECK(report["items"][0]["local"] == "2027-01-15 16:30:00 IST");
  CHECK(report["items"][0]["outcome"] == "fired");
}

TEST_CASE("webhooks are told of the schedules once at each time of the setting, also over restarts") {
  Nights h;
  h.settings.report = "30 * * * * UTC";
  h.webhooks = {{.name = "ops", .events = {"schedule.report"}}};
  h.start();
  h.create();
  const auto told = [&] {
    auto rows = h.store->read([&](store::Reader& reader) {
      return store::due_outbox(reader, "ops", kStart + 1'000 * kHourUs, 100);
    });
    std::vector<json> bodies;
    for (const auto& row : rows.value()) bodies.push_back(json::parse(row.payload));
    return bodies;
  };
  h.at(kStart + 1'000'000);
  CHECK(told().empty());
  h.at(kStart + kHourUs);
  REQUIRE(told().size() == 1);
  const auto first = told()[0];
  CHECK(first["type"] == "schedule.report");
  CHECK(first["data"]["until_us"] == kStart + kHourUs / 2);
  h.clock.now_us_ = kStart + kHourUs / 2 * 3;
  for (int i = 0; i < 3; ++i) {
    h.restart();
    h.open_schedules();
    h.clock.now_us_ += 1'000'000;
    h.pipeline->tick();
  }
  REQUIRE(told().size() == 2);
  CHECK(told()[1]["data"]["since_us"] == first["data"]["until_us"]);
  CHECK(told()[1]["data"]["totals"]["fired"] == 1);
  h.at(kStart + 5 * kHourUs);  // what was missed is in the next one
  REQUIRE(told().size() == 3);
  CHECK(told()[2]["data"]["since_us"] == kStart + kHourUs / 2 * 3);
  CHECK(told()[2]["data"]["until_us"] == kStart + kHourUs / 2 * 9);
}

TEST_CASE(
    "a schedule follows what its owner may do: a lost scope stops it, a token that is replaced does not") {
  for (const bool replaced : {false, true}) {
    CAPTURE(replaced);
    Nights h;
    h.webhooks = {{.name = "ops", .events = {"schedule.skipped"}}};
    h.start();
    const auto old = h.issue("sam", auth::Scope::promoter);
    h.create();
    (void)h.issue("sam", replaced ? auth::Scope::promoter : auth::Scope::viewer);
    h.revoke(old);
    h.at(kStart + kHourUs);
    CHECK(h.entries("", "schedule_fired").size() == (replaced ? 1 : 0));
    const auto skipped = h.entries("", "schedule_skipped");
    REQUIRE(skipped.size() == (replaced ? 0 : 1));
    auto told = h.store->read(
        [&](store::Reader& reader) { return store::due_outbox(reader, "ops", h.clock.now_us_, 10); });
    CHECK(told.value().size() == (replaced ? 0 : 1));
    if (replaced) continue;
    CHECK(skipped[0]["body"]["why"] == "owner_revoked");
    const auto overview = h.pipeline->overview("", {"", 10}).value();
    const auto item = json::parse(overview.page.items.at(0).json);
    CHECK(item["schedules"][0]["last"]["why"] == "owner_revoked");
    CHECK(item["schedules"][0]["last"]["reason"] == skipped[0]["body"]["reason"]);
  }
}

TEST_CASE("a capture that is not written yet, and a hold, hide no fault that stays") {
  for (const bool held : {false, true}) {
    CAPTURE(held);
    Nights h;
    h.start();
    if (held)
      REQUIRE(h.pipeline->rollback("olga", h.request("newer"), "smells").has_value());
    else
      h.wanted.request = with(h.wanted.request, "/captures/numeric/train", "tonight.safetensors").dump();
    const auto good = h.wanted.request;
    for (const auto& [pointer, value, code] :
         {std::tuple{"/captures/numeric/inf", json("/etc/passwd"), ErrorCode::forbidden},
          {"/captures/slice/corpus", json("/etc/passwd"), ErrorCode::forbidden},
          {"/captures/slice", json(), ErrorCode::invalid_argument},
          {"/fallback_engine", json("newer"), ErrorCode::invalid_argument}}) {
      CAPTURE(std::string(pointer));
      auto changed = with(good, pointer, value);
      if (value.is_null()) changed["captures"].erase("slice");
      h.wanted.request = changed.dump();
      const auto refused = h.schedules->create("sam", h.wanted);
      REQUIRE_FALSE(refused.has_value());
      CHECK(refused.error().code == code);
    }
    h.wanted.request = good;
    CHECK(h.create()["warnings"].size() == 1);
  }
}

namespace {

/// With a webhook that is told of reports.
struct Mornings : Nights {
  Mornings() { webhooks = {{.name = "ops", .events = {"schedule.report"}}}; }
  [[nodiscard]] std::vector<json> told() const {
    auto rows = store->read([](store::Reader& reader) {
      return store::due_outbox(reader, "ops", kStart + 10'000 * kHourUs, 100);
    });
    std::vector<json> bodies;
    for (const auto& row : rows.value()) bodies.push_back(json::parse(row.payload)["data"]);
    return bodies;
  }
};

}  // namespace

TEST_CASE("a report of more fire times than it may have covers the newest of them, and the next goes on") {
  Mornings h;
  h.settings.report = "0 0 1 * * UTC";
  h.wanted.cron = "* * * * *";
  h.start();
  h.at(kStart + 1'000'000);
  h.create();
  constexpr std::int64_t kFebruary = kStart + 16 * kHourUs * 24 + 16 * kHourUs;  // 24,000 minutes later
  h.at(kFebruary + 1'000'000);
  REQUIRE(h.told().size() == 1);
  const auto first = h.told()[0];
  CHECK(first["until_us"] == kFebruary);
  CHECK(first["left_out_since_us"] == kStart + 1'000'000);
  CHECK(first["since_us"].get<std::int64_t>() > kStart + 1'000'000);
  CHECK(first["totals"]["times"] == 11'999);
  CHECK(first["totals"]["skipped_by"] == json{{"misfire", 11'999}});
  CHECK(first["items"].size() == 50);
  CHECK(first["more"] == 11'949);
  REQUIRE(h.schedules->set_paused("olga", "hourly", true, 1).has_value());
  h.at(kFebruary + 28 * 24 * kHourUs);
  REQUIRE(h.told().size() == 2);
  CHECK(h.told()[1]["since_us"] == kFebruary);
  CHECK(h.told()[1]["left_out_since_us"].is_null());
}

TEST_CASE("a report waits for fire times that are being decided, though not for ever") {
  Mornings h;
  h.settings.report = "30 * * * * UTC";
  h.start();
  h.at(kStart + 1'000'000);
  constexpr int kSchedules = 70;  // more than are decided at once
  for (int i = 0; i < kSchedules; ++i) {
    h.wanted.name = "hourly" + std::to_string(i);
    h.create();
  }
  h.at(kStart + 105 * 60'000'000LL);  // the daemon comes back
  const auto before = h.told().size();
  h.at(h.clock.now_us_ + 1'000'000);
  h.at(h.clock.now_us_ + 1'000'000);
  REQUIRE(h.told().size() == before + 1);
  const auto report = h.told().back();
  CHECK(report["totals"]["times"] == kSchedules);
  CHECK(report["totals"]["pending"] == 0);
  CHECK(report["totals"]["skipped"] == kSchedules);
}

TEST_CASE("a report waits an hour at most, and the next one says what was decided too late for it") {
  Mornings h;
  h.settings.report = "30 * * * * UTC";
  h.start();
  h.at(kStart + 1'000'000);
  h.create();
  h.at(kStart + kHourUs / 2);
  const auto before = h.told().size();
  const auto set_zone = [&](const std::string& zone) {
    h.change({"zone", "UPDATE schedules SET zone = ?1"}, zone);
  };
  set_zone("Nowhere/Town");  // as if the database of zones had lost it: it cannot be decided
  h.at(kStart + kHourUs * 3 / 2);
  h.at(kStart + kHourUs * 5 / 2 - 1'000'000);
  CHECK(h.told().size() == before);
  h.at(kStart + kHourUs * 5 / 2 - 500'000);
  CHECK(h.told().size() == before);
  h.at(kStart + kHourUs * 5 / 2);
  REQUIRE(h.told().size() == before + 1);
  CHECK(h.told().back()["totals"]["pending"] == 2);
  set_zone("UTC");
  h.at(kStart + kHourUs * 5 / 2 + 2'000'000);
  h.at(kStart + kHourUs * 7 / 2);
  REQUIRE(h.told().size() == before + 2);
  const auto earlier = h.told().back()["earlier"];
  CHECK(earlier["totals"]["skipped_by"] == json{{"misfire", 1}});
  REQUIRE(earlier["items"].size() == 1);
  CHECK(earlier["items"][0]["missed"] == 1);
}

TEST_CASE("a report says what became of the promotions that the one before saw running, once") {
  Mornings h;
  h.settings.report = "30 * * * * UTC";
  h.start();
  h.at(kStart + 1'000'000);
  h.create();
  h.at(kStart + kHourUs);
  const auto id = h.schedule()["fires"][0]["promotion"].get<std::string>();
  h.at(kStart + kHourUs * 3 / 2);
  REQUIRE_FALSE(h.told().empty());
  CHECK(h.told().back()["totals"]["promotions"] == json{{"running", 1}});
  CHECK(h.told().back()["items"].empty());
  h.at(kStart + kHourUs * 7 / 4);
  REQUIRE(h.pipeline->abort("olga", id, "enough").has_value());
  REQUIRE(h.schedules->set_paused("olga", "hourly", true, 1).has_value());
  h.at(kStart + kHourUs * 5 / 2);
  const auto earlier = h.told().back()["earlier"];
  CHECK(earlier["totals"]["promotions"] == json{{"aborted", 1}});
  REQUIRE(earlier["items"].size() == 1);
  CHECK(earlier["items"][0]["promotion"] == id);
  CHECK(earlier["items"][0]["model"] == "m");
  h.at(kStart + kHourUs * 7 / 2);
  CHECK(h.told().back()["earlier"]["totals"]["times"] == 0);
}

TEST_CASE("a report of one model is not refused for the fire times of others") {
  Nights h;
  h.start();
  h.create();
  h.at(kStart + kHourUs);
  REQUIRE(h.store
              ->write("many",
                      [](store::Tx& tx) -> schema::Result<void> {
                        for (std::size_t i = 0; i <= pipeline::kMaxReported; ++i) {
                          const auto put = store::insert_schedule_fire(
                              tx, {.schedule = "other",
                                   .fire_us = kStart + static_cast<std::int64_t>(i),
                                   .outcome = "skipped",
                                   .why = "running",
                                   .owner = "sam"});
                          if (!put) return put;
                        }
                        return {};
                      })
              .has_value());
  const auto ask = [&](const std::string& model) {
    return h.schedules->report(kStart, kStart + 2 * kHourUs, model);
  };
  CHECK(ask("").error().code == ErrorCode::limit_exceeded);
  const auto one = ask("m");
  REQUIRE(one.has_value());
  CHECK(json::parse(one->json)["totals"]["fired"] == 1);
  h.change({"forget", "DELETE FROM schedule_fires WHERE schedule = ?1"}, "other");
}

TEST_CASE("a schedule whose zone is not known any more has one item of its own in a report") {
  Nights h;
  h.start();
  h.create();
  h.at(kStart + kHourUs);
  const auto note = [&](schema::EvidenceKind kind, std::int64_t time_us) {
    const auto noted = h.store->write("note", [&](store::Tx& tx) {
      return evidence::append(
          tx,
          {.time_us = time_us,
           .kind = kind,
           .actor = "sam",
           .subject = {.model = "m"},
           .body = {
               {"schedule", "lost"}, {"revision", 1}, {"cron", "0 * * * *"}, {"timezone", "Nowhere/Town"}}});
    });
    REQUIRE(noted.has_value());
  };
  note(schema::EvidenceKind::schedule_set, kStart);
  const auto report = h.report(kStart, kStart + 2 * kHourUs);
  REQUIRE(report["items"].size() == 2);
  const auto& lost = report["items"][0];
  CHECK(lost["schedule"] == "lost");
  CHECK(lost["outcome"] == "unrecorded");
  CHECK(lost["why"] == "its fire times cannot be computed");
  CHECK(lost["reason"].get<std::string>().find("Nowhere/Town") != std::string::npos);
  CHECK(lost["needs"][0]["action"] == "change_schedule");
  CHECK(report["items"][1]["outcome"] == "fired");
  note(schema::EvidenceKind::schedule_deleted, kStart + kHourUs);
}

TEST_CASE("a checkpoint that cannot be read for now is looked at again, as a capture is") {
  Nights h;
  h.start();
  const auto path = h.folder / "captures" / "weights";
  REQUIRE(::mknod(path.c_str(), S_IFSOCK | 0600, 0) == 0);  // opening it is an error of the system
  const store::Sql set_files{"files", "UPDATE engines SET checkpoint_uri = ?1 WHERE name = 'new'"};
  h.change(set_files, path.string());
  h.create();
  h.at(kStart + kHourUs);
  CHECK(h.entries("", "schedule_skipped").empty());
  std::filesystem::remove(path);
  h.at(kStart + kHourUs + 2'000'000);
  const auto skipped = h.entries("", "schedule_skipped");
  REQUIRE(skipped.size() == 1);
  CHECK(skipped[0]["body"]["why"] == "refused");
  h.change(set_files, "");
}
