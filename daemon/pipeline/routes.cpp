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

}  // namespace

schema::Result<void> Routes::record_applied(const std::string& model, const route::ModelRoute& route) {
  schema::EntryDraft entry{.time_us = context_.now(),
                           .kind = schema::EvidenceKind::route_applied,
                           .actor = kDaemonActor,
                           .body = route_body(route, "read back")};
  entry.subject.model = model;
  if (const auto* live = context_.holder(model))
    entry.subject = subject_of(live->row, live->candidate.checkpoint, &live->run.key);
  return context_.commit_rows(
      "record applied route", [&](store::Tx& tx, Entries& entries) -> schema::Result<void> {
        auto put = store::put_applied_route(
            tx, {route.model, route.epoch, route.revision, route::to_json(route).dump(), entry.time_us});
        return put ? add_entry(tx, entries, entry) : put;
      });
}

bool Routes::ensure_held(const std::string& name) {
  const auto found = context_.models.find(name);
  if (found == context_.models.end() || found->second.kept_safe) return false;
  auto& model = found->second;
  if (model.agreed) return true;
  auto held = context_.apply_and_read_back(model.desired);
  auto recorded = held && *held ? record_applied(name, model.desired) : schema::Result<void>{};
  if (held && *held && recorded) {
    model.agreed = true;
    model.failures = 0;
    model.retry_at_us = 0;
    return true;
  }
  model.retry_at_us = context_.now() + std::min(kFirstRetryUs << std::min(model.failures, 6U), kMaxRetryUs);
  model.failures += 1;
  const auto why = !held    ? held.error().describe()
                   : !*held ? "what was read back is another route"
                            : recorded.error().describe();
  context_.warn(
      fmt::format("the route of {} (revision {}) does not stand yet: {}", name, model.desired.revision, why));
  return false;
}

void Routes::check_held() {
  const auto observed = context_.world.driver.observe();
  if (!observed) return;
  for (auto& [name, model] : context_.models) {
    if (!model.agreed || model.kept_safe) continue;
    const bool holds = std::ranges::any_of(*observed, [&](const route::ObservedRoute& held) {
      return !held.reverted && held.route == model.desired;
    });
    if (holds) continue;
    context_.warn(
        fmt::format("the data plane no longer holds the desired route of {}; applying it again", name));
    model.agreed = false;
    model.retry_at_us = 0;
  }
}

std::vector<std::string> Routes::due() const {
  std::vector<std::string> names;
  for (const auto& [name, model] : context_.models) {
    if (!model.agreed && context_.now() >= model.retry_at_us) names.push_back(name);
  }
  return names;
}

bool Routes::all_held() const {
  return std::ranges::all_of(context_.models, [](const auto& item) { return item.second.agreed; });
}

}  // namespace driftgate::pipeline
