#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/route/haproxy/files.hpp"
#include "daemon/route/haproxy/log_book.hpp"
#include "daemon/route/haproxy/log_socket.hpp"
#include "daemon/route/haproxy/maps.hpp"
#include "daemon/route/haproxy/runtime.hpp"
#include "daemon/route/haproxy/slots.hpp"
#include "daemon/route/table/route_table.hpp"
#include "daemon/route/worker/look_loop.hpp"
#include "daemon/route/worker/steered_plane.hpp"

namespace driftgate::route::haproxy {

/// HAProxy in front of this router (docs/data_planes.md). One thread keeps HAProxy's maps and servers at the
/// routes of the table, looks at them every second, and notices a HAProxy that was restarted; another one
/// reads its log. Only this process writes to HAProxy: it holds a lock in the folder, and what HAProxy holds
/// of a newer epoch or revision than the table stays as it is.
class Steering final : public SteeredPlane {
 public:
  static constexpr std::chrono::milliseconds kLookEvery{1'000};
  /// So long a look counts as what HAProxy holds; without another one nothing is exposed then.
  static constexpr std::chrono::milliseconds kFresh{5'000};

  /// Locks the folder, writes HAProxy's files, binds the socket for its log and begins. HAProxy need not run
  /// yet. `port` is where this router listens; `conflict` when another router steers by the folder.
  static schema::Result<std::unique_ptr<Steering>> start(const RouterOptions& options, std::uint16_t port,
                                                         RouteTable& routes, Ledger& ledger);
  ~Steering() override;

  [[nodiscard]] Capabilities capabilities() const override;
  [[nodiscard]] bool places() const override { return true; }
  schema::Result<void> settle(const std::string& model) override;
  void wake() override;
  [[nodiscard]] std::vector<ObservedRoute> held(std::vector<ObservedRoute> routes) const override;
  [[nodiscard]] bool may_expose() const override;
  [[nodiscard]] const std::string& secret() const override { return files_.secret(); }
  [[nodiscard]] std::string fault() const override;

 private:
  using Time = std::chrono::steady_clock::time_point;

  /// What a look found.
  struct Seen {
    std::map<std::string, std::string> tags;       ///< of the routes in force, by model
    std::map<std::string, schema::Error> refused;  ///< routes that HAProxy does not get, by model
    bool lease = true;                             ///< HAProxy takes the lease for held
  };
  using State = LookLoop<Seen>::State;

  Steering(const RouterOptions& options, RouteTable& routes, Ledger& ledger, StartFiles files, Slots slots,
           base::UniqueFd lock);
  void listen(base::UniqueFd socket);

  // The thread that steers.
  using Placed = std::vector<PlacedRoute>;
  schema::Result<Seen> look();
  schema::Result<void> steer(const Placed& wanted, Seen& seen);
  schema::Result<std::uint64_t> meet_process();
  Placed plan(const std::vector<ObservedRoute>& routes, Seen& seen);
  schema::Result<PlacedRoute> placed(const ObservedRoute& observed);
  schema::Result<void> bring_servers(const PlacedRoute& wanted);
  schema::Result<void> bring_slices(const std::vector<MapEntry>& target, const Maps& held,
                                    bool routes_change);
  schema::Result<std::vector<MapEntry>> bring_maps(const Maps& target, const Maps& present);
  schema::Result<void> retire_servers(const PlacedRoute& wanted);
  schema::Result<void> compare_counts(std::uint64_t boot, const Placed& wanted, Seen& seen);

  RouteTable& routes_;
  Ledger& ledger_;
  const Runtime runtime_;
  const std::chrono::milliseconds deadline_;  ///< of a request
  const base::UniqueFd lock_;
  StartFiles files_;
  Slots slots_;
  std::uint64_t boot_ = 0;
  std::uint64_t dropped_before_ = 0;           ///< log lines, when the process was met
  Time committed_{};                           ///< when the map of routes was replaced last
  std::map<std::string, PlacedRoute> placed_;  ///< by model, so that names are not resolved each time
  std::optional<LogBook> book_;

  std::unique_ptr<LogReader> reader_;
  LookLoop<Seen> loop_{"HAProxy"};  ///< ends before what its looks use
};

}  // namespace driftgate::route::haproxy
