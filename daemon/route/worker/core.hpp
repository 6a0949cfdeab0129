#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "daemon/limits/connection_table.hpp"
#include "daemon/route/control/control_place.hpp"
#include "daemon/route/control/driver.hpp"
#include "daemon/route/control/spool.hpp"
#include "daemon/route/health/engine.hpp"
#include "daemon/route/http/operations.hpp"
#include "daemon/route/table/bucket.hpp"
#include "daemon/route/table/route_table.hpp"
#include "daemon/route/worker/ledger.hpp"
#include "daemon/route/worker/listeners.hpp"
#include "daemon/route/worker/router_options.hpp"
#include "daemon/route/worker/router_page.hpp"
#include "daemon/route/worker/steered_plane.hpp"

namespace driftgate::route {

/// The largest request that is mirrored, and the largest answer that a pair keeps.
inline constexpr std::uint64_t kMaxMirroredBodyBytes = 256u << 10;
inline constexpr std::uint64_t kMaxKeptAnswerBytes = 1u << 20;

/// What the embedded router can do alone.
[[nodiscard]] Capabilities router_capabilities();
/// The same with HAProxy in front of it.
[[nodiscard]] Capabilities haproxy_capabilities();
/// The same with a Gateway of Kubernetes in front of it that sends it this share of the requests for a model
/// without a candidate.
[[nodiscard]] Capabilities gateway_capabilities(std::uint32_t watched_bp);

/// Tokens asked of mirrors so far, by stage. The oldest stages by name are forgotten beyond the limit.
class MirrorBudget {
 public:
  static constexpr std::size_t kMaxStages = 256;
  /// Takes `tokens` of the stage's budget; false, and nothing taken, when they are not left.
  bool take(const std::string& stage_key, std::uint64_t tokens, std::uint64_t budget);

 private:
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> used_;
};

/// Mirrored requests that are queued or asked and not yet in the spool, by stage: the spool of a stage is
/// complete when none is left, so that slow answers are not missing from it.
class OpenMirrors {
 public:
  void add(const std::string& stage_key);
  void remove(const std::string& stage_key);
  [[nodiscard]] std::size_t count(const std::string& stage_key) const;
  /// Waits until there are none; false when the deadline came first.
  bool wait_for_none(std::chrono::steady_clock::time_point deadline);

 private:
  mutable std::mutex mutex_;
  std::condition_variable none_;
  std::map<std::string, std::size_t> open_;
};

/// What the threads of a router share. Members guard themselves.
struct RouterCore {
  /// Further paths that cannot be parsed are left out: see parse_further_paths.
  RouterCore(RouterOptions router_options, std::string router_id);

  const RouterOptions options;
  ControlPlace place;
  const Operations operations;
  RouterPage page;
  EngineBook engines;
  RouteTable routes;
  Ledger ledger;
  Spool spool;
  MirrorBudget budget;
  OpenMirrors mirrors;
  limits::ConnectionTable connections;
  const std::string mark;  ///< how this router names itself in Via
  HeldListeners listeners;
  std::atomic<bool> draining = false;  ///< it takes no new connections
  std::atomic<bool> retiring =
      false;  ///< another router follows on the same sockets, and has the control path
  std::atomic<std::uint16_t> port = 0;

  /// A plane in front of the router places and counts requests itself.
  [[nodiscard]] bool plane_places() const { return plane && plane->places(); }
  [[nodiscard]] KeyHash key_hash() const { return plane_places() ? KeyHash::text : KeyHash::seeded; }
  [[nodiscard]] Capabilities capabilities() const;
  /// What the data plane holds, as it acts on it.
  [[nodiscard]] std::vector<ObservedRoute> observe() const;
  [[nodiscard]] std::vector<ObservedRoute> observe(std::string_view model) const;
  /// Names what observe() says while that is known not to change without the router; else "". Read before it.
  [[nodiscard]] std::string observed_version() const;
  /// Closes windows when their time has come and ends leases that have expired. One thread calls it.
  void tick(RouteTable::Time now);

  /// Set before any thread of the router runs; null for a router that serves users itself. Last, since it
  /// uses what stands above.
  std::unique_ptr<SteeredPlane> plane;

 private:
  RouteTable::Time next_close_{};
  RouteTable::Time next_refresh_{};
};

}  // namespace driftgate::route
