#include "daemon/pipeline/routes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/store/registry/routes.hpp"

namespace driftgate::pipeline {
namespace {

constexpr std::int64_t kFirstRetryUs = 200'000;
constexpr std::int64_t kMaxRetryUs = 10'000'000;

schema::EntryDraft applied_entry(Context& context, const route::ModelRoute& route) {
  schema::EntryDraft entry{.time_us = context.now(),
                           .kind = schema::EvidenceKind::route_applied,
                           .actor = kDaemonActor,
                           .body = route_body(route, "read back")};
  entry.subject.model = route.model;
  if (const auto* live = context.holder(route.model))
    entry.subject = subject_of(live->row, live->candidate.checkpoint, &live->run.key);
  return entry;
}

/// That these routes were read back, in one transaction.
schema::Result<void> record_applied(Context& context, std::span<const route::ModelRoute* const> routes) {
  std::vector<schema::EntryDraft> drafts;
  for (const auto* route : routes) drafts.push_back(applied_entry(context, *route));
  return context.commit_rows(
      "record applied route", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
        for (std::size_t i = 0; i < drafts.size(); ++i) {
          const auto& route = *routes[i];
          TRY(store::put_applied_route(tx, {route.model, route.epoch, route.revision,
                                            route::to_json(route).dump(), drafts[i].time_us}));
          TRY(add_entry(tx, entries, drafts[i]));
        }
        return {};
      });
}

void note_held(ModelState& model) {
  model.agreed = true;
  model.failures = 0;
  model.retry_at_us = 0;
}

void note_not_held(Context& context, const std::string& name, ModelState& model, const std::string& why) {
  model.retry_at_us = context.now() + std::min(kFirstRetryUs << std::min(model.failures, 6U), kMaxRetryUs);
  model.failures += 1;
  context.warn(fmt::format("the route of {} (revision {}) is not in force yet: {}", name,
                           model.desired.revision, why));
}

/// What a data plane holds, by model: comparing each model with each route takes seconds where there are
/// thousands.
using HeldRoutes = std::map<std::string_view, const route::ObservedRoute*>;

HeldRoutes routes_by_model(const std::vector<route::ObservedRoute>& observed) {
  HeldRoutes routes;
  for (const auto& held : observed) routes.emplace(held.route.model, &held);
  return routes;
}

bool holds(const HeldRoutes& routes, const route::ModelRoute& wanted) {
  const auto held = routes.find(wanted.model);
  return held != routes.end() && !held->second->reverted && held->second->route == wanted;
}

}  // namespace

bool ensure_route_held(Context& context, const std::string& name) {
  const auto found = context.models.find(name);
  if (found == context.models.end() || found->second.kept_safe) return false;
  auto& model = found->second;
  if (model.agreed) return true;
  auto held = context.apply_and_read_back(model.desired);
  const route::ModelRoute* const desired = &model.desired;
  auto recorded = held && *held ? record_applied(context, {&desired, 1}) : schema::Result<void>{};
  if (held && *held && recorded) {
    note_held(model);
    return true;
  }
  const auto why = !held    ? held.error().describe()
                   : !*held ? "the data plane reported another route"
                            : recorded.error().describe();
  note_not_held(context, name, model, why);
  return false;
}

void ensure_routes_held(Context& context, const std::vector<std::string>& names) {
  std::vector<route::ModelRoute> wanted;
  for (const auto& name : names) {
    const auto found = context.models.find(name);
    if (found == context.models.end() || found->second.kept_safe || found->second.agreed) continue;
    wanted.push_back(found->second.desired);
  }
  const auto applied = context.world.driver.apply_all(wanted);
  const auto observed = context.world.driver.observe();
  const auto by_model = observed ? routes_by_model(*observed) : HeldRoutes();
  std::vector<const route::ModelRoute*> held;
  for (const auto& route : wanted)
    if (holds(by_model, route)) held.push_back(&route);
  const auto recorded = held.empty() ? schema::Result<void>{} : record_applied(context, held);
  for (const auto& route : wanted) {
    auto& model = context.models.at(route.model);
    const bool there = holds(by_model, route);
    if (there && recorded) {
      note_held(model);
      continue;
    }
    const auto why = !applied    ? applied.error().describe()
                     : !observed ? observed.error().describe()
                     : !there    ? "the data plane reported another route"
                                 : recorded.error().describe();
    note_not_held(context, route.model, model, why);
  }
}

void check_routes_held(Context& context) {
  const auto observed = context.world.driver.observe();
  if (!observed) return;
  const auto by_model = routes_by_model(*observed);
  for (auto& [name, model] : context.models) {
    if (!model.agreed || model.kept_safe) continue;
    if (holds(by_model, model.desired)) continue;
    context.warn(
        fmt::format("the data plane no longer holds the desired route of {}; applying it again", name));
    model.agreed = false;
    model.retry_at_us = 0;
  }
}

void apply_routes_again(Context& context, const std::string& base_url) {
  const auto leads_there = [&](const std::optional<route::Arm>& arm) { return arm && arm->url == base_url; };
  for (auto& [name, model] : context.models) {
    const auto& route = model.desired;
    if (!leads_there(route.incumbent) && !leads_there(route.candidate) && !leads_there(route.fallback))
      continue;
    model.agreed = false;
    model.retry_at_us = 0;
  }
}

std::vector<std::string> models_to_route(const Context& context) {
  std::vector<std::string> names;
  for (const auto& [name, model] : context.models) {
    if (!model.agreed && context.now() >= model.retry_at_us) names.push_back(name);
  }
  return names;
}

}  // namespace driftgate::pipeline
