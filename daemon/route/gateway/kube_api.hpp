#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "daemon/net/http_client.hpp"
#include "daemon/route/worker/router_options.hpp"
#include "schema/error.hpp"

namespace driftgate::route::gateway {

/// The HTTPRoutes of one installation in one namespace, over the Kubernetes API. One thread at a time; each
/// call is one or two exchanges of at most kExchange.
///
/// Errors: `unavailable` (no answer, 429 or 5xx), `deadline_exceeded`, `unauthenticated` (401), `forbidden`
/// (403, or a certificate that the CA file does not vouch for), `not_found` (404: the Gateway API is not
/// installed), `invalid_argument` (refused by the API server's rules), `io` (the token or the CA file).
class KubeApi {
 public:
  static constexpr std::chrono::milliseconds kExchange{5'000};

  /// From the options `gateway_*`; connects to nothing yet. `invalid_argument` for a URL that is neither
  /// https nor http on loopback, where the token would be read by others.
  static schema::Result<KubeApi> open(const RouterOptions& options);

  using Objects = std::map<std::string, nlohmann::json>;  ///< by name
  /// All HTTPRoutes that bear the installation's label.
  schema::Result<Objects> list();
  /// Makes an HTTPRoute; what the API server made of it. `already_exists`.
  schema::Result<nlohmann::json> create(const nlohmann::json& object);
  /// Server-side apply over the version `version` (metadata.resourceVersion) of the HTTPRoute; what the API
  /// server made of it. `unavailable` when the HTTPRoute has changed since: read it again. `conflict` with
  /// the fields when somebody else has taken fields over that `object` sets otherwise.
  schema::Result<nlohmann::json> apply(nlohmann::json object, const std::string& version);

 private:
  KubeApi(net::Url api, const RouterOptions& options);
  schema::Result<net::ClientResponse> ask(std::string method, std::string_view below, std::string type,
                                          std::string body);
  schema::Result<nlohmann::json> patch(const nlohmann::json& object, bool force, bool& ours);

  const std::string token_file_;
  const std::string installation_;
  const std::string routes_;  ///< path of the namespace's HTTPRoutes
  net::HttpClient client_;
};

}  // namespace driftgate::route::gateway
