#include "daemon/route/gateway/steering.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/base/json_members.hpp"
#include "daemon/route/worker/core.hpp"
#include "schema/failf.hpp"

namespace driftgate::route::gateway {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using Clock = std::chrono::steady_clock;

/// Expected for a moment after each change.
bool is_passing(const schema::Error& error) {
  return error.code == ErrorCode::deadline_exceeded || error.code == ErrorCode::unavailable;
}

std::string version_of(const json& object) {
  return base::text_at(base::object_at(object, "metadata"), "resourceVersion");
}

}  // namespace

bool Steering::Seen::waits() const {
  return std::ranges::any_of(refused, [](const auto& one) { return is_passing(one.second); });
}

Steering::Steering(Target target, KubeApi api, RouteTable& routes, const EngineBook& engines)
    : target_(std::move(target)), api_(std::move(api)), routes_(routes), engines_(engines) {}

schema::Result<std::unique_ptr<Steering>> Steering::start(const RouterOptions& options, RouteTable& routes,
                                                          const EngineBook& engines) {
  auto target = TRY(target_of(options));
  auto api = TRY(KubeApi::open(options));
  std::unique_ptr<Steering> steering(new Steering(std::move(target), std::move(api), routes, engines));
  steering->loop_.start(
      [raw = steering.get()] { return raw->look(); },
      [](const State& state) { return !state.fault && state.seen.hurry ? kLookSoon : kLookEvery; });
  return steering;
}

Steering::~Steering() = default;

Capabilities Steering::capabilities() const {
  return gateway_capabilities(target_.watched_bp);
}

void Steering::wake() {
  loop_.wake();
}

schema::Result<void> Steering::settle(const std::string& model) {
  return loop_.settle(model, [&](const State& state) {
    const auto refused = state.seen.refused.find(model);
    return state.fault || refused == state.seen.refused.end() || !is_passing(refused->second);
  });
}

std::vector<ObservedRoute> Steering::held(std::vector<ObservedRoute> routes) const {
  return loop_.read([&](const State& state) {
    std::vector<ObservedRoute> found;
    if (Clock::now() - state.succeeded > kFresh) return found;
    for (auto& observed : routes) {
      const auto fence = state.seen.fences.find(observed.route.model);
      if (fence != state.seen.fences.end() && fence->second == fence_of(observed.route))
        found.push_back(std::move(observed));
    }
    return found;
  });
}

bool Steering::may_expose() const {
  return routes_.lease_holds(Clock::now());
}

std::string Steering::fault() const {
  return loop_.read([](const State& state) -> std::string {
    if (state.fault) return state.fault->describe();
    if (state.done == 0) return "the Kubernetes API was not asked yet";
    for (const auto& [model, why] : state.seen.refused) {
      if (!state.seen.hurry || !is_passing(why)) return why.describe();
    }
    return {};
  });
}

/// What is wrong with one model keeps no other from its route.
schema::Result<Steering::Seen> Steering::look() {
  Seen seen;
  const auto objects = TRY(api_.list());
  // In this order, so that what an engine asks for is known with the first route to it.
  const auto routes = routes_.observe();
  const auto access = engines_.access();
  for (const auto& [route, reverted] : routes) {
    const auto brought = bring(route, access, objects);
    if (brought) {
      seen.fences.emplace(route.model, fence_of(route));
    } else {
      seen.refused.emplace(route.model, brought.error());
    }
  }
  seen.hurry = seen.waits() && Clock::now() - changed_ < kHurry;
  return seen;
}

/// Makes the Gateways hold the route, as far as they have said.
schema::Result<void> Steering::bring(const ModelRoute& route, const AccessByUrl& access,
                                     const KubeApi::Objects& objects) {
  TRY(check_route(route));
  auto wanted = http_route(target_, route, access);
  const auto found = objects.find(object_name(target_, route.model));
  if (found != objects.end()) {
    const auto now = TRY(written(route, found->second, std::move(wanted)));
    return check_accepted(now, target_);
  }
  const auto made = TRY(api_.create(wanted));
  changed_ = Clock::now();
  return check_accepted(made, target_);
}

/// Read, compare, apply: only over the version that was read, and never over a newer route.
schema::Result<json> Steering::written(const ModelRoute& route, const json& held, json wanted) {
  const auto own = fence_of(route);
  const auto fence = TRY(fence_in(held));
  if (fence > own)
    return schema::failf(
        ErrorCode::conflict,
        "route of model '{}' at epoch {} revision {} is refused: its HTTPRoute is of epoch {} "
        "revision {}; read the route back and write under a newer epoch",
        route.model, own.epoch, own.revision, fence.epoch, fence.revision);
  if (covers(held, wanted)) return held;
  auto applied = TRY(api_.apply(std::move(wanted), version_of(held)));
  changed_ = Clock::now();
  return applied;
}

}  // namespace driftgate::route::gateway
