#include "daemon/pipeline/machine/guard_ladder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/pipeline/machine/routes.hpp"
#include "daemon/route/table/route_table.hpp"

namespace driftgate::pipeline::machine {
namespace {

using schema::Action;

GuardTry try_rollback(const GuardFacts& facts) {
  if (facts.previous.empty()) return {GuardAction::rollback, false, "no version served before this one"};
  if (!facts.previous_refused.empty()) return {GuardAction::rollback, false, facts.previous_refused};
  return {GuardAction::rollback, true, facts.previous_text};
}

GuardTry try_fallback(const GuardOrder& order, const GuardFacts& facts, GuardAction action) {
  if (action == GuardAction::route_slice && order.slices.size() > route::kMaxRouteSlices)
    return {action, false, fmt::format("a route has at most {} slices", route::kMaxRouteSlices)};
  return {action, facts.fallback.enough, facts.fallback.text};
}

}  // namespace

std::string_view to_string(GuardAction action) {
  switch (action) {
    case GuardAction::hold:
      return "hold";
    case GuardAction::route_slice:
      return "route_slice";
    case GuardAction::fallback:
      return "fallback";
    case GuardAction::rollback:
      return "rollback";
  }
  return "hold";
}

GuardChoice choose(const GuardOrder& order, const GuardFacts& facts) {
  std::vector<GuardTry> tries;
  if (order.action >= Action::rollback) {
    tries = {try_rollback(facts), try_fallback(order, facts, GuardAction::fallback)};
  } else {
    const auto away = order.action == Action::route_slice ? GuardAction::route_slice : GuardAction::fallback;
    tries = {try_fallback(order, facts, away), try_rollback(facts)};
  }
  tries.push_back(
      {GuardAction::hold, true, "people are told, and nothing is promoted until they lift the hold"});
  GuardChoice choice;
  for (const GuardTry& one : tries) {
    choice.tried.push_back(one);
    if (!one.possible) continue;
    choice.action = one.action;
    break;
  }
  return choice;
}

std::string reason_of(const GuardOrder& order, const GuardChoice& choice) {
  std::string text = fmt::format("the guard: {}", order.reason);
  for (const GuardTry& one : choice.tried) {
    if (one.possible) continue;
    text += fmt::format("{} {} is not possible: {}.", text.ends_with('.') ? "" : ".", to_string(one.action),
                        one.reason);
  }
  return text;
}

Change send_away(const Facts& served, const GuardOrder& order, GuardAction action,
                 const std::string& reason) {
  Change change{.name = "guard", .hold = reason};
  if (action == GuardAction::hold) return change;
  auto route = next_route(*served.model);
  route.fallback = arm(served.live.fallback);
  if (action == GuardAction::fallback) {
    route.all_to_fallback = true;
  } else {
    for (const auto& where : order.slices) {
      const bool there = std::ranges::any_of(route.slices, [&](const route::SliceWeight& weight) {
        return weight.where == where && weight.to_fallback;
      });
      if (!there) route.slices.push_back({where, 0, true});
    }
  }
  set_route(change, std::move(route), reason);
  change.route->of_stage = false;
  return change;
}

Change take_back_from_fallback(const Facts& served, const GuardOrders& orders, const std::string& actor,
                               const std::string& reason) {
  Change change{.name = "guard gives back", .actor = actor};
  auto route = next_route(*served.model);
  if (orders.all_away) route.all_to_fallback = false;
  std::erase_if(route.slices, [&](const route::SliceWeight& weight) {
    return weight.to_fallback && std::ranges::find(orders.away, weight.where) != orders.away.end();
  });
  const bool used =
      route.all_to_fallback || std::ranges::any_of(route.slices, &route::SliceWeight::to_fallback);
  if (!used) route.fallback.reset();
  set_route(change, std::move(route), reason);
  change.route->of_stage = false;
  return change;
}

}  // namespace driftgate::pipeline::machine
