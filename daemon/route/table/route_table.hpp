#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/route/health/engine.hpp"
#include "daemon/route/table/decide.hpp"
#include "daemon/route/table/route.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

inline constexpr std::size_t kMaxModels = 10'000;
inline constexpr std::size_t kMaxRouteSlices = 256;
inline constexpr std::size_t kMaxPins = 10'000;
inline constexpr std::size_t kMaxNameBytes = 256;

/// True for a stage key that can name a file: [A-Za-z0-9._:-] and '/', at most kMaxNameBytes, no part
/// that starts with a dot.
[[nodiscard]] bool valid_stage_key(std::string_view stage_key);

/// Refuses a route that contradicts itself or breaks a limit.
[[nodiscard]] schema::Result<void> validate_route(const ModelRoute& route);

/// A route as it is acted on, with the engines of its arms.
struct RoutedModel : ModelRoute {
  std::array<std::shared_ptr<Engine>, 3> engines;  ///< by Served; null where the route has no such arm
  [[nodiscard]] const std::shared_ptr<Engine>& engine(Served arm) const {
    return engines[static_cast<std::size_t>(arm)];
  }
};

/// The routes in force, with fencing by epoch and the lease of candidates. Safe to use from any thread; time
/// is passed in.
class RouteTable {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `engines` lives longer than what find() returns.
  RouteTable(std::chrono::milliseconds lease, EngineBook& engines) : lease_(lease), engines_(engines) {}

  /// Whether apply() would take the route.
  [[nodiscard]] schema::Result<void> check(const ModelRoute& route) const;
  /// Replaces one model's route. `conflict` when the epoch is older than the one held, or the epoch is
  /// the same and the revision older, or both are the same and the route is another. Repeating a route
  /// is fine. Counts as a sign of life and ends a revert of this model.
  schema::Result<void> apply(const ModelRoute& route, Time now);
  void heartbeat(Time now);
  /// The lease has not expired: candidates may be exposed.
  [[nodiscard]] bool lease_holds(Time now) const;
  /// Reverts each route that exposes a candidate once the lease has expired; the models reverted now.
  std::vector<std::string> end_expired_leases(Time now);
  /// Restores the routes of an earlier process, each valid by validate_route: candidates get no traffic until
  /// the next apply.
  void restore(std::vector<ModelRoute> routes, Time now);

  /// The effective route of a model, or null.
  [[nodiscard]] std::shared_ptr<const RoutedModel> find(std::string_view model) const;
  /// Effective routes, as acted on now.
  [[nodiscard]] std::vector<ObservedRoute> observe() const;
  /// The same of one model; empty when it has no route.
  [[nodiscard]] std::vector<ObservedRoute> observe(std::string_view model) const;
  /// Grows with every change of what observe() says. Read before it, it never promises too much.
  [[nodiscard]] std::uint64_t changes() const { return changes_.load(); }
  /// Routes as applied, to be kept.
  [[nodiscard]] std::vector<ModelRoute> held() const;
  /// (model, stage key) of every route.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> stages() const;

 private:
  struct Entry {
    ModelRoute route;
    std::shared_ptr<const RoutedModel> effective;
    bool reverted = false;
  };
  [[nodiscard]] schema::Result<void> check_order(const ModelRoute& route) const;
  [[nodiscard]] Entry make_entry(ModelRoute route, bool reverted) const;

  const std::chrono::milliseconds lease_;
  EngineBook& engines_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::atomic<std::uint64_t> changes_ = 0;
  Time last_heard_{};
};

}  // namespace driftgate::route
