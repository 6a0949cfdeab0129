#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;
using nlohmann::json;

namespace {

constexpr const char* kIncumbent = "http://127.0.0.1:1";
constexpr const char* kCandidate = "http://127.0.0.1:2";

/// A promotion whose candidate has its first share of users; its id.
std::string in_canary(Harness& h) {
  h.set_up();
  auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 1'000; ++i) h.second();
  REQUIRE(h.driver.share("m") == 1'000);
  h.second();  // the route was read back: the tests are open
  return id;
}

/// Time passes without traffic.
void pass(Harness& h, std::int64_t ms) {
  h.clock.advance_ms(ms);
  h.pipeline->tick();
}

std::vector<json> changes(const Harness& h) {
  return h.entries("", "breaker_changed");
}

}  // namespace

TEST_CASE(
    "an engine that does not answer is rolled back without waiting for a window, and the log says why") {
  Harness h;
  const auto id = in_canary(h);
  h.driver.open_breaker(kCandidate, h.clock.now_us_);
  pass(h, 500);
  CHECK(h.driver.share("m") == 1'000);
  CHECK(changes(h).size() == 1);
  pass(h, 600);
  CHECK(h.driver.share("m") == 0);
  CHECK_FALSE(h.driver.routes.at("m").route.candidate.has_value());
  CHECK(h.state(id) == "rejected");
  CHECK(h.model()["hold"].is_object());
  const auto verdicts = h.entries(id, "verdict_reached");
  const auto outage = std::ranges::find_if(
      verdicts, [](const json& entry) { return entry["body"].value("limit_kind", "") == "breaker_open_s"; });
  REQUIRE(outage != verdicts.end());
  CHECK((*outage)["body"]["verdict"] == "violated");
  CHECK((*outage)["body"]["rule"] == "census");
  CHECK(h.view(id)["reason"].get<std::string>().find("does not answer") != std::string::npos);
}

TEST_CASE(
    "each opening and each closing is recorded once, for the model and the promotion that it concerns") {
  Harness h;
  const auto id = in_canary(h);
  h.driver.open_breaker(kCandidate, h.clock.now_us_);
  pass(h, 300);
  h.driver.close_breaker(kCandidate, h.clock.now_us_);
  pass(h, 300);
  h.restart();  // the next daemon reads the router's events from the first
  pass(h, 300);
  const auto entries = changes(h);
  REQUIRE(entries.size() == 2);
  for (const auto& entry : entries) {
    CHECK(entry["subject"]["model"] == "m");
    CHECK(entry["subject"]["promotion"] == id);
    CHECK(entry["subject"]["stage"] == "canary");
    CHECK(entry["body"]["engine"] == kCandidate);
    CHECK(entry["body"]["arm"] == "candidate");
    CHECK(entry["body"]["router"] == "router-1");
  }
  CHECK(entries[0]["body"]["state"] == "open");
  CHECK(entries[0]["body"]["failures"] == 3);
  CHECK(entries[0]["body"]["reason"] == "first_byte");
  CHECK(entries[1]["body"]["state"] == "closed");
  CHECK(entries[1]["body"]["open_ms"] == 300);
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
}

TEST_CASE("no share grows while the engine is only tried, and a short outage ends without a verdict") {
  Harness h;
  const auto id = in_canary(h);
  h.driver.open_breaker(kCandidate, h.clock.now_us_);
  h.driver.half_open = {kCandidate};
  for (int i = 0; i < 30; ++i) h.second();
  CHECK(h.driver.share("m") == 1'000);
  CHECK(h.state(id) == "running");
  h.driver.close_breaker(kCandidate, h.clock.now_us_);
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
}

TEST_CASE("the incumbent's breaker is recorded and decides nothing about the candidate") {
  Harness h;
  const auto id = in_canary(h);
  h.driver.open_breaker(kIncumbent, h.clock.now_us_, "connect");
  pass(h, 5'000);
  REQUIRE(changes(h).size() == 1);
  CHECK(changes(h)[0]["body"]["arm"] == "incumbent");
  CHECK(h.state(id) == "running");
  h.driver.close_breaker(kIncumbent, h.clock.now_us_);
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
}

TEST_CASE("an opening that cannot be stored is recorded with the next look, once") {
  Harness h;
  const auto id = in_canary(h);
  h.driver.open_breaker(kCandidate, h.clock.now_us_);
  h.committer->fail_at = h.committer->count;
  pass(h, 300);
  CHECK(changes(h).empty());
  pass(h, 800);
  CHECK(changes(h).size() == 1);
  CHECK(h.driver.share("m") == 0);
  CHECK(h.state(id) == "rejected");
}

TEST_CASE("a rollback that cannot be recorded takes the traffic away all the same") {
  Harness h;
  const auto id = in_canary(h);
  h.driver.open_breaker(kCandidate, h.clock.now_us_);
  pass(h, 300);
  h.committer->fail_at = h.committer->count;
  pass(h, 1'000);
  CHECK(h.driver.share("m") == 0);
  CHECK(h.run_until(id, {"rejected", "succeeded", "errored"}) == "rejected");
}

TEST_CASE("an engine of no route is recorded without a model") {
  Harness h;
  h.set_up();
  h.driver.open_breaker("http://127.0.0.1:99", h.clock.now_us_);
  pass(h, 300);
  REQUIRE(changes(h).size() == 1);
  CHECK(changes(h)[0]["body"]["arm"] == "none");
  CHECK_FALSE(changes(h)[0]["subject"].contains("model"));
}
