#include <algorithm>
#include <utility>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/guard/guards.hpp"
#include "daemon/pipeline/stages/observations.hpp"
#include "stages/clauses/selection.hpp"

// What a guard makes of telemetry windows.
namespace driftgate::pipeline {
namespace {

using schema::Action;
using schema::EntryValue;

/// Whether the guarded version served the request: neither a candidate nor the fallback kernel.
bool is_of_guarded(const route::Observation& seen, const route::ModelRoute& route) {
  if (seen.candidate || seen.pinned) return false;
  const auto slice = stages::parse_slice(seen.slice);
  return std::ranges::none_of(route.slices, [&](const route::SliceWeight& weight) {
    return weight.to_fallback && stages::matches(slice, weight.where);
  });
}

schema::EntryDraft alarm_entry(const Context& context, const LiveGuard& guard,
                               const schema::ClauseVerdict& verdict, std::string_view what,
                               std::string_view state) {
  return guard_entry(context, guard, schema::EvidenceKind::guard_alarmed,
                     {{"what", what},
                      {"state", state},
                      {"clause", verdict.clause},
                      {"slice", schema::slice_text(verdict.where)},
                      {"reason", verdict.message},
                      {"figures", verdict_body(verdict, "", context.world.settings.code_version)}});
}

schema::EntryDraft raised_entry(const Context& context, const LiveGuard& guard,
                                const schema::ClauseVerdict& verdict, std::string_view what,
                                const stages::EscalationDecision& decision) {
  auto entry = alarm_entry(context, guard, verdict, what, "raised");
  const auto order = std::ranges::find_if(decision.orders, [&](const stages::EscalationOrder& one) {
    return one.clause == verdict.clause && one.where == verdict.where;
  });
  if (order == decision.orders.end()) return entry;
  entry.body["ordered"] = schema::to_string(order->action);
  entry.body["rule"] = order->rule;
  entry.body["notify"] = order->action >= Action::notify;
  return entry;
}

}  // namespace

std::vector<schema::EntryDraft> clause_alarms(const Context& context, const LiveGuard& guard,
                                              const stages::GuardDecision& decision, std::string_view what) {
  std::vector<schema::EntryDraft> entries;
  for (const auto& alarm : decision.alarms)
    entries.push_back(raised_entry(context, guard, alarm, what, decision.escalation));
  for (const auto& cleared : decision.cleared)
    entries.push_back(alarm_entry(context, guard, cleared, what, "cleared"));
  return entries;
}

std::optional<GuardOrder> order_of(const stages::EscalationDecision& decision, std::string_view what) {
  if (!decision.acted || decision.action < Action::route_slice) return std::nullopt;
  GuardOrder order{.action = decision.action,
                   .what = std::string(what),
                   .clause = decision.clause,
                   .slices = {},
                   .rule = decision.rule,
                   .reason = decision.reason};
  for (const auto& one : decision.orders) {
    if (one.action == Action::route_slice) order.slices.push_back(one.where);
  }
  return order;
}

std::optional<GuardStep> guard_window(Context& context, const route::Window& window) {
  const auto found = context.guards.find(window.model);
  const auto model = context.models.find(window.model);
  if (found == context.guards.end() || model == context.models.end()) return std::nullopt;
  LiveGuard& guard = *found->second;
  const route::ModelRoute& route = model->second.desired;
  const bool served = route.incumbent.version == guard.row.version && !route.all_to_fallback;
  if (!served || guard.orders.pending) return std::nullopt;
  bool any = false;
  for (const auto& seen : window.observations) {
    if (!is_of_guarded(seen, route)) continue;
    guard.tests.observe(observation_of(seen));
    any = true;
  }
  if (!any) return std::nullopt;
  const auto decision = guard.tests.decide();
  auto row = std::make_shared<store::GuardRow>(guard.row);
  GuardOrders orders = guard.orders;
  orders.pending = order_of(decision.escalation, "traffic");
  row->traffic = guard.tests.serialise();
  row->orders = to_json(orders);
  row->alarms += decision.alarms.size();
  auto entries = clause_alarms(context, guard, decision, "traffic");
  Work work = [row, entries = std::move(entries), keys = guard.tests.take_new_keys(),
               hour = guard.tests.hour()](store::Tx& tx, Entries& written) -> schema::Result<void> {
    for (const auto& entry : entries) TRY(add_entry(tx, written, entry));
    if (!entries.empty()) row->evidence_seq = written.last();
    TRY(store::add_guard_keys(tx, row->id, hour, keys));
    return store::update_guard(tx, *row);
  };
  return GuardStep{window.model, std::move(row), std::move(orders), std::move(work),
                   figures_of("guard", decision.verdicts, context.now())};
}

void finish_guard_window(Context& context, const GuardStep& step, bool committed) {
  const auto found = context.guards.find(step.model);
  const bool same = found != context.guards.end() && found->second->row.id == step.row->id;
  if (!committed || !same) {
    context.effects.emplace_back(LoadGuard{step.model});
    return;
  }
  context.figures.decided(step.model, step.figures);
  found->second->row = *step.row;
  found->second->unsaved = false;
  found->second->orders = step.orders;
  if (step.orders.pending) context.effects.emplace_back(ActOnGuard{step.model});
}

}  // namespace driftgate::pipeline
