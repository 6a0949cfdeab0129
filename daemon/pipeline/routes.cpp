#include "daemon/pipeline/routes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/store/registry/routes.hpp"

namespace driftgate::pipeline {
namespace {

constexpr std::int64_t kFirstRetryUs = 200'000;
constexpr std::int64_t kMaxRetryUs = 10'000'000;

schema::Result<void> record_applied(Context& context, const std::string& model,
                                    const route::ModelRoute& route) {
  schema::EntryDraft entry{.time_us = context.now(),
                           .kind = schema::EvidenceKind::route_applied,
                           .actor = kDaemonActor,
                           .body = route_body(route, "read back")};
  entry.subject.model = model;
  if (const auto* live = context.holder(model))
    entry.subject = subject_of(live->row, live->candidate.checkpoint, &live->run.key);
  return context.commit_rows(
      "record applied route", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
        auto put = store::put_applied_route(
            tx, {route.model, route.epoch, route.revision, route::to_json(route).dump(), entry.time_us});
        return put ? add_entry(tx, entries, entry) : put;
      });
}

}  // namespace

bool ensure_route_held(Context& context, const std::string& name) {
  const auto found = context.models.find(name);
  if (found == context.models.end() || found->second.kept_safe) return false;
  auto& model = found->second;
  if (model.agreed) return true;
  auto held = context.apply_and_read_back(model.desired);
  auto recorded = held && *held ? record_applied(context, name, model.desired) : schema::Result<void>{};
  if (held && *held && recorded) {
    model.agreed = true;
    model.failures = 0;
    model.retry_at_us = 0;
    return true;
  }
  model.retry_at_us = context.now() + std::min(kFirstRetryUs << std::min(model.failures, 6U), kMaxRetryUs);
  model.failures += 1;
  const auto why = !held    ? held.error().describe()
                   : !*held ? "the data plane reported another route"
                            : recorded.error().describe();
  context.warn(fmt::format("the route of {} (revision {}) is not in force yet: {}", name,
                           model.desired.revision, why));
  return false;
}

void check_routes_held(Context& context) {
  const auto observed = context.world.driver.observe();
  if (!observed) return;
  for (auto& [name, model] : context.models) {
    if (!model.agreed || model.kept_safe) continue;
    const bool holds = std::ranges::any_of(*observed, [&](const route::ObservedRoute& held) {
      return !held.reverted && held.route == model.desired;
    });
    if (holds) continue;
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
