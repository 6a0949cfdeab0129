#include "daemon/api/access/credentials.hpp"

#include <fmt/format.h>

#include "daemon/auth/sessions.hpp"
#include "daemon/base/http_text.hpp"

namespace driftgate::api {
namespace {

using schema::ErrorCode;
using schema::fail;

constexpr std::size_t kMaxPortDigits = 5;

schema::Result<auth::Principal> of_bearer(TokenPort& tokens, std::string_view value) {
  constexpr std::string_view kBearer = "Bearer ";
  if (value.size() < kBearer.size() || !base::equal_ignoring_case(value.substr(0, kBearer.size()), kBearer))
    return fail(ErrorCode::unauthenticated, "only 'Authorization: Bearer dg_…' is accepted");
  return tokens.authenticate(value.substr(kBearer.size()));
}

/// Browsers say where a request comes from (Fetch Metadata); other programs need not.
schema::Result<void> check_site(const net::RequestHead& head) {
  const auto site = head.header("sec-fetch-site");
  if (!site || *site == "same-origin" || *site == "none") return {};
  return fail(
      ErrorCode::forbidden,
      "a session is for the daemon's own page, and another site caused this request: use a token there");
}

schema::Result<void> check_csrf(const net::RequestHead& head, std::string_view cookie) {
  if (head.method == "GET" || head.method == "HEAD") return {};
  const auto given = head.header(kCsrfHeader);
  if (given && auth::is_csrf_token(*given, cookie)) return {};
  return fail(
      ErrorCode::forbidden,
      fmt::format("a change with a session's cookie needs its token in X-CSRF-Token; this request has {}. "
                  "GET /v1/session gives it as 'csrf'",
                  given ? "another one" : "none"));
}

}  // namespace

bool is_secure(const net::RequestHead& head, bool tls) {
  if (tls) return true;
  const std::string_view protocols = head.header("x-forwarded-proto").value_or("");
  // A chain of proxies lists what each was asked over, the browser's first.
  return base::equal_ignoring_case(base::trimmed(protocols.substr(0, protocols.find(','))), "https");
}

std::string session_cookie_name(const net::RequestHead& head, bool tls) {
  if (is_secure(head, tls)) return std::string(kSecureSessionCookie);
  const std::string_view host = head.header("host").value_or("");
  const std::size_t colon = host.rfind(':');
  const std::string_view port = colon == std::string_view::npos ? std::string_view{} : host.substr(colon + 1);
  const bool number = !port.empty() && port.size() <= kMaxPortDigits &&
                      port.find_first_not_of("0123456789") == std::string_view::npos;
  return number ? fmt::format("{}_{}", kSessionCookie, port) : std::string(kSessionCookie);
}

schema::Result<std::optional<std::string_view>> session_cookie(const net::RequestHead& head, bool tls) {
  const std::string name = session_cookie_name(head, tls);
  std::optional<std::string_view> found;
  for (const net::Header& header : head.headers) {
    if (!base::equal_ignoring_case(header.name, "cookie")) continue;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      const std::size_t end = rest.find(';');
      const std::string_view pair = base::trimmed(rest.substr(0, end));
      rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
      const std::size_t equals = pair.find('=');
      if (equals == std::string_view::npos || pair.substr(0, equals) != name) continue;
      if (found)
        return fail(
            ErrorCode::unauthenticated,
            fmt::format("more than one cookie '{}': clear this site's cookies and sign in again", name));
      found = pair.substr(equals + 1);
    }
  }
  return found;
}

schema::Result<auth::Principal> authenticate(TokenPort& tokens, const net::RequestHead& head, bool tls) {
  if (const auto value = head.header("authorization")) return of_bearer(tokens, *value);
  const auto cookie = TRY(session_cookie(head, tls));
  if (!cookie)
    return fail(ErrorCode::unauthenticated,
                "no token: send 'Authorization: Bearer dg_…' (driftgate token issue)");
  auto principal = TRY(tokens.authenticate_session(*cookie));
  TRY(check_site(head));
  TRY(check_csrf(head, *cookie));
  return principal;
}

}  // namespace driftgate::api
