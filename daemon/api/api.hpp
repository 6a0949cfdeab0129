#pragma once

#include <memory>
#include <optional>

#include "daemon/api/call.hpp"
#include "daemon/net/server.hpp"

namespace driftgate::api {

/// The HTTP API: finds the route, checks token, scope and rate before the body is read, replays answers by
/// idempotency key, calls the handler. Thread-safe.
class Api final : public net::Handler {
 public:
  explicit Api(Context context);
  ~Api() override;
  std::optional<net::Response> before_body(net::RequestHead& head) override;
  net::Response handle(const net::Request& request) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace driftgate::api
