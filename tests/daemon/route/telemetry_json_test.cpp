#include "daemon/route/control/telemetry_json.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

using namespace driftgate::route;

namespace {

Window sample_window() {
  Window window;
  window.number = 3;
  window.router_id = "ab";
  window.model = "m";
  window.stage_key = "p/canary/1";
  window.start_us = 5;
  window.end_us = 9;
  window.dropped = 1;
  window.mirrored = 2;
  window.mirror_failed = 3;
  window.mirror_skipped = 4;
  window.others = 6;
  window.others_failed = 5;
  Observation seen;
  seen.order = std::numeric_limits<std::uint64_t>::max();
  seen.key_hash = std::numeric_limits<std::uint64_t>::max() - 1;
  seen.keyless = seen.retried = seen.withheld = true;
  seen.candidate_bp = 10'000;
  seen.slice = "a=\"b\"";
  seen.outcome = Outcome::failed;
  seen.reason = "status_500";
  seen.routed_us = 1'700'000'000'000'000;
  seen.ttft_ms = 0.1;
  seen.inter_token_ms = std::nan("");
  seen.total_ms = 7200000.125;
  seen.prompt_chars = 77;
  window.observations = {seen, Observation{}};
  return window;
}

}  // namespace

TEST_CASE("windows survive the trip through JSON text bit for bit") {
  const auto window = sample_window();
  const auto back = window_from_json(nlohmann::json::parse(window_to_text(window)));
  REQUIRE(back);
  CHECK(back->number == 3);
  CHECK(back->stage_key == window.stage_key);
  CHECK(back->dropped == 1);
  CHECK(back->mirror_skipped == 4);
  CHECK(back->others == 6);
  CHECK(back->others_failed == 5);
  REQUIRE(back->observations.size() == 2);
  const auto& a = window.observations[0];
  const auto& b = back->observations[0];
  CHECK(b.order == a.order);
  CHECK(b.key_hash == a.key_hash);
  CHECK(b.keyless);
  CHECK(b.retried);
  CHECK(b.withheld);
  CHECK_FALSE(back->observations[1].withheld);
  CHECK_FALSE(b.pinned);
  CHECK_FALSE(b.candidate);
  CHECK(b.slice == a.slice);
  CHECK(b.outcome == Outcome::failed);
  CHECK(b.reason == a.reason);
  CHECK(b.ttft_ms == a.ttft_ms);
  CHECK(std::isnan(b.inter_token_ms));
  CHECK(b.total_ms == a.total_ms);
  CHECK(b.prompt_chars == 77);
}

TEST_CASE("every truncation of a window is refused") {
  const auto text = window_to_text(sample_window());
  for (std::size_t size = 0; size < text.size(); ++size) {
    CHECK(nlohmann::json::parse(text.substr(0, size), nullptr, false).is_discarded());
  }
}

TEST_CASE("observations that point nowhere or have another shape are refused") {
  const auto good = nlohmann::json::parse(window_to_text(sample_window()));
  REQUIRE(window_from_json(good));
  for (std::size_t i = 0; i < 12; ++i) {
    CAPTURE(i);
    auto json = good;
    json["observations"][0][i] = "x";
    CHECK_FALSE(window_from_json(json));
  }
  for (const std::size_t i : {4u, 5u, 6u}) {
    auto json = good;
    json["observations"][0][i] = 99;
    CHECK_FALSE(window_from_json(json));
  }
  auto json = good;
  json["observations"][0].erase(0);
  CHECK_FALSE(window_from_json(json));
}

TEST_CASE("a window of the most observations fits a frame") {
  Window window;
  window.observations.resize(kMaxObservations);
  for (auto& seen : window.observations) {
    seen.order = seen.key_hash = std::numeric_limits<std::uint64_t>::max();
    seen.routed_us = std::numeric_limits<std::int64_t>::max();
    seen.ttft_ms = seen.inter_token_ms = seen.total_ms = 12345.678901234567;
  }
  CHECK(window_to_text(window).size() < 12u << 20);
}

