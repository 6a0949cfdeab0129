#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/api/access/credentials.hpp"
#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/route_builder.hpp"
#include "daemon/auth/sessions.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::fail;

/// `csrf` is null for who came with a token: other sites cannot send that.
json session_json(const Context& context, const auth::Principal& principal, json csrf) {
  json expires = nullptr;
  if (principal.expires_us) expires = *principal.expires_us;
  return {{"name", principal.name},
          {"scopes", principal.scopes.names()},
          {"token", principal.token_id},
          {"csrf", std::move(csrf)},
          {"expires_us", std::move(expires)},
          {"server", {{"version", context.server.version}, {"started_us", context.server.started_us}}}};
}

/// An empty value with no time to live clears the cookie.
net::Header cookie_header(const Context& context, const Call& call, std::string_view value,
                          std::int64_t seconds) {
  const bool tls = context.server.tls;
  return {"Set-Cookie", fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}{}",
                                    session_cookie_name(call.request, tls), value, seconds,
                                    is_secure(call.request, tls) ? "; Secure" : "")};
}

/// The session that the browser had, whose cookie the new one takes the place of. Nothing that comes in its
/// cookie keeps anyone from signing in.
void end_session_before(const Context& context, const Call& call) {
  const auto cookie = session_cookie(call.request, context.server.tls);
  if (!cookie || !*cookie) return;
  const auto before = context.tokens.authenticate_session(**cookie);
  if (before) (void)context.tokens.end_session(*before);
}

Reply post_session(Context& context, const Call& call) {
  if (!call.request.body.empty())
    return fail(ErrorCode::invalid_argument,
                "POST /v1/session takes no body, only the token in Authorization");
  const auto opened = TRY(context.tokens.open_session(call.principal));
  end_session_before(context, call);
  auth::Principal principal = call.principal;
  principal.expires_us = opened.expires_us;
  net::Response response =
      json_response(201, session_json(context, principal, auth::csrf_token(opened.cookie)).dump());
  const std::int64_t seconds = std::max<std::int64_t>(1, (opened.expires_us - context.now_us()) / 1'000'000);
  response.headers.push_back(cookie_header(context, call, opened.cookie, seconds));
  response.headers.push_back({"Location", "/v1/session"});
  return response;
}

Reply get_session(Context& context, const Call& call) {
  json csrf = nullptr;
  if (!call.principal.session_id.empty()) {
    const auto cookie = TRY(session_cookie(call.request, context.server.tls));
    csrf = auth::csrf_token(cookie.value_or(""));
  }
  return json_response(200, session_json(context, call.principal, std::move(csrf)).dump());
}

Reply delete_session(Context& context, const Call& call) {
  if (call.principal.session_id.empty())
    return fail(ErrorCode::not_found,
                "this request came with a token and not with a session: there is none to end");
  TRY(context.tokens.end_session(call.principal));
  net::Response response = no_content();
  response.headers.push_back(cookie_header(context, call, "", 0));
  return response;
}

}  // namespace

void add_session_routes(std::vector<Route>& list) {
  RouteGroup session(list, "session");
  session
      .post("/v1/session", "openSession", "Sign in: exchange the token for a session's cookie", Scope::viewer,
            post_session)
      .answer(201, "Session", "signed in; Set-Cookie has the session");
  session
      .get("/v1/session", "getSession", "Who is signed in, and the token that changes need", Scope::viewer,
           get_session)
      .answer(200, "Session", "of the cookie, or of the token");
  session.add("DELETE", "/v1/session", "endSession", "Sign out", Scope::viewer, delete_session)
      .answer(204, "", "ended; Set-Cookie clears the cookie");
}

}  // namespace driftgate::api
