#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "daemon/api/body.hpp"
#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/route_builder.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::fail;

constexpr std::int64_t kMaxExpiry_s = 10LL * 366 * 24 * 3600;

json token_json(const auth::TokenInfo& token) {
  const auto time = [](const std::optional<std::int64_t>& us) { return us ? json(*us) : json(nullptr); };
  return {{"id", token.id},
          {"name", token.name},
          {"scopes", token.scopes.names()},
          {"granted_by", token.granted_by},
          {"created_us", token.created_us},
          {"expires_us", time(token.expires_us)},
          {"revoked_us", time(token.revoked_us)}};
}

schema::Result<auth::Scopes> scopes_of(const json& body) {
  const auto found = body.find("scopes");
  if (found == body.end() || !found->is_array())
    return fail(ErrorCode::invalid_document, "'scopes' must be a list of scope names", "/scopes");
  std::string names;
  for (const json& scope : *found) {
    if (!scope.is_string()) return fail(ErrorCode::invalid_document, "a scope must be a string", "/scopes");
    if (!names.empty()) names += ',';
    names += scope.get<std::string>();
  }
  return auth::parse_scopes(names);
}

schema::Result<auth::TokenRequest> token_request(std::string_view text, std::int64_t now_us) {
  const auto body = TRY(parse_body(text, {"name", "scopes", "expires_in_s"}));
  const auto name = body.find("name");
  if (name == body.end() || !name->is_string())
    return fail(ErrorCode::invalid_document, "'name' must be given as a string", "/name");
  auth::TokenRequest request;
  request.name = name->get<std::string>();
  auto scopes = TRY(scopes_of(body));
  request.scopes = scopes;
  if (const auto expires = body.find("expires_in_s"); expires != body.end()) {
    if (!expires->is_number_integer() || expires->get<std::int64_t>() < 1 ||
        expires->get<std::int64_t>() > kMaxExpiry_s)
      return fail(ErrorCode::invalid_document, fmt::format("'expires_in_s' must be 1 to {}", kMaxExpiry_s),
                  "/expires_in_s");
    request.expires_us = now_us + expires->get<std::int64_t>() * 1'000'000;
  }
  return request;
}

Reply post_token(Context& context, const Call& call) {
  auto request = TRY(token_request(call.request.body, context.now_us()));
  request.granted_by = call.principal.name;
  const auto issued = TRY(context.tokens.issue(request));
  json body = token_json(issued.info);
  body["bearer"] = issued.bearer;
  net::Response response = json_response(201, body.dump());
  response.headers.push_back({"Location", "/v1/tokens/" + issued.info.id});
  return response;
}

Reply list_tokens(Context& context, const Call&) {
  const auto tokens = TRY(context.tokens.list());
  json items = json::array();
  for (const auth::TokenInfo& token : tokens) items.push_back(token_json(token));
  return json_response(200, json{{"items", items}, {"next", nullptr}}.dump());
}

Reply delete_token(Context& context, const Call& call) {
  TRY(context.tokens.revoke(call.path[0], call.principal.name));
  return no_content();
}

}  // namespace

void add_token_routes(std::vector<Route>& list) {
  RouteGroup tokens(list, "tokens");
  tokens.post("/v1/tokens", "issueToken", "Issue a token; the bearer is shown once", Scope::admin, post_token)
      .body("TokenRequest")
      .answer(201, "IssuedToken", "issued");
  tokens.get("/v1/tokens", "listTokens", "All tokens, without secrets", Scope::admin, list_tokens)
      .answer(200, "TokenPage", "newest first");
  tokens.add("DELETE", "/v1/tokens/{id}", "revokeToken", "Revoke a token", Scope::admin, delete_token)
      .answer(204, "", "revoked");
}

}  // namespace driftgate::api
