#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/api/access/rate_limiter.hpp"
#include "daemon/api/call.hpp"
#include "daemon/api/request_scope.hpp"
#include "daemon/net/server.hpp"

namespace driftgate::api {

/// The HTTP API: finds the route, checks token or session, scope and rate before the body is read, replays
/// answers by idempotency key, calls the handler. Thread-safe.
class Api final : public net::Handler {
 public:
  explicit Api(Context context);
  std::optional<net::Response> before_body(net::RequestHead& head) override;
  net::Response handle(const net::Request& request) override;
  net::Lane lane_of(const net::RequestHead& head) override;

 private:
  struct Admitted;
  struct PageAsked;
  std::optional<net::Response> admit(net::RequestHead& head);
  std::optional<net::Response> admit_elsewhere(net::RequestHead& head, const std::string& allowed);
  std::expected<auth::Principal, net::Response> identify(const net::RequestHead& head, auth::Scope scope);
  net::Response dispatch(const net::Request& request);
  net::Response answer(const Admitted& admitted, const net::Request& request);
  net::Response call_handler(const Admitted& admitted, const net::Request& request);
  net::Response call_once(const Admitted& admitted, const net::Request& request, std::string_view key,
                          RequestScope& scope);
  net::Response replay(const store::StoredResponse& stored);
  net::Response settle_kept(const store::KeyedRequest& keyed, net::Response response, bool succeeded);
  net::Response wait_for_end(const net::Request& request, net::Response response);
  void record(const net::RequestHead& head, const std::string& principal, int status,
              std::int64_t started_us);

  Context context_;
  RateLimiter limiter_;  ///< by token
};

}  // namespace driftgate::api
