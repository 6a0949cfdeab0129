#include "daemon/route/worker/ledger.hpp"

#include <doctest/doctest.h>

using namespace driftgate::route;

namespace {

const Ledger::Time kNow{std::chrono::hours(1)};
constexpr std::chrono::seconds kDeadline{10};

Ledger::Ticket route_one(Ledger& ledger, const char* model = "m", const char* stage = "s") {
  Observation seen;
  seen.candidate_bp = 100;
  seen.slice = "a=b";
  return ledger.begin(model, stage, std::move(seen), kNow + kDeadline);
}

std::vector<std::shared_ptr<const Window>> closed(Ledger& ledger, Ledger::Time now = kNow) {
  ledger.close_windows({}, 1'000, now);
  return ledger.windows(0, 1'000);
}

}  // namespace

TEST_CASE("observations wait for every request routed before them") {
  Ledger ledger("r");
  const auto first = route_one(ledger);
  const auto second = route_one(ledger);
  ledger.finish(second, {.outcome = Outcome::failed, .reason = "connect"}, kNow);
  CHECK(closed(ledger).empty());
  ledger.finish(first, {}, kNow);
  const auto windows = closed(ledger);
  REQUIRE(windows.size() == 1);
  REQUIRE(windows[0]->observations.size() == 2);
  CHECK(windows[0]->observations[0].order == 1);
  CHECK(windows[0]->observations[1].order == 2);
  CHECK(windows[0]->observations[1].reason == "connect");
}

TEST_CASE("a request of one model does not hold back another model") {
  Ledger ledger("r");
  const auto slow = route_one(ledger, "slow");
  ledger.finish(route_one(ledger, "quick"), {}, kNow);
  CHECK(closed(ledger).size() == 1);
  ledger.finish(slow, {}, kNow);
}

TEST_CASE("a request that never ends is a timeout once its deadline is past, and its late end is ignored") {
  Ledger ledger("r");
  const auto lost = route_one(ledger);
  ledger.finish(route_one(ledger), {}, kNow);
  CHECK(closed(ledger, kNow + kDeadline).empty());
  const auto windows = closed(ledger, kNow + kDeadline + std::chrono::seconds(3));
  REQUIRE(windows.size() == 1);
  CHECK(windows[0]->observations[0].outcome == Outcome::failed);
  CHECK(windows[0]->observations[0].reason == "timeout");
  CHECK(windows[0]->observations[1].outcome == Outcome::ok);
  ledger.finish(lost, {}, kNow);
  CHECK(closed(ledger).size() == 1);
}

TEST_CASE(
    "an answer that outlives its deadline holds nothing back, is no timeout, and is reported when it ends") {
  Ledger ledger("r");
  const auto stream = route_one(ledger);
  Ledger::outlive(stream);
  ledger.finish(route_one(ledger), {}, kNow);
  CHECK(closed(ledger, kNow + kDeadline).empty());
  const auto later = kNow + kDeadline + std::chrono::seconds(3);
  auto windows = closed(ledger, later);
  REQUIRE(windows.size() == 1);
  REQUIRE(windows[0]->observations.size() == 1);
  CHECK(windows[0]->observations[0].order == 2);
  ledger.finish(stream, {.outcome = Outcome::failed, .reason = "stalled"}, later);
  windows = closed(ledger, later);
  REQUIRE(windows.size() == 2);
  REQUIRE(windows[1]->observations.size() == 1);
  CHECK(windows[1]->observations[0].order == 1);
  CHECK(windows[1]->observations[0].reason == "stalled");
  CHECK(windows[1]->observations[0].routed_us == 1'000);  // of the window before: times do not go back
  ledger.finish(stream, {}, later);
  CHECK(closed(ledger, later).size() == 2);
}

TEST_CASE("an answer that may outlive its deadline and does not is reported in its place") {
  Ledger ledger("r");
  const auto stream = route_one(ledger);
  Ledger::outlive(stream);
  ledger.finish(route_one(ledger), {}, kNow);
  ledger.finish(stream, {}, kNow);
  const auto windows = closed(ledger);
  REQUIRE(windows.size() == 1);
  CHECK(windows[0]->observations[0].order == 1);
  CHECK(windows[0]->observations[1].order == 2);
}

TEST_CASE("windows are split at a change of stage, in order, with counts of late mirrors at their stage") {
  Ledger ledger("r");
  const auto old_stage = route_one(ledger, "m", "shadow");
  const auto new_stage = route_one(ledger, "m", "canary");
  ledger.finish(new_stage, {}, kNow);
  ledger.finish(old_stage, {}, kNow);
  ledger.count_mirror("m", "shadow", MirrorEnd::written);
  ledger.count_mirror("m", "shadow", MirrorEnd::failed);
  ledger.count_mirror("m", "shadow", MirrorEnd::skipped);
  const auto windows = closed(ledger);
  REQUIRE(windows.size() == 2);
  CHECK(windows[0]->stage_key == "shadow");
  CHECK(windows[0]->mirrored == 2);
  CHECK(windows[0]->mirror_failed == 1);
  CHECK(windows[0]->mirror_skipped == 1);
  CHECK(windows[0]->observations.size() == 1);
  CHECK(windows[1]->stage_key == "canary");
  CHECK(windows[1]->number == 2);
}

TEST_CASE("models with a route get empty windows with contiguous times") {
  Ledger ledger("r");
  ledger.close_windows({{"m", "s"}}, 1'000, kNow);
  ledger.close_windows({{"m", "s"}}, 2'000, kNow);
  const auto windows = ledger.windows(0, 10);
  REQUIRE(windows.size() == 2);
  CHECK(windows[1]->start_us == 1'000);
  CHECK(windows[1]->end_us == 2'000);
  CHECK(windows[1]->observations.empty());
}

TEST_CASE("windows stay until acknowledged and can be asked for again") {
  Ledger ledger("r");
  for (int i = 0; i < 3; ++i) ledger.close_windows({{"m", "s"}}, 1'000 + i, kNow);
  CHECK(ledger.windows(0, 10).size() == 3);
  CHECK(ledger.windows(1, 1).front()->number == 2);
  ledger.acknowledge(2);
  ledger.acknowledge(2);
  REQUIRE(ledger.windows(0, 10).size() == 1);
  CHECK(ledger.windows(0, 10).front()->number == 3);
  CHECK(ledger.windows(3, 10).empty());
}

TEST_CASE("a number that was never issued acknowledges nothing") {
  Ledger ledger("r");
  ledger.close_windows({{"m", "s"}}, 1'000, kNow);
  ledger.acknowledge(500);
  CHECK(ledger.windows(0, 10).size() == 1);
}

TEST_CASE("when too many windows are kept the oldest go and their observations are counted as dropped") {
  Ledger ledger("r", {.windows = 2});
  for (int i = 0; i < 4; ++i) {
    ledger.finish(route_one(ledger), {}, kNow);
    ledger.close_windows({}, 1'000, kNow);
  }
  const auto windows = ledger.windows(0, 10);
  REQUIRE(windows.size() == 2);
  CHECK(windows[0]->number == 3);
  CHECK(windows[1]->dropped == 1);
}

TEST_CASE("each model has its own limit of windows, and each window names the one before of its model") {
  Ledger ledger("r", {.windows = 2});
  ledger.finish(route_one(ledger, "quiet"), {}, kNow);
  ledger.close_windows({}, 1'000, kNow);
  for (int i = 0; i < 5; ++i) {
    ledger.finish(route_one(ledger, "busy"), {}, kNow);
    ledger.close_windows({}, 2'000 + i, kNow);
  }
  const auto windows = ledger.windows(0, 10);
  REQUIRE(windows.size() == 3);
  CHECK(windows[0]->model == "quiet");
  CHECK(windows[0]->previous == 0);
  CHECK(windows[0]->observations.size() == 1);
  CHECK(windows[1]->number == 5);
  CHECK(windows[1]->previous == 4);
  CHECK(windows[2]->previous == 5);
}

TEST_CASE("over the limit of observations the model that keeps most of them loses its oldest") {
  Ledger ledger("r", {.kept_observations = 5});
  ledger.finish(route_one(ledger, "quiet"), {}, kNow);
  ledger.close_windows({}, 1'000, kNow);
  for (int i = 0; i < 6; ++i) {
    ledger.finish(route_one(ledger, "busy"), {}, kNow);
    ledger.close_windows({}, 2'000 + i, kNow);
  }
  const auto windows = ledger.windows(0, 10);
  REQUIRE(windows.size() == 5);
  CHECK(windows[0]->model == "quiet");
  CHECK(windows[1]->number == 4);
}

TEST_CASE("every observation is either in a window or counted as dropped") {
  Ledger ledger("r", {.windows = 3, .kept_observations = 5, .held_back = 4, .window_observations = 2});
  std::uint64_t routed = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<Ledger::Ticket> tickets;
    for (int i = 0; i < 6; ++i, ++routed) tickets.push_back(route_one(ledger));
    for (const auto& ticket : tickets) ledger.finish(ticket, {}, kNow);
    ledger.close_windows({}, 1'000 + round, kNow);
  }
  std::uint64_t kept = 0;
  std::uint64_t dropped = 0;
  CHECK(ledger.windows(0, 100).size() <= 3);
  // What is dropped after the newest window closed is told by the next one, hence two rounds.
  for (int round = 0; round < 2; ++round) {
    for (const auto& window : ledger.windows(0, 100)) {
      kept += window->observations.size();
      dropped += window->dropped;
      CHECK(window->observations.size() <= 2);
      ledger.acknowledge(window->number);
    }
    ledger.close_windows({{"m", "s"}}, 2'000 + round, kNow);
  }
  CHECK(kept + dropped == routed);
}

TEST_CASE("a window that grows too large for a frame is closed early") {
  Ledger ledger("r", {.window_bytes = 1'000});
  for (int i = 0; i < 20; ++i) ledger.finish(route_one(ledger), {}, kNow);
  const auto windows = closed(ledger);
  CHECK(windows.size() > 2);
  std::size_t total = 0;
  for (const auto& window : windows) total += window->observations.size();
  CHECK(total == 20);
}

TEST_CASE("models at rest have no empty windows, but for one that says that telemetry comes") {
  Ledger ledger("r");
  const std::vector<std::pair<std::string, std::string>> at_rest{{"a", ""}, {"b", ""}, {"c", ""}};
  ledger.close_windows(at_rest, 1'000, kNow);
  REQUIRE(ledger.windows(0, 10).size() == 1);
  CHECK(ledger.windows(0, 10)[0]->model == "a");
  ledger.finish(route_one(ledger, "b", ""), {}, kNow);
  ledger.close_windows(at_rest, 2'000, kNow);
  auto windows = ledger.windows(1, 10);
  REQUIRE(windows.size() == 1);
  CHECK(windows[0]->model == "b");
  CHECK(windows[0]->start_us == 1'000);
  ledger.close_windows({{"a", ""}, {"b", "s"}, {"c", ""}}, 3'000, kNow);
  windows = ledger.windows(2, 10);
  REQUIRE(windows.size() == 1);
  CHECK(windows[0]->model == "b");
  CHECK(windows[0]->stage_key == "s");
}

TEST_CASE("over the limit of all windows the model that keeps most of them loses its oldest") {
  Ledger ledger("r", {.all_windows = 4});
  ledger.finish(route_one(ledger, "quiet"), {}, kNow);
  ledger.close_windows({}, 1'000, kNow);
  for (int i = 0; i < 6; ++i) {
    ledger.finish(route_one(ledger, "busy"), {}, kNow);
    ledger.close_windows({}, 2'000 + i, kNow);
  }
  const auto windows = ledger.windows(0, 10);
  REQUIRE(windows.size() == 4);
  CHECK(windows[0]->model == "quiet");
  CHECK(windows[0]->dropped == 0);
  CHECK(windows[1]->number == 5);
  CHECK(windows[3]->dropped == 1);
}

TEST_CASE("windows of one model are forgotten behind one of another that is not acknowledged, and not as lost") {
  Ledger ledger("r", {.kept_observations = 2});
  ledger.finish(route_one(ledger, "stuck"), {}, kNow);
  closed(ledger);
  for (int i = 0; i < 5; ++i) {
    ledger.finish(route_one(ledger, "m"), {}, kNow);
    const auto windows = closed(ledger);
    REQUIRE(windows.size() == 2);
    CHECK(windows[0]->model == "stuck");
    CHECK(windows[1]->model == "m");
    CHECK(windows[1]->dropped == 0);
    ledger.acknowledge("m", windows[1]->number);
    ledger.acknowledge("m", 1'000);  // never issued
    ledger.acknowledge("nobody", 1);
    CHECK(ledger.windows(0, 10).size() == 1);
  }
  ledger.acknowledge(6);
  CHECK(ledger.windows(0, 10).empty());
}
