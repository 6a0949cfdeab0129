#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/route/control/telemetry.hpp"
#include "daemon/route/table/route.hpp"
#include "schema/error.hpp"

namespace driftgate::route {

/// What a data plane can do; a promotion that needs more is refused when it is planned (docs/data_planes.md).
struct Capabilities {
  std::string plane;               ///< its name in the settings: "router", "haproxy" or "gateway_api"
  bool basis_points = false;       ///< shares in hundredths of a percent
  bool sticky_monotone = false;    ///< a key keeps its arm, and a growing share only ever adds keys
  bool slices = false;             ///< shares and the fallback by slice
  bool mirror_response = false;    ///< a copied request is kept with both answers
  bool mirror_isolated = false;    ///< a slow or dead engine that gets copies costs users no time
  bool read_back = false;          ///< `observe` says what is in force, not what was asked for
  bool atomic = false;             ///< no request sees half of a route
  bool per_arm_latency = false;    ///< the time to the last byte, by arm
  bool token_times = false;        ///< the time to the first token and the gaps between tokens
  bool prompt_length = false;      ///< telemetry says how long each prompt was
  bool watches_incumbent = false;  ///< telemetry also of a model that has no candidate
  bool engine_access = false;      ///< engines are reached over https, with a key, and under a path
  std::uint64_t max_mirrored_body_bytes = 0;
};

/// A data plane: the embedded router, alone or with HAProxy or a Gateway in front of it. All calls block,
/// have a deadline of their own and may be repeated: doing one twice changes nothing.
class Driver {
 public:
  virtual ~Driver() = default;
  [[nodiscard]] virtual Capabilities capabilities() const = 0;
  /// Replaces the route of `route.model`. `conflict` when the data plane holds a newer epoch.
  virtual schema::Result<void> apply(const ModelRoute& route) = 0;
  /// Applies each of them, also behind one that was refused; the first error. Hundreds of routes cost one
  /// durable write of the data plane's state and not one each.
  virtual schema::Result<void> apply_all(const std::vector<ModelRoute>& routes) {
    schema::Result<void> done;
    for (const auto& route : routes) {
      auto applied = apply(route);
      if (done && !applied) done = std::move(applied);
    }
    return done;
  }
  /// Every route as the data plane holds it now.
  virtual schema::Result<std::vector<ObservedRoute>> observe() = 0;
  /// The same of one model; a data plane may tell more than that.
  virtual schema::Result<std::vector<ObservedRoute>> observe_model(const std::string& /*model*/) {
    return observe();
  }
  /// Renews the lease of candidates: without a heartbeat it expires, and they get no more traffic.
  virtual schema::Result<void> heartbeat() = 0;
  /// Closed windows behind `after`, oldest first, at most `limit`; from the first when the data plane is not
  /// the process of `after`.
  virtual schema::Result<std::vector<Window>> windows(const WindowPosition& after, std::size_t limit) = 0;
  /// Windows up to `position` are stored by the daemon and may be forgotten; nothing when they are of another
  /// process.
  virtual schema::Result<void> acknowledge(const WindowPosition& position) = 0;
  /// Windows of these models up to these numbers are stored as well, while one of another model below them is
  /// not. A data plane that keeps them all the same loses nothing.
  virtual schema::Result<void> acknowledge_models(const std::string& /*router_id*/,
                                                  const std::map<std::string, std::uint64_t>& /*models*/) {
    return {};
  }
  /// How the engines of all routes are, and what their breakers did behind `after`; from the first event when
  /// the data plane is not the process of `after`. Nothing of either from a data plane that does not watch
  /// engines.
  virtual schema::Result<HealthReport> health(const WindowPosition& after) = 0;
  /// The same without engines whose breaker is closed, for a look several times a second.
  virtual schema::Result<HealthReport> outages(const WindowPosition& after) { return health(after); }
  /// The spool file with the pairs of a stage, complete (flushed), or `not_found`; `conflict` while mirrored
  /// requests of the stage are in flight: ask again.
  virtual schema::Result<std::string> spool_path(const std::string& stage_key) = 0;
  /// Forgets and deletes the spool of a stage.
  virtual schema::Result<void> drop_spool(const std::string& stage_key) = 0;
};

}  // namespace driftgate::route
