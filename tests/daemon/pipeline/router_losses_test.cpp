#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "daemon/store/promotions/router_windows.hpp"
#include "tests/daemon/pipeline/harness.hpp"

using namespace driftgate;
using driftgate::pipeline::fakes::Harness;

namespace {

/// A router that died with three requests of the candidate and one of the incumbent in flight, after window
/// `newest` of model "m".
route::RouterLoss loss_of(const std::string& router, std::uint64_t newest) {
  route::RouterLoss loss;
  loss.why = "hung";
  loss.reason = "event loop 1 of 1 has not moved for 1000 ms (state T)";
  loss.pid = 17;
  loss.router_id = router;
  loss.replacement_pid = 18;
  loss.replacement_id = "router-2";
  loss.down_ms = 1'100;
  loss.unread = 2;
  loss.page.emplace();
  loss.page->connections = 9;
  loss.page->models.push_back({"m", {1, 3, 0}, 2, newest, 40, 7});
  return loss;
}

std::uint64_t newest_window(const Harness& h) {
  const auto found =
      h.store->read([](store::Reader& reader) { return store::window_watermark(reader, "router-1"); });
  REQUIRE(found.has_value());
  return *found;
}

}  // namespace

TEST_CASE("what went with a router is an entry: why, requests by model and arm, telemetry not consumed") {
  Harness h;
  h.set_up();
  h.second();
  h.second();
  const auto consumed = newest_window(h);
  REQUIRE(consumed > 0);
  int recorded = 0;
  h.pipeline->router_replaced(loss_of("router-1", consumed + 2), [&] { ++recorded; });
  CHECK(recorded == 1);
  const auto entries = h.entries("", "router_replaced");
  REQUIRE(entries.size() == 1);
  const auto expected = nlohmann::json::parse(R"json({
    "why": "hung", "reason": "event loop 1 of 1 has not moved for 1000 ms (state T)", "router": "router-1",
    "pid": 17, "replacement": "router-2", "replacement_pid": 18, "down_ms": 1100, "connections": 9, "unread": 2,
    "broken": [{"model": "m", "arm": "incumbent", "requests": 1}, {"model": "m", "arm": "candidate", "requests": 3}],
    "lost": [{"model": "m", "windows": 3, "requests": 47}]})json");
  CHECK(entries[0]["body"] == expected);
}

TEST_CASE("windows that were consumed before the router went are not lost with it") {
  Harness h;
  h.set_up();
  h.second();
  h.pipeline->router_replaced(loss_of("router-1", newest_window(h)), {});
  const auto entries = h.entries("", "router_replaced");
  REQUIRE(entries.size() == 1);
  CHECK(entries[0]["body"]["lost"][0]["windows"] == 1);  // the one that was open
  CHECK(entries[0]["body"]["lost"][0]["requests"] == 7);
}

TEST_CASE("a router that was handed over and delivered everything has lost nothing") {
  Harness h;
  h.set_up();
  h.second();
  auto loss = loss_of("router-1", newest_window(h));
  loss.why = "handed_over";
  loss.page->models.front() = {"m", {0, 0, 0}, 0, newest_window(h), 0, 0};
  h.pipeline->router_replaced(loss, {});
  const auto entries = h.entries("", "router_replaced");
  REQUIRE(entries.size() == 1);
  CHECK(entries[0]["body"]["why"] == "handed_over");
  CHECK(entries[0]["body"]["broken"].empty());
  CHECK(entries[0]["body"]["lost"].empty());
}

TEST_CASE("a replacement is recorded once, though two daemons tell of it") {
  Harness h;
  h.set_up();
  h.pipeline->router_replaced(loss_of("router-1", 5), {});
  h.restart();
  int recorded = 0;
  h.pipeline->router_replaced(loss_of("router-1", 5), [&] { ++recorded; });
  CHECK(recorded == 1);
  CHECK(h.entries("", "router_replaced").size() == 1);
  h.pipeline->router_replaced(loss_of("router-2", 5), {});
  CHECK(h.entries("", "router_replaced").size() == 2);
}

TEST_CASE("a replacement that cannot be recorded yet is tried again, and its routes do not wait for that") {
  Harness h;
  h.set_up();
  h.second();
  h.driver.routes.clear();
  int recorded = 0;
  h.committer->fail_at = h.committer->count;
  h.pipeline->router_replaced(loss_of("router-1", 5), [&] { ++recorded; });
  CHECK(recorded == 0);
  CHECK(h.driver.routes.contains("m"));
  h.second();
  h.second();
  CHECK(recorded == 1);
  CHECK(h.entries("", "router_replaced").size() == 1);
}

TEST_CASE("an entry lists so many models that it keeps its size, and adds the others up") {
  Harness h;
  h.set_up();
  auto loss = loss_of("router-1", 5);
  loss.page->models.clear();
  for (int i = 0; i < 1'024; ++i) {
    const auto name = std::to_string(i) + std::string(250, 'x');
    loss.page->models.push_back({name, {1, 1, 1}, 1, 1, 1, 0});
  }
  h.pipeline->router_replaced(loss, {});
  const auto entries = h.entries("", "router_replaced");
  REQUIRE(entries.size() == 1);
  std::uint64_t broken = 0;
  for (const auto& item : entries[0]["body"]["broken"]) broken += item["requests"].get<std::uint64_t>();
  CHECK(broken == 3 * 1'024);
  CHECK(entries[0]["body"]["lost"].back()["model"] == "*");
}

TEST_CASE("a canary whose router was replaced goes on at its share and ends as undisturbed") {
  Harness h;
  h.set_up();
  const auto id = h.request();
  for (int i = 0; i < 300 && h.driver.share("m") != 5'000; ++i) {
    h.approve_if_asked(id);
    h.second();
  }
  REQUIRE(h.driver.share("m") == 5'000);
  // The next router hides the candidate, and knows of no window before its own.
  for (auto& [name, held] : h.driver.routes) held.reverted = true;
  h.driver.closed.clear();
  h.driver.last_number.clear();
  h.driver.router_id = "router-2";
  auto loss = loss_of("router-1", newest_window(h) + 1);
  h.pipeline->router_replaced(loss, {});
  CHECK(h.driver.share("m") == 5'000);  // at once, not at the next heartbeat
  CHECK_FALSE(h.driver.routes.at("m").reverted);
  CHECK(h.run_until(id, {"succeeded", "rejected", "errored"}) == "succeeded");
  CHECK(h.entries("", "router_replaced").size() == 1);
  bool noted = false;
  for (const auto& entry : h.entries(id, "escalation_decided"))
    noted = noted || entry["body"]["reason"].get<std::string>().starts_with("another router process serves");
  CHECK(noted);
}
