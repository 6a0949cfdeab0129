#include "daemon/pipeline/machine/guard_ladder.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "daemon/pipeline/guard/guards.hpp"
#include "daemon/pipeline/machine/routes.hpp"
#include "daemon/route/table/route_table.hpp"

// What an alarm of a guard comes to, as a table. Nothing here has a store.

using namespace driftgate;
using namespace driftgate::pipeline;
using machine::GuardAction;
using schema::Action;

namespace {

const schema::SliceWhere kGerman = {{"language", "de"}};
const schema::SliceWhere kFrench = {{"language", "fr"}};

GuardOrder order(Action action, std::vector<schema::SliceWhere> slices = {}) {
  return {.action = action,
          .what = "traffic",
          .clause = "runtime.errors",
          .slices = std::move(slices),
          .rule = "escalation.defaults.hard",
          .reason = "users see failures"};
}

machine::GuardFacts facts(bool previous, bool fallback) {
  machine::GuardFacts found;
  found.previous = "old";
  found.previous_refused = previous ? "" : "engine old is not healthy: it answered 503";
  found.previous_text = "engine old is healthy; no golden prompts of it are known";
  found.fallback.enough = fallback;
  found.fallback.text =
      fallback ? "the fallback engine safe is healthy" : "the promotion has no fallback engine";
  return found;
}

/// What was looked at, in order: "rollback no, fallback yes".
std::string tried(const machine::GuardChoice& choice) {
  std::string text;
  for (const auto& one : choice.tried) {
    text += (text.empty() ? "" : ", ") + std::string(machine::to_string(one.action)) +
            (one.possible ? " yes" : " no");
  }
  return text;
}

/// The promotion whose version is guarded, and its model.
struct Served {
  Live live;
  ModelState model;
  Settings settings;

