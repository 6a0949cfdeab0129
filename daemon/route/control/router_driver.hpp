#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/engine_access.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/route/control/driver.hpp"
#include "daemon/route/health/engine.hpp"

namespace driftgate::route {

/// Who answers on a control socket.
struct RouterInfo {
  int pid = 0;
  std::uint16_t port = 0;  ///< of users' traffic
  std::string router_id;
  bool draining = false;         ///< it was told to stop and takes no new connections
  std::string plane = "router";  ///< what serves users: Capabilities::plane
  std::string plane_fault{};  ///< why HAProxy could not be steered when that was last tried; "" when it could
  bool retiring = false;      ///< another router follows on the same sockets
};

/// The data planes that a router process keeps: itself, or HAProxy in front of it. A blocking client of the
/// router's control socket. Reconnects by itself; a request that was lost with a broken connection is sent
/// once more, which is safe since all are repeatable. Safe from any thread, one request at a time.
///
/// While one router follows another both may serve: routes and heartbeats go to those that stepped aside as
/// well, a route is in force only where all hold it, and their windows are read until they have ended.
class RouterDriver final : public Driver {
 public:
  explicit RouterDriver(std::string control_path,
                        std::chrono::milliseconds deadline = std::chrono::milliseconds(5'000));
  /// For a router that steers the plane with these capabilities.
  RouterDriver(std::string control_path, Capabilities can,
               std::chrono::milliseconds deadline = std::chrono::milliseconds(5'000));

  [[nodiscard]] Capabilities capabilities() const override;
  schema::Result<void> apply(const ModelRoute& route) override;
  schema::Result<void> apply_all(const std::vector<ModelRoute>& routes) override;
  schema::Result<std::vector<ObservedRoute>> observe() override;
  schema::Result<std::vector<ObservedRoute>> observe_model(const std::string& model) override;
  schema::Result<void> heartbeat() override;
  schema::Result<std::vector<Window>> windows(const WindowPosition& after, std::size_t limit) override;
  schema::Result<void> acknowledge(const WindowPosition& position) override;
  schema::Result<void> acknowledge_models(const std::string& router_id,
                                          const std::map<std::string, std::uint64_t>& models) override;
  schema::Result<HealthReport> health(const WindowPosition& after) override;
  schema::Result<HealthReport> outages(const WindowPosition& after) override;
  schema::Result<std::string> spool_path(const std::string& stage_key) override;
  schema::Result<void> drop_spool(const std::string& stage_key) override;

  /// Says what the engine of a base URL asks for.
  using AccessOf = std::function<schema::Result<base::EngineAccess>(const std::string& url)>;
  /// From now on each route is applied with what its engines ask for. An error of `access_of` leaves the
  /// router with what it knows, so that it never keeps a route from being applied. Before the first call of
  /// apply.
  void ask_access_of(AccessOf access_of) { access_of_ = std::move(access_of); }

  /// `unavailable` when no router answers.
  schema::Result<RouterInfo> info();
  /// How the router that answers now names itself in Via of what it passes on; empty when none answers.
  [[nodiscard]] std::string mark();
  /// Asks the router to drain and end.
  schema::Result<void> shutdown();
  /// Asks it to step aside for another router; the path of its control socket from then on. `unsupported`
  /// from one that steers HAProxy or a Gateway, `invalid_argument` from one of an older version, `conflict`
  /// when it is ending.
  schema::Result<std::string> retire();
  /// Asks a router that stepped aside to take its place again. `conflict` when another one has it.
  schema::Result<void> resume();

 private:
  using Peers = std::vector<std::shared_ptr<RouterDriver>>;
  /// The routers that stepped aside and live.
  Peers peers();
  [[nodiscard]] std::optional<AccessByUrl> access_for(const ModelRoute& route) const;
  schema::Result<void> check_understands_access();
  schema::Result<void> apply_here(const ModelRoute& route, const std::optional<AccessByUrl>& access);
  /// Each element is {"route", "access"}. A route whose engines ask for what the router cannot show them is
  /// left out, and is the error.
  schema::Result<void> apply_list_here(const nlohmann::json& list);
  schema::Result<std::vector<ObservedRoute>> observe_here();
  schema::Result<std::vector<ObservedRoute>> observe_all(nlohmann::json first);
  schema::Result<std::vector<ObservedRoute>> observe_model_here(const std::string& model);
  template <typename ObserveHere>
  schema::Result<std::vector<ObservedRoute>> observe_with(ObserveHere observe_at);
  schema::Result<HealthReport> read_health(const WindowPosition& after, bool outages_alone);
  schema::Result<std::vector<Window>> windows_here(const WindowPosition& after, std::size_t limit);
  /// The answer of the router on the control path, unless one that stepped aside and lives gave none.
  schema::Result<void> tell_all(const nlohmann::json& request);
  /// The router's process is gone, so that nobody is served by it.
  [[nodiscard]] bool is_gone(const schema::Error& error) const;
  schema::Result<nlohmann::json> call(const nlohmann::json& request);
  schema::Result<std::string> send_once(const std::string& frame,
                                        std::chrono::steady_clock::time_point deadline);

  const std::string control_path_;
  const Capabilities can_;
  const std::chrono::milliseconds deadline_;
  AccessOf access_of_;
  std::mutex mutex_;
  base::UniqueFd socket_;
  std::string buffer_;
  std::mutex held_mutex_;
  std::string held_version_;         ///< of held_; "" = none is known
  std::vector<ObservedRoute> held_;  ///< as the router told it last
  std::mutex read_mutex_;
  WindowPosition read_;  ///< of the newest window that came from this router
  std::mutex peers_mutex_;
  std::map<std::string, std::shared_ptr<RouterDriver>> peers_;  ///< by the path of the control socket
};

}  // namespace driftgate::route
