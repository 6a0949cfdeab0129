#include "daemon/api/api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <any>
#include <nlohmann/json.hpp>
#include <ranges>
#include <utility>

#include "daemon/api/access/credentials.hpp"
#include "daemon/api/problem.hpp"
#include "daemon/api/streams/promotion_feed.hpp"
#include "daemon/api/routes.hpp"
#include "daemon/base/json_members.hpp"
#include "schema/sha256.hpp"

namespace driftgate::api {
namespace {

using schema::ErrorCode;

std::optional<net::Response> check_query(const Route& route, const net::RequestHead& head) {
  for (const auto& [name, value] : head.query) {
    const auto known = [&name](const QueryParameter& parameter) { return parameter.name == name; };
    if (std::ranges::any_of(route.query, known)) continue;
    const auto known_names = route.query | std::views::transform(&QueryParameter::name);
    const std::string names = fmt::format("{}", fmt::join(known_names.begin(), known_names.end(), ", "));
    return problem(ErrorCode::invalid_argument, fmt::format("unknown query parameter '{}'; {} takes {}", name,
                                                            route.path, names.empty() ? "none" : names));
  }
  return std::nullopt;
}

net::Response too_many() {
  net::Response response =
      net::plain_problem(429, "rate_limited", "Too many requests with this token. Try again in a second.");
  response.headers.push_back({"Retry-After", "1"});
  return response;
}

std::string request_digest(const net::Request& request) {
  schema::Sha256 hash;
  hash.update(request.method).update("\n").update(request.path).update("\n");
  for (const auto& [name, value] : request.query) hash.update(name).update("=").update(value).update("\n");
  hash.update("\n").update(request.body);
  return schema::digest_text(hash.finish());
}

net::Response idempotency_problem(const schema::Error& error) {
  if (error.code == ErrorCode::invalid_argument)
    return net::plain_problem(422, "idempotency_key_reused", error.describe());
  return problem(error);
}

}  // namespace

/// What before_body hands on to handle.
struct Api::Admitted {
  Match match;
  auth::Principal principal;
};

/// The page answers, which is open to everyone.
struct Api::PageAsked {};

Api::Api(Context context)
    : context_(std::move(context)), limiter_(context_.requests_per_second, context_.burst) {
  context_.events =
      std::make_shared<EventBoard>(context_.service, context_.evidence, context_.commits, context_.now_us);
}

/// What is no operation of the API: the page, or nothing.
std::optional<net::Response> Api::admit_elsewhere(net::RequestHead& head, const std::string& allowed) {
  if (allowed.empty() && context_.site != nullptr && context_.site->has(head.path)) {
    if (!web::Site::takes(head.method)) return web::Site::refuse(head);
    head.context = PageAsked{};
    return std::nullopt;
  }
  if (allowed.empty())
    return net::plain_problem(404, "not_found",
                              fmt::format("There is no '{}'; /openapi.json lists all paths.", head.path));
  net::Response response = net::plain_problem(
      405, "method_not_allowed", fmt::format("'{}' takes {}, not {}.", head.path, allowed, head.method));
  response.headers.push_back({"Allow", allowed});
  return response;
}

/// Who asks, if they may; else the answer.
std::expected<auth::Principal, net::Response> Api::identify(const net::RequestHead& head, auth::Scope scope) {
  auto principal = authenticate(context_.tokens, head, context_.server.tls);
  if (!principal) return std::unexpected(problem(principal.error()));
  const auto granted = auth::require(*principal, scope);
  if (!granted) return std::unexpected(problem(granted.error()));
  if (!limiter_.allow(principal->token_id, context_.now_us())) return std::unexpected(too_many());
  return std::move(*principal);
}

std::optional<net::Response> Api::admit(net::RequestHead& head) {
  std::string allowed;
  auto match = match_route(head.method, head.path, allowed);
  if (!match) return admit_elsewhere(head, allowed);
  const Route& route = *match->route;
  Admitted admitted{std::move(*match), {}};
  if (route.scope) {
    auto principal = identify(head, *route.scope);
    if (!principal) return std::move(principal.error());
    admitted.principal = std::move(*principal);
  }
  auto bad_query = check_query(route, head);
  if (bad_query) return bad_query;
  head.context = std::move(admitted);
  return std::nullopt;
}

net::Response Api::dispatch(const net::Request& request) {
  const auto* admitted = std::any_cast<Admitted>(&request.context);
  if (admitted == nullptr) return problem(ErrorCode::internal, "a request reached its handler unchecked");
  if (!admitted->match.route->scope) return call_handler(*admitted, request);
  if (!request.body.empty()) {
    // Time has passed since the head. What is written asks again, in its own transaction.
    const auto allowed = context_.tokens.check(admitted->principal);
    if (!allowed) return problem(allowed.error());
  }
  net::Response response = answer(*admitted, request);
  end_with_token(response, context_.tokens, admitted->principal);
  return response;
}

net::Response Api::answer(const Admitted& admitted, const net::Request& request) {
  RequestScope scope(context_.tokens, admitted.principal);
  const store::EnterWriteScope entered(&scope);
  const auto key = request.header("idempotency-key");
  const Route& route = *admitted.match.route;
  const bool dry = request.query_value("dry_run") == "true";
  net::Response response = key && route.idempotent && !dry ? call_once(admitted, request, *key, scope)
                                                           : call_handler(admitted, request);
  return route.waits && !dry ? wait_for_end(request, std::move(response)) : response;
}

net::Response Api::call_handler(const Admitted& admitted, const net::Request& request) {
  auto reply = admitted.match.route->handler(context_, {request, admitted.principal, admitted.match.values});
  return reply ? std::move(*reply) : problem(reply.error());
}

/// The answer that is kept under an idempotency key is the one without the wait.
net::Response Api::wait_for_end(const net::Request& request, net::Response response) {
  const std::chrono::seconds wait = preferred_wait(request);
  if (wait.count() == 0 || response.status >= 300) return response;
  const auto id = base::maybe_text_at(nlohmann::json::parse(response.body, nullptr, false), "id");
  if (!id) return response;
  net::Response deferred;
  deferred.status = response.status;
  deferred.deferred = promotion_wait(context_.service, *id, std::move(response), wait);
  return deferred;
}

net::Response Api::replay(const store::StoredResponse& stored) {
  net::Response response;
  if (stored.status == 0) {
    // An older daemon made the promotion and died before it kept its answer: the promotion as it is now.
    auto view = context_.service.promotion(stored.effect);
    if (!view) return problem(view.error());
    view->created = true;
    response = created_response(*view, "/v1/promotions");
  } else {
    response = from_stored(stored);
  }
  response.headers.push_back({"Idempotency-Replayed", "true"});
  return response;
}

net::Response Api::call_once(const Admitted& admitted, const net::Request& request, std::string_view key,
                             RequestScope& scope) {
  const std::string digest = request_digest(request);
  const store::KeyedRequest keyed{admitted.principal.name, key, digest};
  const auto before = context_.idempotency.find(keyed);
  if (!before) return idempotency_problem(before.error());
  if (*before) return replay(**before);
  const Route& route = *admitted.match.route;
  const bool creates = std::ranges::find(route.answers, 201, &Answer::status) != route.answers.end();
  scope.keep_answer_of(keyed, creates ? route.path : std::string_view(), context_.now_us());
  net::Response response = call_handler(admitted, request);
  const bool succeeded = response.status >= 200 && response.status < 300;
  if (scope.kept() && !creates) return settle_kept(keyed, std::move(response), succeeded);
  if (succeeded && scope.kept()) return from_stored(*scope.kept());
  // The same request may have been answered on another connection meanwhile; then this one made nothing.
  const auto meanwhile = context_.idempotency.find(keyed);
  if (meanwhile && *meanwhile) return replay(**meanwhile);
  if (!succeeded) return response;
  const auto kept = context_.idempotency.keep(keyed, to_stored(response));
  return kept ? std::move(response) : problem(kept.error());
}

/// An action was recorded with an answer. What followed from it, such as the read-back of a route, has
/// changed the answer since, or was a failure that the client is told.
net::Response Api::settle_kept(const store::KeyedRequest& keyed, net::Response response, bool succeeded) {
  // Where the newer answer cannot be kept, the one that is kept is true too.
  if (succeeded) (void)context_.idempotency.replace(keyed, to_stored(response));
  return response;
}

void Api::record(const net::RequestHead& head, const std::string& principal, int status,
                 std::int64_t started_us) {
  if (!context_.log) return;
  context_.log({head.method, head.path, principal, head.remote_address, status,
                std::chrono::microseconds(context_.now_us() - started_us)});
}

std::optional<net::Response> Api::before_body(net::RequestHead& head) {
  const std::int64_t started_us = context_.now_us();
  auto refusal = admit(head);
  if (refusal) record(head, "", refusal->status, started_us);
  return refusal;
}

net::Lane Api::lane_of(const net::RequestHead& head) {
  std::string allowed;
  const auto match = match_route(head.method, head.path, allowed);
  return match ? match->route->lane : net::Lane::ordinary;
}

net::Response Api::handle(const net::Request& request) {
  const std::int64_t started_us = context_.now_us();
  if (std::any_cast<PageAsked>(&request.context) != nullptr) {
    net::Response page = context_.site->answer(request);
    record(request, "", page.status, started_us);
    return page;
  }
  net::Response response = dispatch(request);
  response.headers.push_back({"Cache-Control", "no-store"});
  response.headers.push_back({"X-Content-Type-Options", "nosniff"});
  const auto* admitted = std::any_cast<Admitted>(&request.context);
  record(request, admitted == nullptr ? "" : admitted->principal.name, response.status, started_us);
  return response;
}

}  // namespace driftgate::api