  Served() {
    live.row.id = "pr-1";
    live.row.model = "m";
    live.candidate = {.id = "ve-new", .kernel = "k-inf", .base_url = "http://127.0.0.1:1"};
    live.fallback = {.id = "ve-safe", .kernel = "k-safe", .base_url = "http://127.0.0.1:2"};
    model.epoch = model.desired.epoch = 7;
    model.desired.model = "m";
    model.desired.revision = 3;
    model.desired.incumbent = machine::arm(live.candidate);
  }
  [[nodiscard]] Facts facts() const { return {live, &model, 1'000, settings}; }
};

}  // namespace

TEST_CASE("the ordered action is taken where it is possible, else the next one, else people are told") {
  struct Row {
    Action ordered;
    bool previous, fallback;
    GuardAction action;
    const char* tried;
  };
  const Row rows[] = {
      {Action::rollback, true, true, GuardAction::rollback, "rollback yes"},
      {Action::block, true, false, GuardAction::rollback, "rollback yes"},
      {Action::rollback, false, true, GuardAction::fallback, "rollback no, fallback yes"},
      {Action::rollback, false, false, GuardAction::hold, "rollback no, fallback no, hold yes"},
      {Action::fallback, true, true, GuardAction::fallback, "fallback yes"},
      {Action::fallback, true, false, GuardAction::rollback, "fallback no, rollback yes"},
      {Action::fallback, false, false, GuardAction::hold, "fallback no, rollback no, hold yes"},
      {Action::route_slice, true, true, GuardAction::route_slice, "route_slice yes"},
      {Action::route_slice, true, false, GuardAction::rollback, "route_slice no, rollback yes"},
  };
  for (const Row& row : rows) {
    CAPTURE(schema::to_string(row.ordered));
    CAPTURE(row.tried);
    const auto choice = machine::choose(order(row.ordered, {kGerman}), facts(row.previous, row.fallback));
    CHECK(choice.action == row.action);
    CHECK(tried(choice) == row.tried);
  }
}

TEST_CASE("without a version before there is nothing to go back to") {
  auto found = facts(true, false);
  found.previous.clear();
  const auto choice = machine::choose(order(Action::rollback), found);
  CHECK(choice.action == GuardAction::hold);
  CHECK(choice.tried.at(0).reason == "no version served before this one");
}

TEST_CASE("more slices than a route can hold are not sent away one by one") {
  const std::vector<schema::SliceWhere> many(route::kMaxRouteSlices + 1, kGerman);
  const auto choice = machine::choose(order(Action::route_slice, many), facts(true, true));
  CHECK(tried(choice) == "route_slice no, rollback yes");
}

TEST_CASE("the reason says what was found, and why not what was ordered") {
  const auto ordered = order(Action::rollback);
  CHECK(machine::reason_of(ordered, machine::choose(ordered, facts(true, true))) ==
        "the guard: users see failures");
  CHECK(
      machine::reason_of(ordered, machine::choose(ordered, facts(false, true))) ==
      "the guard: users see failures. rollback is not possible: engine old is not healthy: it answered 503.");
}

TEST_CASE("traffic goes to the fallback kernel with a hold, and a hold alone changes no route") {
  const Served served;
  const auto all = machine::send_away(served.facts(), order(Action::fallback), GuardAction::fallback, "why");
  REQUIRE(all.route);
  CHECK(all.hold == "why");
  CHECK(all.route->route.all_to_fallback);
  REQUIRE(all.route->route.fallback);
  CHECK(all.route->route.fallback->version == "ve-safe");
  CHECK(all.route->route.revision == 4);
  CHECK(all.route->route.incumbent.version == "ve-new");
  CHECK(route::validate_route(all.route->route).has_value());
  CHECK_FALSE(all.incumbent);
  const auto held = machine::send_away(served.facts(), order(Action::rollback), GuardAction::hold, "why");
  CHECK(held.hold == "why");
  CHECK_FALSE(held.route);
}

TEST_CASE("slices go to the fallback kernel once, and only what the guard sent comes back") {
  Served served;
  const auto german = order(Action::route_slice, {kGerman});
  const auto first = machine::send_away(served.facts(), german, GuardAction::route_slice, "why");
  REQUIRE(first.route);
  CHECK(first.route->route.slices.size() == 1);
  served.model.desired = first.route->route;
  const auto both = order(Action::route_slice, {kGerman, kFrench});
  const auto second = machine::send_away(served.facts(), both, GuardAction::route_slice, "why");
  REQUIRE(second.route);
  CHECK(second.route->route.slices.size() == 2);
  served.model.desired = second.route->route;

  GuardOrders some;
  some.away = {kFrench};
  const auto rest = machine::take_back_from_fallback(served.facts(), some, "olga", "mended");
  REQUIRE(rest.route);
  REQUIRE(rest.route->route.slices.size() == 1);
  CHECK(rest.route->route.slices[0].where == kGerman);
  CHECK(rest.route->route.fallback.has_value());
  CHECK_FALSE(rest.hold);

  GuardOrders sent;
  sent.away = {kGerman, kFrench};
  const auto none = machine::take_back_from_fallback(served.facts(), sent, "olga", "mended");
  REQUIRE(none.route);
  CHECK(none.route->route.slices.empty());
  CHECK_FALSE(none.route->route.fallback.has_value());
  CHECK(none.actor == "olga");
}

TEST_CASE("orders come back from the store as they were written") {
  GuardOrders orders;
  orders.pending = order(Action::route_slice, {kGerman});
  orders.all_away = true;
  orders.away = {kFrench};
  const auto read = guard_orders_from_json(to_json(orders));
  REQUIRE(read);
  REQUIRE(read->pending);
  CHECK(read->pending->action == Action::route_slice);
  CHECK(read->pending->slices == orders.pending->slices);
  CHECK(read->pending->clause == "runtime.errors");
  CHECK(read->pending->reason == "users see failures");
  CHECK(read->all_away);
  CHECK(read->away == orders.away);
  CHECK_FALSE(guard_orders_from_json("")->sent_away());
}

TEST_CASE("what is stored of a guard and damaged is refused") {
  for (const char* text : {"{", "[]", R"({"all_away":1,"away":[]})", R"({"all_away":true})",
                           R"({"all_away":false,"away":[],"pending":{"action":99,"what":"","clause":"",)"
                           R"("slices":[],"rule":"","reason":""}})"}) {
    CAPTURE(text);
    const auto orders = guard_orders_from_json(text);
    REQUIRE_FALSE(orders);
    CHECK(orders.error().code == schema::ErrorCode::corrupt);
  }
  CHECK(guard_probes_from_json(R"({"prompts":[]})").error().code == schema::ErrorCode::corrupt);
  CHECK(guard_identity_from_json(R"({"newest_us":0,"promoted":{"a":1}})").error().code ==
        schema::ErrorCode::corrupt);
}

TEST_CASE("the watch over an identity comes back from the store as it was") {
  GuardIdentity identity;
  CHECK(guard_identity_from_json(to_json(identity))->watch.has_value() == false);
  identity.first = stages::Identity{{"version.version", "1"}};
  CHECK(guard_identity_from_json(to_json(identity))->first == identity.first);
  identity.first.reset();
  identity.watch.emplace(stages::Identity{{"version.version", "1"}});
  const stages::Identity other{{"version.version", "2"}};
  CHECK(identity.watch->observe(other).empty());
  identity.newest_us = 9;
  auto read = guard_identity_from_json(to_json(identity));
  REQUIRE(read);
  REQUIRE(read->watch);
  CHECK(read->newest_us == 9);
  CHECK(read->watch->last() == identity.watch->last());
  // The second look in a row tells: the first one was before it was stored.
  CHECK(read->watch->observe(other).size() == 1);
}

TEST_CASE("a list that is too long for an entry keeps what has room") {
  using schema::EntryValue;
  const EntryValue::Array few(3, EntryValue("a"));
  CHECK(what_fits(few).size() == 3);
  const EntryValue::Array many(1'000, EntryValue::Object{{"name", std::string(200, '\x01')}});
  const auto fits = what_fits(many);
  CHECK(fits.size() > 20);
  const auto written = schema::write_canonical(EntryValue(fits));
  REQUIRE(written);
  CHECK(written->size() < schema::kMaxEntryBytes * 3 / 4);
}
