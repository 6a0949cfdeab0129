#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/api/ports.hpp"
#include "daemon/auth/principal.hpp"
#include "daemon/net/request.hpp"
#include "schema/error.hpp"

namespace driftgate::api {

/// The cookie of a session, as it is named over TLS and at a port, and the header that must come with it.
inline constexpr std::string_view kSecureSessionCookie = "__Host-driftgate_session";
inline constexpr std::string_view kSessionCookie = "driftgate_session";
inline constexpr std::string_view kCsrfHeader = "x-csrf-token";

/// Whether the browser reached the daemon over TLS: its own (`tls`) or a proxy's. What a client says of a
/// proxy counts for its own cookie alone.
[[nodiscard]] bool is_secure(const net::RequestHead& head, bool tls);

/// The name of the session's cookie for this request. Over TLS only the host itself can set it (`__Host-`).
/// Else it ends in the port that the browser asked for, since cookies belong to a host whatever the port is,
/// and two daemons may be reached on one: `driftgate_session_7433`; without one in `Host`,
/// `driftgate_session`.
[[nodiscard]] std::string session_cookie_name(const net::RequestHead& head, bool tls);

/// The value of the session's cookie; nothing when there is none. `unauthenticated` when there are several:
/// one of them may be another site's.
[[nodiscard]] schema::Result<std::optional<std::string_view>> session_cookie(const net::RequestHead& head,
                                                                             bool tls);

/// Who asks: the holder of the token in Authorization or, without that header, of the session in the cookie.
/// `unauthenticated` for neither, and for what is unknown or has ended. With the cookie, `forbidden` for a
/// request that another site caused (Sec-Fetch-Site), and for a change without the session's X-CSRF-Token.
[[nodiscard]] schema::Result<auth::Principal> authenticate(TokenPort& tokens, const net::RequestHead& head,
                                                           bool tls);

}  // namespace driftgate::api
