#include "daemon/pipeline/guard/live_guard.hpp"

#include <nlohmann/json.hpp>

#include "stages/escalation.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::Action;

constexpr int kActions = static_cast<int>(Action::block) + 1;

std::unexpected<schema::Error> damaged(const char* what, const std::string& why) {
  return schema::fail(schema::ErrorCode::corrupt,
                      std::string("the stored ") + what + " of a guard are damaged: " + why);
}

json order_to_json(const GuardOrder& order) {
  return {{"action", static_cast<int>(order.action)},
          {"what", order.what},
          {"clause", order.clause},
          {"slices", order.slices},
          {"rule", order.rule},
          {"reason", order.reason}};
}

std::optional<GuardOrder> order_from_json(const json& value) {
  const int action = value.at("action").get<int>();
  if (action < 0 || action >= kActions) return std::nullopt;
  GuardOrder order{.action = static_cast<Action>(action),
                   .what = value.at("what").get<std::string>(),
                   .clause = value.at("clause").get<std::string>(),
                   .slices = {},
                   .rule = value.at("rule").get<std::string>(),
                   .reason = value.at("reason").get<std::string>()};
  value.at("slices").get_to(order.slices);
  return order;
}

json changes_to_json(const std::vector<stages::IdentityChange>& changes) {
  json list = json::array();
  for (const auto& change : changes) list.push_back({change.name, change.promoted, change.now});
  return list;
}

std::vector<stages::IdentityChange> changes_from_json(const json& list) {
  std::vector<stages::IdentityChange> changes;
  for (const json& one : list) {
    changes.push_back(
        {one.at(0).get<std::string>(), one.at(1).get<std::string>(), one.at(2).get<std::string>()});
  }
  return changes;
}

}  // namespace

std::string to_json(const GuardOrders& orders) {
  json value{{"all_away", orders.all_away}, {"away", orders.away}};
  if (orders.pending) value["pending"] = order_to_json(*orders.pending);
  return value.dump();
}

schema::Result<GuardOrders> guard_orders_from_json(const std::string& text) {
  GuardOrders orders;
  if (text.empty()) return orders;
  try {
    const json value = json::parse(text);
    value.at("all_away").get_to(orders.all_away);
    value.at("away").get_to(orders.away);
    if (!value.contains("pending")) return orders;
    orders.pending = order_from_json(value.at("pending"));
    if (!orders.pending) return damaged("orders", "the action is unknown");
    return orders;
  } catch (const json::exception& error) {
    return damaged("orders", error.what());
  }
}

std::string to_json(const GuardProbes& probes) {
  json value{{"prompts", probes.prompts},
             {"why", probes.why},
             {"day", probes.day},
             {"tokens", probes.tokens},
             {"newest_us", probes.newest_us},
             {"unanswered", probes.unanswered},
             {"alarming", probes.alarming}};
  if (probes.watch) value["watch"] = probes.watch->to_json();
  return value.dump();
}

schema::Result<GuardProbes> guard_probes_from_json(const std::string& text) {
  GuardProbes probes;
  if (text.empty()) return probes;
  try {
    const json value = json::parse(text);
    value.at("prompts").get_to(probes.prompts);
    value.at("why").get_to(probes.why);
    value.at("day").get_to(probes.day);
    value.at("tokens").get_to(probes.tokens);
    value.at("newest_us").get_to(probes.newest_us);
    value.at("unanswered").get_to(probes.unanswered);
    value.at("alarming").get_to(probes.alarming);
    if (value.contains("watch")) {
      auto watch = TRY(stages::ProbeWatch::from_json(value.at("watch")));
      probes.watch.emplace(std::move(watch));
    }
    if (probes.watch && probes.watch->prompts() != probes.prompts.size())
      return damaged("probes", "their prompts are not those of their answers");
    return probes;
  } catch (const json::exception& error) {
    return damaged("probes", error.what());
  }
}

std::string to_json(const GuardIdentity& identity) {
  json value{{"newest_us", identity.newest_us}};
  if (identity.first) value["first"] = *identity.first;
  if (identity.watch) {
    value["promoted"] = identity.watch->promoted();
    value["last"] = changes_to_json(identity.watch->last());
    value["told"] = identity.watch->told();
  }
  return value.dump();
}

schema::Result<GuardIdentity> guard_identity_from_json(const std::string& text) {
  GuardIdentity identity;
  if (text.empty()) return identity;
  try {
    const json value = json::parse(text);
    value.at("newest_us").get_to(identity.newest_us);
    if (value.contains("first")) identity.first = value.at("first").get<stages::Identity>();
    if (value.contains("promoted")) {
      identity.watch.emplace(value.at("promoted").get<stages::Identity>());
      identity.watch->continue_from(changes_from_json(value.at("last")), value.at("told").get<bool>());
    }
    return identity;
  } catch (const json::exception& error) {
    return damaged("identities", error.what());
  }
}

}  // namespace driftgate::pipeline
