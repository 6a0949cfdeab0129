#include <fmt/format.h>

#include <algorithm>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/fallback.hpp"
#include "daemon/route/table/route_table.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "schema/contract/stored_contract.hpp"

// What Π's actions beside the ramp do to a route, and what must hold before (pipeline.md, section 4).
namespace driftgate::pipeline {
namespace {

using schema::Action;
using stages::CanaryAction;

bool ends(CanaryAction action) {
  return action == CanaryAction::rollback || action == CanaryAction::block ||
         action == CanaryAction::revert || action == CanaryAction::inconclusive;
}

/// Slices that a decision sends to the fallback kernel and the route does not yet.
std::vector<schema::SliceWhere> new_slices(const route::ModelRoute& route,
                                           const stages::CanaryDecision& decision) {
  std::vector<schema::SliceWhere> found;
  for (const auto& where : decision.fallback_slices) {
    const bool known = std::ranges::any_of(
        route.slices, [&](const auto& weight) { return weight.to_fallback && weight.where == where; });
    if (!known) found.push_back(where);
  }
  return found;
}

schema::EntryValue::Object order_body(const stages::EscalationOrder& order, std::string_view action) {
  return {{"action", action},       {"ordered", schema::to_string(order.action)},
          {"clause", order.clause}, {"slice", schema::slice_text(order.where)},
          {"rule", order.rule},     {"reason", order.reason}};
}

}  // namespace

/// `route` with the slices, traffic and mirroring that the decision wants beside the candidate's share.
route::ModelRoute Core::with_ladder(route::ModelRoute route, const Live& live,
                                    const stages::CanaryDecision& decision) const {
  route.slices.clear();
  for (const auto& where : decision.fallback_slices) route.slices.push_back({where, 0, true});
  route.all_to_fallback = decision.all_to_fallback;
  route.fallback.reset();
  if (route.all_to_fallback || !route.slices.empty()) route.fallback = arm(live.fallback);
  route.mirror_bp = decision.sample ? world_.settings.sample_bp : 0;
  route.mirror_token_budget = decision.sample ? world_.settings.sample_token_budget : 0;
  return route;
}

/// The route when a decision that leaves the share as it is changes the rest of it.
std::optional<route::ModelRoute> Core::rerouted(const Live& live,
                                                const stages::CanaryDecision& decision) const {
  const auto& model = models_.at(live.row.model);
  auto wanted = with_ladder(model.desired, live, decision);
  if (wanted == model.desired) return std::nullopt;
  wanted.epoch = next_route(model).epoch;
  wanted.revision = next_route(model).revision;
  return wanted;
}

/// Gives the data plane a route whose commit has just succeeded.
void Core::adopt_route(const std::string& name, const route::ModelRoute& route) {
  auto& model = models_.at(name);
  model.desired = route;
  model.agreed = false;
  model.kept_safe = false;
  model.retry_at_us = 0;
  ensure_route(name);
}

/// A recovery action can hurt too: traffic moves to the fallback engine only when that can take it. Else the
/// next stronger action is taken, which is rollback, since sending everything there takes more than a part.
std::optional<Capacity> Core::check_capacity(const Live& live, stages::CanaryDecision& decision) {
  const auto& model = models_.at(live.row.model);
  const auto added = new_slices(model.desired, decision);
  const bool all = decision.all_to_fallback && !model.desired.all_to_fallback;
  if (ends(decision.action) || (!all && added.empty())) return std::nullopt;
  CapacityFacts facts{.engine = live.fallback.engine};
  if (decision.all_to_fallback) {
    facts.requests_per_second = model.rate.requests_per_second();
  } else {
    for (const auto& where : decision.fallback_slices)
      facts.requests_per_second += model.rate.requests_per_second(where);
    facts.requests_per_second = std::min(facts.requests_per_second, model.rate.requests_per_second());
  }
  if (!facts.engine.empty()) {
    auto engine = world_.store.read(
        [&](store::Reader& reader) { return store::find_engine(reader, live.fallback.engine); });
    if (engine && *engine) facts.max_requests_per_second = (*engine)->max_requests_per_second;
    if (auto healthy = world_.health(live.fallback.base_url); !healthy) facts.unhealthy = healthy.error();
  }
  auto capacity = judge_capacity(facts);
  if (capacity.enough && decision.fallback_slices.size() > route::kMaxRouteSlices) {
    capacity.enough = false;
    capacity.text = fmt::format("a route has at most {} slices", route::kMaxRouteSlices);
  }
  if (capacity.enough) return capacity;
  decision.reasons.insert(
      decision.reasons.begin(),
      fmt::format("{} was ordered ({}), but {}: the next stronger action that can be carried out "
                  "is rollback.",
                  stages::to_string(decision.action), decision.escalation.reason, capacity.text));
  decision.action = CanaryAction::rollback;
  decision.fallback_slices.clear();
  decision.all_to_fallback = false;
  return capacity;
}

/// The orders that are carried out beside the decision, each told once: notices, what recovered, and the
/// check of the fallback engine.
schema::Result<void> Core::log_orders(store::Tx& tx, Entries& entries, const Live& live,
                                      const stages::CanaryDecision& decision,
                                      const std::optional<Capacity>& capacity) const {
  const auto add = [&](schema::EntryValue::Object body) -> schema::Result<void> {
    auto seq = entries.add(tx, draft(live, schema::EvidenceKind::escalation_decided, {}, std::move(body)));
    if (!seq) return std::unexpected(seq.error());
    return {};
  };
  if (capacity) {
    auto body = schema::EntryValue::Object{{"action", "check_capacity"},
                                           {"reason", capacity->text},
                                           {"enough", capacity->enough},
                                           {"capacity", capacity->body}};
    auto done = add(std::move(body));
    if (!done) return done;
  }
  for (const auto& order : decision.notices) {
    auto body = order_body(order, schema::to_string(order.action));
    body["notify"] = order.action == Action::notify;
    auto done = add(std::move(body));
    if (!done) return done;
  }
  for (const auto& order : decision.recovered) {
    auto done = add(order_body(order, "recovered"));
    if (!done) return done;
  }
  return {};
}

/// Π over a stage of fixed data: notices are told, and a rule that ends the promotion does so even when the
/// clause is soft. Nothing is routed in these stages, so that all else is evidence only.
stages::EscalationDecision Core::offline_order(const Live& live, const stages::StageReport& report) const {
  return stages::escalate(live.contract->escalation, report.stage, report.clauses);
}

schema::Result<void> Core::log_offline(store::Tx& tx, Entries& entries, const Live& live,
                                       const stages::EscalationDecision& order) const {
  stages::CanaryDecision told;
  told.notices = order.beside;
  auto logged = log_orders(tx, entries, live, told, std::nullopt);
  if (!logged || !order.acted || order.action <= Action::sample) return logged;
  auto seq =
      entries.add(tx, draft(live, schema::EvidenceKind::escalation_decided, {},
                            order_body({order.action, order.clause, order.where, order.rule, order.reason},
                                       schema::to_string(order.action))));
  if (!seq) return std::unexpected(seq.error());
  return {};
}

/// The engine that the promotion's fallback traffic would go to; see resolve_fallback.
schema::Result<std::optional<store::EngineRow>> Core::find_fallback(const store::PromotionRow& row,
                                                                    const PromotionRequest& request) const {
  using Found = schema::Result<std::optional<store::EngineRow>>;
  return world_.store.read([&](store::Reader& reader) -> Found {
    auto stored = store::find_contract(reader, row.contract);
    if (!stored) return std::unexpected(stored.error());
    auto candidate = store::find_engine(reader, row.engine);
    if (!candidate) return std::unexpected(candidate.error());
    if (!*stored || !*candidate)
      return schema::fail(schema::ErrorCode::not_found, "the contract or the engine is gone; ask again");
    const auto report = schema::parse_stored_contract((*stored)->canonical, (*stored)->name);
    if (!report.contract)
      return schema::fail(schema::ErrorCode::corrupt, schema::format_faults(report.faults, (*stored)->name));
    return resolve_fallback(reader, *report.contract, request.fallback_engine, **candidate);
  });
}

}  // namespace driftgate::pipeline