namespace {

HealthReport sample_report() {
  HealthReport report;
  report.router_id = "ab";
  EngineStatus well;
  well.url = "http://127.0.0.1:1";
  well.first_byte_ms = 600;
  EngineStatus ill;
  ill.url = "http://127.0.0.1:2";
  ill.state = BreakerState::half_open;
  ill.failures = 4;
  ill.reason = "first_byte";
  ill.first_failure_us = 1'700'000'000'000'000;
  ill.open_ms = 1'234;
  ill.in_flight = 2;
  report.engines = {well, ill};
  BreakerEvent opened;
  opened.number = 7;
  opened.url = ill.url;
  opened.opened = true;
  opened.reason = "connect";
  opened.failures = 3;
  opened.at_us = 1'700'000'000'000'001;
  BreakerEvent closed = opened;
  closed.number = 9;
  closed.opened = false;
  closed.open_ms = 55;
  report.events = {opened, closed};
  return report;
}

}  // namespace

TEST_CASE("reports of health survive the trip") {
  const auto text = to_json(sample_report()).dump();
  const auto back = health_from_json(nlohmann::json::parse(text));
  REQUIRE(back);
  CHECK(to_json(*back).dump() == text);
  REQUIRE(back->engines.size() == 2);
  CHECK(back->engines[1].state == BreakerState::half_open);
  CHECK(back->engines[1].open_ms == 1'234);
  CHECK(back->engines[1].in_flight == 2);
  REQUIRE(back->events.size() == 2);
  CHECK(back->events[0].opened);
  CHECK(back->events[1].number == 9);
}

TEST_CASE("reports of health that are not as a router writes them are refused") {
  const auto good = to_json(sample_report());
  const auto refused = [&](auto change) {
    auto json = good;
    change(json);
    return !health_from_json(json);
  };
  using Json = nlohmann::json;
  CHECK_FALSE(refused([](Json&) {}));
  for (const char* member : {"router_id", "engines", "events"}) {
    CAPTURE(member);
    CHECK(refused([&](Json& json) { json.erase(member); }));
    CHECK(refused([&](Json& json) { json[member] = 7; }));
  }
  CHECK(refused([](Json& json) { json["more"] = 1; }));
  CHECK(refused([](Json& json) { json["engines"][0]["state"] = "ajar"; }));
  CHECK(refused([](Json& json) { json["engines"][0].erase("state"); }));
  CHECK(refused([](Json& json) { json["engines"][0]["open_ms"] = -1; }));
  CHECK(refused([](Json& json) { json["engines"][0] = 1; }));
  CHECK(refused([](Json& json) { json["events"][0]["failures"] = std::uint64_t{1} << 32; }));
  CHECK(refused([](Json& json) { json["events"][0]["opened"] = "yes"; }));
  CHECK(refused([](Json& json) { json["events"][0]["later"] = 1; }));
  CHECK(refused([](Json& json) { json["events"][1]["number"] = 7; }));
  CHECK(refused([](Json& json) { json["events"][1]["reason"] = std::string(kMaxReasonBytes + 1, 'x'); }));
  CHECK(refused([](Json& json) { json["engines"][1]["reason"] = std::string(kMaxReasonBytes + 1, 'x'); }));
  CHECK(refused([](Json& json) {
    for (std::size_t i = 0; i <= kMaxBreakerEvents; ++i) {
      json["events"].push_back(json["events"][0]);
      json["events"].back()["number"] = 10 + i;
    }
  }));
  CHECK(refused([](Json& json) {
    while (json["engines"].size() <= kMaxReportedEngines) json["engines"].push_back(json["engines"][0]);
  }));
}

TEST_CASE("pairs survive the trip, and bytes that are no text do not break the line") {
  MirroredPair pair;
  pair.order = 4;
  pair.slice = "a=b";
  pair.path = "/v1/completions";
  pair.request_body = "{\"a\":\"\\n\"}";
  pair.incumbent = {200, "line\nline", "", 1.5, std::nan(""), 3};
  pair.candidate = {0, "\xff\xfe", "connect", 0, 0, 0};
  const auto line = pair_to_line(pair);
  CHECK(line.find('\n') == std::string::npos);
  const auto back = pair_from_line(line);
  REQUIRE(back);
  CHECK(back->request_body == pair.request_body);
  CHECK(back->incumbent.body == "line\nline");
  CHECK(back->incumbent.ttft_ms == 1.5);
  CHECK(std::isnan(back->incumbent.inter_token_ms));
  CHECK(back->candidate.reason == "connect");
  CHECK(back->candidate.body == "\xef\xbf\xbd\xef\xbf\xbd");
  for (std::size_t size = 0; size < line.size(); ++size) CHECK_FALSE(pair_from_line(line.substr(0, size)));
}
