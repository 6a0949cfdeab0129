#include "daemon/api/request_scope.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/api/call.hpp"
#include "daemon/api/preconditions.hpp"
#include "daemon/api/problem.hpp"

namespace driftgate::api {
namespace {

/// Checks the token before everything that `Inner` goes on to send.
template <typename Inner>
class Guarded : public Inner {
 public:
  Guarded(std::shared_ptr<Inner> inner, TokenPort& tokens, auth::Principal principal)
      : inner_(std::move(inner)), tokens_(tokens), principal_(std::move(principal)) {}

 protected:
  schema::Result<void> allowed() { return tokens_.check(principal_); }
  std::shared_ptr<Inner> inner_;

 private:
  TokenPort& tokens_;
  const auth::Principal principal_;
};

class GuardedFeed final : public Guarded<net::EventFeed> {
 public:
  using Guarded::Guarded;
  Batch next() override { return allowed() ? inner_->next() : Batch{{}, true}; }
};

class GuardedWait final : public Guarded<net::Deferred> {
 public:
  using Guarded::Guarded;
  std::optional<net::Response> poll(bool last) override {
    const auto still = allowed();
    return still ? inner_->poll(last) : problem(still.error());
  }
  [[nodiscard]] std::chrono::milliseconds wait() const override { return inner_->wait(); }
};

class GuardedBody final : public Guarded<net::BodySource> {
 public:
  using Guarded::Guarded;
  schema::Result<std::string> next() override {
    TRY(allowed());
    return inner_->next();
  }
};

}  // namespace

void RequestScope::keep_answer_of(const store::KeyedRequest& request, std::string_view collection,
                                  std::int64_t now_us) {
  keyed_ = Keyed{request, collection, now_us};
}

store::Result<void> RequestScope::allow(store::Reader& reader) {
  return tokens_.check_in(reader, principal_);
}

store::Result<void> RequestScope::made(store::Tx& tx, const store::Made& made) {
  if (!keyed_) return {};
  const pipeline::View view{std::string(made.id), made.revision, true, std::string(made.json)};
  net::Response response =
      keyed_->collection.empty() ? json_response(200, view.json) : created_response(view, keyed_->collection);
  if (made.revision > 0) response.headers.push_back({"ETag", etag_of(made.revision)});
  store::StoredResponse stored = to_stored(response);
  stored.effect = made.id;
  auto done = store::idempotency_keep(tx, keyed_->request, stored, keyed_->now_us);
  if (done) kept_ = std::move(stored);
  refused_ = !done && done.error().code == schema::ErrorCode::already_exists;
  return done;
}

store::StoredResponse to_stored(const net::Response& response) {
  nlohmann::json headers = nlohmann::json::object();
  for (const net::Header& header : response.headers) headers[header.name] = header.value;
  return {response.status, headers.dump(), response.body};
}

net::Response from_stored(const store::StoredResponse& stored) {
  net::Response response;
  response.status = stored.status;
  response.body = stored.body;
  const auto headers = nlohmann::json::parse(stored.headers, nullptr, false);
  if (headers.is_object())
    for (const auto& [name, value] : headers.items())
      if (value.is_string()) response.headers.push_back({name, value.get<std::string>()});
  return response;
}

void end_with_token(net::Response& response, TokenPort& tokens, const auth::Principal& principal) {
  if (response.feed) response.feed = std::make_shared<GuardedFeed>(std::move(response.feed), tokens, principal);
  if (response.deferred)
    response.deferred = std::make_shared<GuardedWait>(std::move(response.deferred), tokens, principal);
  if (response.source)
    response.source = std::make_shared<GuardedBody>(std::move(response.source), tokens, principal);
}

}  // namespace driftgate::api
