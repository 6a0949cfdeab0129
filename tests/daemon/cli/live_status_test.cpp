#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "daemon/cli/live/status_lines.hpp"
#include "daemon/cli/live/text.hpp"
#include "scripted_daemon.hpp"

using namespace driftgate::cli;
using namespace driftgate::cli::live;
using driftgate::cli::test::has;
using driftgate::cli::test::ScriptedDaemon;
using nlohmann::json;

namespace {

constexpr std::int64_t kNow = 1'790'000'100'000'000;

const char* const kStatus = R"({"items":[
    {"model":"calm","incumbent":{"engine":"f32"},"hold":null,"guard":{"armed":true,"alarms":0},"route_agrees":true,
     "promotion":null,"last":{"id":"pr-0","state":"rejected","ended_us":1789999800000000,"why":"kl is violated"},
     "schedules":[]},
    {"model":"ramping","incumbent":{"engine":"f32"},"hold":null,"guard":null,"route_agrees":true,"schedules":[],
     "promotion":{"id":"pr-1","state":"running","stage":"canary","candidate":{"engine":"bf16"},"share_bp":1000,
                  "why":"waits for 40 of 300 keys.","next":"50% then.","needs":[]}},
    {"model":"asking","incumbent":{"engine":"f32"},"hold":null,"guard":null,"route_agrees":true,"schedules":[],
     "promotion":{"id":"pr-2","state":"awaiting_approval","stage":"canary","candidate":{"engine":"int8"},"share_bp":5000,
                  "why":"Step 3 waits for an approval.","next":"","needs":[{"action":"approve","text":"t"}]}},
    {"model":"held","incumbent":{"engine":"f32"},"hold":{"reason":"rolled back"},"guard":null,"route_agrees":false,
     "promotion":null,"last":null,"schedules":[]},
    {"model":"planned","incumbent":null,"hold":null,"guard":null,"route_agrees":true,"promotion":null,"last":null,
     "schedules":[{"name":"nightly","next_us":1790003700000000,"paused":false,"last":null}]}],
    "counts":{"models":5,"open":2,"need_people":2,"holds":1,"alarms":0},"tree_size":9,"next":null})";

std::vector<std::string> drawn(const json& answer, std::size_t columns) {
  std::vector<std::string> out;
  for (const Line& line : status_lines(answer, columns, kNow)) out.push_back(painted(line, columns, false));
  return out;
}

}  // namespace

TEST_CASE("each model is one line, those that need people first, then the open ones, and all are counted") {
  const auto lines = drawn(json::parse(kStatus), 110);
  REQUIRE(lines.size() == 7);
  CHECK(lines[0].starts_with("  model    serves      standing"));
  CHECK(lines[1] == "! asking   f32 → int8  awaiting approval, canary  50%    Step 3 waits for an approval.");
  CHECK(lines[2].starts_with("! held     f32         on hold"));
  CHECK(has(lines[2], "the route is not in force. hold: rolled back"));
  CHECK(has(lines[3],
            "▸ ramping  f32 → bf16  running, canary            10%    waits for 40 of 300 keys. 50% then."));
  CHECK(has(lines[4], "last rejected 5 min ago: kl is violated"));
  CHECK(has(lines[5], "next by schedule nightly in 60 min"));
  CHECK(lines[6] == "5 models: 2 need people, 2 open, 1 on hold");
}

TEST_CASE("a schedule whose owner's token was revoked needs people, and says whose") {
  json answer = json::parse(kStatus);
  answer["items"] = json::array({answer["items"][4]});
  answer["items"][0]["schedules"][0]["last"] = {{"fire_us", 5},
                                                {"outcome", "skipped"},
                                                {"why", "owner_revoked"},
                                                {"reason", "the token of ada was revoked"}};
  const auto lines = drawn(answer, 140);
  CHECK(lines[1].starts_with("! planned"));
  CHECK(has(lines[1], "schedule nightly starts nothing: the token of ada was revoked"));
  answer["items"][0]["schedules"][0]["paused"] = true;
  CHECK_FALSE(has(drawn(answer, 140)[1], "starts nothing"));
}

