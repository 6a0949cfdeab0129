#pragma once

#include <optional>
#include <string_view>

#include "daemon/api/ports.hpp"
#include "daemon/auth/principal.hpp"
#include "daemon/net/request.hpp"
#include "schema/error.hpp"

namespace driftgate::api {

/// The cookie of a session and the header that must come with it.
inline constexpr std::string_view kSessionCookie = "driftgate_session";
inline constexpr std::string_view kCsrfHeader = "x-csrf-token";

/// The value of the session's cookie; nothing when there is none. `unauthenticated` when there are several:
/// one of them may be another site's.
[[nodiscard]] schema::Result<std::optional<std::string_view>> session_cookie(const net::RequestHead& head);

/// Who asks: the holder of the token in Authorization or, without that header, of the session in the cookie.
/// `unauthenticated` for neither, and for what is unknown or has ended. With the cookie, `forbidden` for a
/// request that another site caused (Sec-Fetch-Site), and for a change without the session's X-CSRF-Token.
[[nodiscard]] schema::Result<auth::Principal> authenticate(TokenPort& tokens, const net::RequestHead& head);

}  // namespace driftgate::api
