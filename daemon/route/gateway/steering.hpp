#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/route/gateway/http_route.hpp"
#include "daemon/route/gateway/kube_api.hpp"
#include "daemon/route/gateway/target.hpp"
#include "daemon/route/health/engine.hpp"
#include "daemon/route/table/route_table.hpp"
#include "daemon/route/worker/look_loop.hpp"
#include "daemon/route/worker/steered_plane.hpp"

namespace driftgate::route::gateway {

/// A Gateway of Kubernetes in front of this router (docs/data_planes.md). One thread keeps the HTTPRoutes at
/// the routes of the table and looks every other second whether they still are, and whether the Gateways
/// accepted them. Several routers may write: each HTTPRoute bears the epoch and the revision of its route, a
/// newer one stays as it is, and what was changed since it was read is not written over.
class Steering final : public SteeredPlane {
 public:
  static constexpr std::chrono::milliseconds kLookEvery{2'000};
  /// Between two looks while a Gateway has yet to say whether it accepts what was written.
  static constexpr std::chrono::milliseconds kLookSoon{100};
  static constexpr std::chrono::milliseconds kHurry{10'000};  ///< for so long after a change
  /// So long what was seen counts while the Kubernetes API does not answer. Nobody sees a candidate by it.
  static constexpr std::chrono::milliseconds kFresh{60'000};

  /// Begins; the Kubernetes API need not answer yet. `invalid_argument` for options that make no sense.
  static schema::Result<std::unique_ptr<Steering>> start(const RouterOptions& options, RouteTable& routes,
                                                         const EngineBook& engines);
  ~Steering() override;

  [[nodiscard]] Capabilities capabilities() const override;
  /// The Gateway only decides what passes the router, which places and counts it.
  [[nodiscard]] bool places() const override { return false; }
  schema::Result<void> settle(const std::string& model) override;
  void wake() override;
  [[nodiscard]] std::vector<ObservedRoute> held(std::vector<ObservedRoute> routes) const override;
  [[nodiscard]] bool may_expose() const override;
  [[nodiscard]] const std::string& secret() const override { return secret_; }
  [[nodiscard]] std::string fault() const override;

 private:
  using Time = std::chrono::steady_clock::time_point;

  /// What a look found.
  struct Seen {
    std::map<std::string, Fence> fences;           ///< of the HTTPRoutes in force, by model
    std::map<std::string, schema::Error> refused;  ///< routes that are not in force, by model
    /// Something was written lately, and a Gateway has yet to say whether it accepts it.
    bool hurry = false;
    [[nodiscard]] bool waits() const;  ///< for a Gateway, or to read something again
  };
  using State = LookLoop<Seen>::State;

  Steering(Target target, KubeApi api, RouteTable& routes, const EngineBook& engines);

  // The thread that steers.
  schema::Result<Seen> look();
  schema::Result<void> bring(const ModelRoute& route, const AccessByUrl& access,
                             const KubeApi::Objects& objects);
  schema::Result<nlohmann::json> written(const ModelRoute& route, const nlohmann::json& held,
                                         nlohmann::json wanted);

  const Target target_;
  KubeApi api_;
  RouteTable& routes_;
  const EngineBook& engines_;
  const std::string secret_{};
  Time changed_{};  ///< when an HTTPRoute was written last

  LookLoop<Seen> loop_{"the Gateway"};  ///< ends before what its looks use
};

}  // namespace driftgate::route::gateway
