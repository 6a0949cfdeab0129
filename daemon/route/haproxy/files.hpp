#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/route/haproxy/servers.hpp"
#include "daemon/route/haproxy/slots.hpp"
#include "daemon/route/table/route.hpp"
#include "daemon/route/worker/router_options.hpp"
#include "schema/error.hpp"

// The folder that HAProxy starts from.
namespace driftgate::route::haproxy {

/// Paths in the folder.
struct Files {
  std::string folder;
  [[nodiscard]] std::string config() const { return folder + "/driftgate.cfg"; }  ///< given to HAProxy by -f
  [[nodiscard]] std::string routes() const { return folder + "/routes.map"; }
  [[nodiscard]] std::string slices() const { return folder + "/slices.map"; }
  [[nodiscard]] std::string slots() const { return folder + "/slots.json"; }
  [[nodiscard]] std::string secret() const { return folder + "/secret"; }
  [[nodiscard]] std::string lock() const { return folder + "/lock"; }
};

/// A route with what it needs in HAProxy.
struct PlacedRoute {
  ObservedRoute observed;
  std::string backend;
  std::vector<Server> servers;
};

/// Places a route: its backend and the addresses of its engines, which may take a while to look up.
/// `unsupported`, `limit_exceeded` or `unavailable` when that cannot be.
[[nodiscard]] schema::Result<PlacedRoute> place(const ObservedRoute& observed, Slots& slots);

/// What HAProxy begins with: each route without exposure of its candidate. Those that it cannot hold are told
/// and left out.
[[nodiscard]] std::vector<PlacedRoute> place_all(
    const std::vector<ModelRoute>& routes, Slots& slots,
    const std::function<void(const std::string& model, const schema::Error& why)>& left_out);

/// What the files are made of, and what was written last.
class StartFiles {
 public:
  /// Makes the folder and the secret where they are missing. `router` is where this router listens,
  /// "127.0.0.1:8081". `invalid_argument` for a path that HAProxy's configuration could not carry.
  static schema::Result<StartFiles> open(const RouterOptions& options, std::string router);

  [[nodiscard]] const Files& files() const { return files_; }
  /// Is in the configuration, and in what HAProxy writes and sends.
  [[nodiscard]] const std::string& secret() const { return secret_; }

  /// Writes what HAProxy starts with: every route without exposure of candidates, and the servers that they
  /// name. Only what has changed is written.
  schema::Result<void> write(const std::vector<PlacedRoute>& routes, const Slots& slots);

 private:
  StartFiles(const RouterOptions& options, std::string router);
  schema::Result<void> put(const std::string& path, const std::string& text);

  RouterOptions options_;
  std::string router_;
  Files files_;
  std::string secret_;
  std::map<std::string, std::string> written_;  ///< text by path
};

/// The address of this router as HAProxy on the same machine reaches it: `listen` with the real port, and
/// loopback in place of all addresses.
[[nodiscard]] schema::Result<std::string> router_address(const std::string& listen, std::uint16_t port);

}  // namespace driftgate::route::haproxy
