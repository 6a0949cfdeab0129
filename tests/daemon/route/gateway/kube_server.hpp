#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/daemon/net/raw_peer.hpp"

namespace driftgate::route::gateway {

/// A stand-in for the Kubernetes API of HTTPRoutes in one namespace, written from the documentation of
/// Kubernetes (server-side apply, resource versions, the status subresource, Status objects). It checks no
/// schema.
class KubeServer {
 public:
  /// Speaks TLS with the certificate of `certificates()` and knows one token.
  explicit KubeServer(std::string token);

  [[nodiscard]] std::uint16_t port() const { return server_.port(); }
  /// From now on another token counts.
  void set_token(std::string token);
  /// The next request gets this answer.
  void answer_next(int status, std::string body);
  /// "GET /apis/…?labelSelector=…", oldest first.
  [[nodiscard]] std::vector<std::string> seen() const;

 private:
  struct Answer {
    int status = 200;
    nlohmann::json body;
  };
  struct Stored {
    nlohmann::json object;
    std::map<std::string, std::set<std::string>> owners;  ///< of each field, a JSON pointer
  };

  net::Response respond(const net::Request& request);
  Answer dispatch(const net::Request& request);
  Answer on_object(const net::Request& request, const std::string& name, bool status);
  Answer list(const std::string& selector) const;
  Answer create(const nlohmann::json& object, const std::string& manager);
  Answer apply(Stored& stored, const nlohmann::json& wanted, const std::string& manager, bool force);
  Answer merge(Stored& stored, const nlohmann::json& patch, const std::string& manager);
  Answer put_status(Stored& stored, const nlohmann::json& patch);
  void replace(Stored& stored, nlohmann::json next);

  mutable std::mutex mutex_;
  std::string token_;
  std::vector<Answer> planned_;
  std::vector<std::string> seen_;
  std::map<std::string, Stored> stored_;
  std::uint64_t version_ = 100;
  net::test::TestServer server_;  // last: its threads use what stands above
};

}  // namespace driftgate::route::gateway
