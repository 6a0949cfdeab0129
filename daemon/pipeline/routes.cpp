#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/route/table/route_json.hpp"
#include "daemon/store/registry/routes.hpp"

namespace driftgate::pipeline {
namespace {

constexpr std::int64_t kFirstRetryUs = 200'000;
constexpr std::int64_t kMaxRetryUs = 10'000'000;

store::RouteRow row_of(const route::ModelRoute& route, std::int64_t now_us) {
  return {route.model, route.epoch, route.revision, route::to_json(route).dump(), now_us};
}

}  // namespace

route::ModelRoute Core::next_route(const ModelState& model) const {
  auto route = model.desired;
  route.revision = route.epoch == model.epoch ? route.revision + 1 : 1;
  route.epoch = model.epoch;
  return route;
}

route::Arm Core::arm(const store::VersionRow& version) const {
  return {version.id, version.kernel, version.base_url};
}

schema::Result<void> Core::put_route(store::Tx& tx, Entries& entries, const schema::EvidenceSubject& subject,
                                     const route::ModelRoute& route, std::string_view reason) const {
  auto put = store::put_desired_route(tx, row_of(route, now()));
  if (!put) return put;
  schema::EntryDraft entry;
  entry.time_us = now();
  entry.kind = schema::EvidenceKind::route_desired;
  entry.actor = kDaemonActor;
  entry.subject = subject;
  entry.body = route_body(route, reason);
  auto seq = entries.add(tx, entry);
  if (!seq) return std::unexpected(seq.error());
  return {};
}

/// True when the data plane holds exactly this route.
schema::Result<bool> Core::apply_and_read_back(const route::ModelRoute& route) {
  auto applied = world_.driver.apply(route);
  if (!applied) return std::unexpected(applied.error());
  auto observed = world_.driver.observe();
  if (!observed) return std::unexpected(observed.error());
  return std::ranges::any_of(
      *observed, [&](const route::ObservedRoute& held) { return !held.reverted && held.route == route; });
}

schema::Result<void> Core::record_applied(const std::string& model, const route::ModelRoute& route) {
  const auto* live = holder(model);
  return commit("record applied route", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
    auto put = store::put_applied_route(tx, row_of(route, now()));
    if (!put) return put;
    schema::EntryDraft entry;
    entry.time_us = now();
    entry.kind = schema::EvidenceKind::route_applied;
    entry.actor = kDaemonActor;
    entry.subject.model = model;
    if (live != nullptr) entry.subject = subject_of(live->row, live->candidate.checkpoint, &live->run.key);
    entry.body = route_body(route, "read back");
    auto seq = entries.add(tx, entry);
    if (!seq) return std::unexpected(seq.error());
    return {};
  });
}

/// Makes the data plane hold the desired route; what waits for it goes on once it was read back and recorded.
void Core::ensure_route(const std::string& name) {
  const auto found = models_.find(name);
  if (found == models_.end()) return;
  auto& model = found->second;
  if (model.kept_safe) return;
  if (!model.agreed) {
    auto held = apply_and_read_back(model.desired);
    auto recorded = held && *held ? record_applied(name, model.desired) : schema::Result<void>{};
    if (!held || !*held || !recorded) {
      const auto wait = std::min(kFirstRetryUs << std::min(model.failures, 6U), kMaxRetryUs);
      model.failures += 1;
      model.retry_at_us = now() + wait;
      const auto why = !held    ? held.error().describe()
                       : !*held ? "what was read back is another route"
                                : recorded.error().describe();
      warn(fmt::format("the route of {} (revision {}) does not stand yet: {}", name, model.desired.revision,
                       why));
      return;
    }
    model.agreed = true;
    model.failures = 0;
    model.retry_at_us = 0;
  }
  route_agreed(name);
}

void Core::route_agreed(const std::string& name) {
  auto* live = holder(name);
  if (live == nullptr || live->retry_at_us != 0) return;
  switch (live->row.state) {
    case store::PromotionState::rolling_back:
      return complete_withdrawal(*live);
    case store::PromotionState::finalizing:
      return complete_success(*live);
    case store::PromotionState::running:
    case store::PromotionState::paused:
    case store::PromotionState::awaiting_approval:
      if (live->progress.phase == "applying" || live->progress.phase == "stopping")
        return step_applied(*live);
      return;
    default:
      return;
  }
}

/// Looks whether the data plane still holds what is desired: it may have reverted or been restarted.
void Core::check_routes() {
  auto observed = world_.driver.observe();
  for (auto& [name, model] : models_) {
    if (!model.agreed || model.kept_safe) continue;
    const bool holds = observed && std::ranges::any_of(*observed, [&](const route::ObservedRoute& held) {
                         return !held.reverted && held.route == model.desired;
                       });
    if (holds || !observed) continue;
    warn(fmt::format("the data plane no longer holds the desired route of {}; applying it again", name));
    model.agreed = false;
    model.retry_at_us = 0;
  }
}

}  // namespace driftgate::pipeline
