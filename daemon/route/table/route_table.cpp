#include "daemon/route/table/route_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/base/ascii.hpp"
#include "daemon/route/relay/endpoint.hpp"
#include "daemon/route/table/decide.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

std::unexpected<schema::Error> refuse(const ModelRoute& route, std::string_view why) {
  return schema::failf(schema::ErrorCode::invalid_argument, "route of model '{}' {}", route.model, why);
}

schema::Result<void> validate_arms(const ModelRoute& route) {
  const Arm* arms[] = {&route.incumbent, route.candidate ? &*route.candidate : nullptr,
                       route.fallback ? &*route.fallback : nullptr};
  for (const Arm* arm : arms) {
    if (arm == nullptr) continue;
    if (arm->version.size() > kMaxNameBytes || arm->kernel.size() > kMaxNameBytes) {
      return refuse(route, fmt::format("has a version or kernel name over {} bytes", kMaxNameBytes));
    }
    const auto url = parse_engine_url(arm->url);
    if (!url)
      return schema::wrap(url.error(), fmt::format("route of model '{}' cannot be used", route.model));
  }
  return {};
}

schema::Result<void> validate_slices(const ModelRoute& route) {
  if (route.slices.size() > kMaxRouteSlices)
    return refuse(route, fmt::format("has over {} slices", kMaxRouteSlices));
  for (const auto& weight : route.slices) {
    if (weight.where.empty()) return refuse(route, "has a slice that names no attribute");
    if (weight.candidate_bp > kFullShareBp)
      return refuse(route, "has a slice with more than 10,000 basis points");
    if (weight.candidate_bp > 0 && !route.candidate)
      return refuse(route, "sends a share of a slice to a candidate but has none");
    if (weight.to_fallback && !route.fallback)
      return refuse(route, "sends a slice to a fallback but has none");
  }
  return {};
}

}  // namespace

bool valid_stage_key(std::string_view stage_key) {
  if (stage_key.empty() || stage_key.size() > kMaxNameBytes) return false;
  bool part_begins = true;
  for (const char byte : stage_key) {
    if (!base::is_alphanumeric(byte, "_-:/") && (byte != '.' || part_begins)) return false;
    part_begins = byte == '/';
  }
  return true;
}

schema::Result<void> validate_route(const ModelRoute& route) {
  if (route.model.empty() || route.model.size() > kMaxNameBytes) {
    return refuse(route, fmt::format("must have a model name of 1 to {} bytes", kMaxNameBytes));
  }
  if (!route.stage_key.empty() && !valid_stage_key(route.stage_key)) {
    return refuse(route, "has a stage_key that is not of the form promotion/stage/attempt");
  }
  TRY(validate_arms(route));
  TRY(validate_slices(route));
  if (route.candidate_bp > kFullShareBp || route.mirror_bp > kFullShareBp) {
    return refuse(route, "has a share over 10,000 basis points");
  }
  if (route.candidate_bp > 0 && !route.candidate) {
    return refuse(route, "sends a share to a candidate but has none");
  }
  if (route.mirror_bp > 0 && route.stage_key.empty())
    return refuse(route, "mirrors without a stage: set stage_key");
  if (route.all_to_fallback && !route.fallback)
    return refuse(route, "sends all requests to a fallback but has none");
  if (route.pins.size() > kMaxPins) return refuse(route, fmt::format("has over {} pins", kMaxPins));
  const auto known = [](const auto& pin) { return pin.second == "incumbent" || pin.second == "candidate"; };
  if (!std::ranges::all_of(route.pins, known))
    return refuse(route, "pins a key to something other than 'incumbent' or 'candidate'");
  return {};
}

RouteTable::Entry RouteTable::make_entry(ModelRoute route, bool reverted) const {
  auto effective = std::make_shared<RoutedModel>(RoutedModel{effective_route(route, reverted), {}});
  const auto engine_of = [&](Served arm, const std::string& url) {
    effective->engines[static_cast<std::size_t>(arm)] = engines_.get(url);
  };
  engine_of(Served::incumbent, route.incumbent.url);
  if (route.candidate) engine_of(Served::candidate, route.candidate->url);
  if (route.fallback) engine_of(Served::fallback, route.fallback->url);
  return Entry{std::move(route), std::move(effective), reverted};
}

