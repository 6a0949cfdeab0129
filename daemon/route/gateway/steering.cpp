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
  steering->thread_ = std::thread([raw = steering.get()] { raw->run(); });
  return steering;
}

Steering::~Steering() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  settled_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Capabilities Steering::capabilities() const {
  return gateway_capabilities(target_.watched_bp);
}

void Steering::wake() {
  {
    const std::lock_guard lock(mutex_);
    ++wanted_;
  }
  wake_.notify_all();
}

/// The look is done, and no Gateway is waited for any more.
bool Steering::is_settled(std::uint64_t turn, const std::string& model) const {
  if (done_ < turn) return false;
  const auto refused = seen_.refused.find(model);
  return fault_ || refused == seen_.refused.end() || !is_passing(refused->second);
}

schema::Result<void> Steering::settle(const std::string& model) {
  std::unique_lock lock(mutex_);
  const auto turn = ++wanted_;
  wake_.notify_all();
  settled_.wait_for(lock, kPatience, [&] { return stop_ || is_settled(turn, model); });
  if (done_ >= turn && fault_) return std::unexpected(*fault_);
  const auto refused = seen_.refused.find(model);
  if (done_ >= turn && refused != seen_.refused.end()) return std::unexpected(refused->second);
  if (done_ >= turn) return {};
  return schema::failf(
      ErrorCode::deadline_exceeded,
      "the Kubernetes API has not taken the route of model '{}' within {} ms; it is being tried "
      "again",
      model, kPatience.count());
}

std::vector<ObservedRoute> Steering::held(std::vector<ObservedRoute> routes) const {
  const std::lock_guard lock(mutex_);
  if (Clock::now() - last_look_ > kFresh) return {};
  std::vector<ObservedRoute> found;
  for (auto& observed : routes) {
    const auto fence = seen_.fences.find(observed.route.model);
    if (fence != seen_.fences.end() && fence->second == fence_of(observed.route))
      found.push_back(std::move(observed));
  }
  return found;
}

bool Steering::may_expose() const {
  return routes_.lease_holds(Clock::now());
}

std::string Steering::fault() const {
  const std::lock_guard lock(mutex_);
  if (fault_) return fault_->describe();
  if (done_ == 0) return "the Kubernetes API was not asked yet";
  for (const auto& [model, why] : seen_.refused) {
    if (!hurry_ || !is_passing(why)) return why.describe();
  }
  return {};
}

void Steering::run() {
  for (;;) {
    std::uint64_t turn = 0;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, hurry_ ? kLookSoon : kLookEvery, [&] { return stop_ || wanted_ != done_; });
      if (stop_) return;
      turn = wanted_;
    }
    note(turn, look());
  }
}

void Steering::note(std::uint64_t turn, schema::Result<Seen> seen) {
  const auto now = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    done_ = turn;
    const auto before = fault_ ? fault_->describe() : std::string();
    hurry_ = seen && seen->waits() && now - changed_ < kHurry;
    if (seen) {
      fault_.reset();
      seen_ = std::move(*seen);
      last_look_ = now;
    } else {
      fault_ = std::move(seen.error());
    }
    const auto after = fault_ ? fault_->describe() : std::string();
    if (before != after) {
      if (fault_) spdlog::warn("router: the Gateway is not steered: {}", after);
      if (!fault_) spdlog::info("router: the Gateway is steered");
    }
  }
  settled_.notify_all();
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
