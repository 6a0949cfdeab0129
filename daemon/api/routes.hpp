#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/api/call.hpp"
#include "daemon/auth/principal.hpp"
#include "daemon/net/server.hpp"

namespace driftgate::api {

/// A query parameter; `type` is a JSON Schema type.
struct QueryParameter {
  std::string_view name;
  std::string_view type;
  std::string_view text;
};

/// One documented answer. `schema` names a component of openapi_schemas.cpp; empty for other media types.
struct Answer {
  int status = 200;
  std::string_view schema;
  std::string_view text;
  std::string_view media_type = "application/json";
};

/// One operation of the API: what dispatches a request, what checks it, and what documents it.
struct Route {
  std::string_view method;
  std::string_view path;  ///< "/v1/promotions/{id}/approve"
  std::string_view id;    ///< operationId
  std::string_view tag;
  std::string_view summary;
  std::optional<auth::Scope> scope{};  ///< nothing: open to everyone
  HandlerFunction handler = nullptr;
  std::vector<Answer> answers{};
  std::vector<QueryParameter> query{};
  std::string_view request_schema{};  ///< empty: no body
  bool idempotent = false;            ///< takes Idempotency-Key
  bool yaml = false;                  ///< the body may also be YAML
  net::Lane lane = net::Lane::ordinary;  ///< the threads that answer it
  bool waits = false;                 ///< answers with a promotion; `Prefer: wait=N` waits for its end
};

/// Every route, in the order of the reference. The API, its OpenAPI document and the tests over all
/// endpoints are made from it.
[[nodiscard]] const std::vector<Route>& routes();

/// A route and the decoded values of its {…} parts.
struct Match {
  const Route* route = nullptr;
  std::vector<std::string> values;
};

/// The route of a method and an encoded path. Without one, `allowed` has the methods that the path knows,
/// comma-separated; empty when there is no such path.
[[nodiscard]] std::optional<Match> match_route(std::string_view method, std::string_view path,
                                               std::string& allowed);

}  // namespace driftgate::api