/// Fencing; under the lock.
schema::Result<void> RouteTable::check_order(const ModelRoute& route) const {
  const auto found = entries_.find(route.model);
  if (found == entries_.end() && entries_.size() >= kMaxModels)
    return schema::failf(schema::ErrorCode::limit_exceeded, "the router already has {} models, its limit",
                         kMaxModels);
  if (found != entries_.end()) {
    const auto& held = found->second.route;
    const bool older =
        route.epoch < held.epoch || (route.epoch == held.epoch && route.revision < held.revision);
    const bool other = route.epoch == held.epoch && route.revision == held.revision && route != held;
    if (older || other)
      return schema::failf(schema::ErrorCode::conflict,
                           "route of model '{}' at epoch {} revision {} is refused: {}epoch {} revision {} "
                           "is in force; read the route back and write under a newer epoch",
                           route.model, route.epoch, route.revision, other ? "another route at " : "",
                           held.epoch, held.revision);
  }
  return {};
}

schema::Result<void> RouteTable::check(const ModelRoute& route) const {
  TRY(validate_route(route));
  const std::lock_guard lock(mutex_);
  return check_order(route);
}

schema::Result<void> RouteTable::apply(const ModelRoute& route, Time now) {
  TRY(validate_route(route));
  const std::lock_guard lock(mutex_);
  TRY(check_order(route));
  entries_.insert_or_assign(route.model, make_entry(route, false));
  ++changes_;
  last_heard_ = now;
  return {};
}

void RouteTable::heartbeat(Time now) {
  const std::lock_guard lock(mutex_);
  last_heard_ = now;
}

bool RouteTable::lease_holds(Time now) const {
  const std::lock_guard lock(mutex_);
  return now - last_heard_ < lease_;
}

std::vector<std::string> RouteTable::end_expired_leases(Time now) {
  std::vector<std::string> reverted;
  const std::lock_guard lock(mutex_);
  if (now - last_heard_ < lease_) return reverted;
  for (auto& [model, entry] : entries_) {
    if (entry.reverted || !exposes_candidate(entry.route)) continue;
    entry = make_entry(std::move(entry.route), true);
    reverted.push_back(model);
  }
  if (!reverted.empty()) ++changes_;
  return reverted;
}

void RouteTable::restore(std::vector<ModelRoute> routes, Time now) {
  const std::lock_guard lock(mutex_);
  for (auto& route : routes) {
    const bool exposed = exposes_candidate(route);
    auto model = route.model;
    entries_.insert_or_assign(std::move(model), make_entry(std::move(route), exposed));
  }
  ++changes_;
  last_heard_ = now;
}

std::shared_ptr<const RoutedModel> RouteTable::find(std::string_view model) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(model);
  return found == entries_.end() ? nullptr : found->second.effective;
}

std::vector<ObservedRoute> RouteTable::observe() const {
  const std::lock_guard lock(mutex_);
  std::vector<ObservedRoute> routes;
  routes.reserve(entries_.size());
  for (const auto& [model, entry] : entries_) routes.push_back({*entry.effective, entry.reverted});
  return routes;
}

std::vector<ObservedRoute> RouteTable::observe(std::string_view model) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(model);
  if (found == entries_.end()) return {};
  return {{*found->second.effective, found->second.reverted}};
}

std::vector<ModelRoute> RouteTable::held() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelRoute> routes;
  routes.reserve(entries_.size());
  for (const auto& [model, entry] : entries_) routes.push_back(entry.route);
  return routes;
}

std::vector<std::pair<std::string, std::string>> RouteTable::stages() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, std::string>> stages;
  stages.reserve(entries_.size());
  for (const auto& [model, entry] : entries_) stages.emplace_back(model, entry.route.stage_key);
  return stages;
}

}  // namespace driftgate::route
