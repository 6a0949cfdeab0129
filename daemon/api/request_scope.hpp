#pragma once

#include <optional>

#include "daemon/api/ports.hpp"
#include "daemon/auth/principal.hpp"
#include "daemon/net/response.hpp"
#include "daemon/store/idempotency.hpp"
#include "daemon/store/sqlite/write_scope.hpp"

namespace driftgate::api {

/// One request as the transactions see it that are run for it. Its token is checked again in each of them, so
/// that a token that ended while the request was on its way has no effect; and the answer is kept under the
/// request's Idempotency-Key in the transaction that makes or changes something.
class RequestScope final : public store::WriteScope {
 public:
  RequestScope(TokenPort& tokens, const auth::Principal& principal)
      : tokens_(tokens), principal_(principal) {}

  /// `collection` is the path below which the route makes things; empty for a route that changes something.
  /// What `request` refers to outlives the scope.
  void keep_answer_of(const store::KeyedRequest& request, std::string_view collection, std::int64_t now_us);

  /// The answer that was kept, once the transaction is committed.
  [[nodiscard]] const std::optional<store::StoredResponse>& kept() const { return kept_; }

  store::Result<void> allow(store::Reader& reader) override;
  store::Result<void> made(store::Tx& tx, const store::Made& made) override;
  [[nodiscard]] bool wants_answer() const override { return keyed_.has_value(); }
  /// Another request has used the key meanwhile.
  [[nodiscard]] bool refused() const override { return refused_; }

 private:
  struct Keyed {
    store::KeyedRequest request;
    std::string_view collection;
    std::int64_t now_us = 0;
  };
  TokenPort& tokens_;
  const auth::Principal& principal_;
  std::optional<Keyed> keyed_{};
  std::optional<store::StoredResponse> kept_{};
  bool refused_ = false;
};

[[nodiscard]] store::StoredResponse to_stored(const net::Response& response);
[[nodiscard]] net::Response from_stored(const store::StoredResponse& stored);

/// Ends what the answer goes on to send when the token or session of `principal` has ended: an event stream,
/// a wait, a body that is made as it is sent.
void end_with_token(net::Response& response, TokenPort& tokens, const auth::Principal& principal);

}  // namespace driftgate::api