TEST_CASE("fifty models are fifty lines at every width, with hostile names too") {
  json answer{{"items", json::array()}};
  for (int i = 0; i < 50; ++i) {
    json item = json::parse(kStatus)["items"][static_cast<std::size_t>(i % 5)];
    item["model"] =
        "model-漢字-\x1b[31m\u202E-" + std::to_string(i) + std::string(static_cast<std::size_t>(i), 'm');
    answer["items"].push_back(item);
  }
  for (const std::size_t columns : {1, 20, 40, 80, 200}) {
    const auto lines = drawn(answer, columns);
    CHECK(lines.size() == 52);
    for (const std::string& line : lines) {
      CHECK(display_width(line) <= columns);
      CHECK_FALSE(has(line, "\x1b"));
      CHECK_FALSE(has(line, "\u202E"));
    }
  }
  CHECK(has(drawn(answer, 40)[1], "awaiting"));
  CHECK(drawn(answer, 80).back() == "50 models: 20 need people, 20 open, 10 on hold");
  for (const char* text : {"{}", "[]", R"({"items":3})", R"({"items":[null,3,{}],"counts":[]})"})
    CHECK(drawn(json::parse(text), 80).size() >= 2);
}

TEST_CASE(
    "status asks once for all models, follows the pages, and prints the same table into a file as ever") {
  ScriptedDaemon daemon;
  json first = json::parse(kStatus), second = json::parse(kStatus);
  first["next"] = "ramping";
  first["items"].erase(first["items"].begin() + 2, first["items"].end());
  second["items"].erase(second["items"].begin(), second["items"].begin() + 2);
  daemon.on("GET /v1/status?limit=500", first.dump());
  daemon.on("GET /v1/status?limit=500&after=ramping", second.dump());
  const std::string wanted =
      "model    incumbent  promotion  standing                  candidate  hold\n"
      "calm     f32        -          -                         -          -\n"
      "ramping  f32        pr-1       running canary            10%        -\n"
      "asking   f32        pr-2       awaiting_approval canary  50%        -\n"
      "held     f32        -          -                         -          rolled back\n"
      "planned             -          -                         -          -\n";
  CHECK(daemon.run({"status"}).out == wanted);
  CHECK(daemon.requests().size() == 2);
  CHECK(daemon.run({"status", "--plain"}).out == wanted);
  const json printed = json::parse(daemon.run({"status", "--json"}).out);
  CHECK(printed["items"].size() == 5);
  CHECK(printed["counts"]["models"] == 5);
  CHECK_FALSE(printed.contains("next"));
}

TEST_CASE(
    "status of a daemon that cannot be asked for all at once asks as before, and passes other faults on") {
  ScriptedDaemon daemon;
  daemon.on("GET /v1/models?limit=500",
            R"({"items":[{"name":"m","incumbent":{"engine":"e"},"promotion":null}]})");
  CHECK(daemon.run({"status"}).out ==
        "model  incumbent  promotion  standing  candidate  hold\nm      e          -          -         -    "
        "      -\n");
  const auto as_json = daemon.run({"status", "--json"});  // it has one shape
  CHECK(as_json.exit_code != 0);
  CHECK(as_json.out.empty());
  CHECK(as_json.err.find("has no GET /v1/status") != std::string::npos);
  daemon.on("GET /v1/status?limit=500", R"({"code":"forbidden","detail":"no scope"})", 403);
  CHECK(daemon.run({"status"}).exit_code == 77);
  ScriptedDaemon empty;
  empty.on("GET /v1/status?limit=500", R"({"items":[],"counts":{},"next":null})");
  CHECK(empty.run({"status"}).out.starts_with("There are no models yet"));
}
