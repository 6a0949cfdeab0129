#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "daemon/net/http_client.hpp"
#include "daemon/route/worker/router_options.hpp"
#include "tests/daemon/route/gateway/kube_server.hpp"
#include "tests/daemon/route/temporary_folder.hpp"

namespace driftgate::route::gateway {

/// Somebody else who uses the Kubernetes API: a person, or the controller of a Gateway. Every refusal is an
/// exception.
class ApiUser {
 public:
  explicit ApiUser(const RouterOptions& options);

  /// The HTTPRoutes of the installation.
  nlohmann::json list();
  /// The only one of them.
  nlohmann::json only();
  void create(const nlohmann::json& object, const std::string& manager);
  void merge(const std::string& name, const nlohmann::json& patch, const std::string& manager);
  void remove(const std::string& name);
  /// Says as the controller of each of its Gateways what became of this generation of an HTTPRoute: "True"
  /// for both conditions, or `accepted` and `resolved`.
  void say(const nlohmann::json& object, const std::string& accepted = "True",
           const std::string& resolved = "True");
  /// Says "True" of the only HTTPRoute once it is there.
  void accept();

 private:
  nlohmann::json ask(const std::string& method, const std::string& below, const std::string& type = {},
                     const nlohmann::json& body = {});

  const std::string routes_;
  const std::string token_;
  const std::string label_;
  net::HttpClient client_;
};

/// A Kubernetes API for one test: a real API server where DRIFTGATE_KUBE_API names one
/// (scripts/real_gateway), with DRIFTGATE_KUBE_CA and DRIFTGATE_KUBE_TOKEN for the files; else the stand-in.
/// Each test has an installation of its own, whose HTTPRoutes go with it.
class Cluster {
 public:
  Cluster();
  ~Cluster();

  /// Points a router at it.
  void set_options(RouterOptions& options) const;
  [[nodiscard]] RouterOptions options() const;
  ApiUser& user() { return *user_; }
  /// Null when the API server is real.
  KubeServer* stand_in() { return server_.get(); }
  void write_token(const std::string& token) const;

 private:
  TemporaryFolder folder_;
  std::unique_ptr<KubeServer> server_;
  std::string url_, ca_, token_file_, name_;
  std::optional<ApiUser> user_;
};

/// The controller of a Gateway that accepts whatever it is given.
class Controller {
 public:
  explicit Controller(const Cluster& cluster);
  ~Controller();

 private:
  void run();

  ApiUser user_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace driftgate::route::gateway
