#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "daemon/auth/principal.hpp"
#include "daemon/auth/tokens.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::auth {

// A session stands for a token in a browser, which keeps a cookie instead of the token. It may do what the
// token may, under the token's name, and ends with it.

/// The oldest session of a token ends when it would have more.
inline constexpr std::size_t kMaxSessionsOfToken = 20;

/// Seals the rows of sessions. It lies outside the database.
using SessionKey = std::array<std::uint8_t, 32>;

struct SessionOptions {
  SessionKey key = random_secret();
  std::int64_t lifetime_s = 43'200;  ///< of a session whose token lasts longer
};

/// The key in `file` (64 hex digits), which is made (0600) when there is none. `io`; `corrupt` when the file
/// holds something else.
Result<SessionKey> session_key(const std::filesystem::path& file);

struct OpenedSession {
  std::string cookie{};  ///< 64 hex digits: shown once, only its SHA-256 is stored
  std::int64_t expires_us = 0;
};

/// Opens a session of the principal's token; those that have expired are forgotten. `forbidden` when the
/// principal came in by a session itself, so that none outlives its time.
Result<OpenedSession> open_session(store::Tx& tx, const SessionOptions& options, const Principal& principal,
                                   const TokenSecret& secret, std::int64_t now_us);

/// Who signed in and got this cookie. `unauthenticated`, always with the same message, for a malformed or
/// unknown one, and when the session or its token has ended.
Result<Principal> authenticate_session(store::Reader& reader, const SessionOptions& options,
                                       std::string_view cookie, std::int64_t now_us);

/// Whether the principal's session, and so its token, may still be used, as of the transaction of `reader`:
/// `unauthenticated`, with the message of authenticate_session, once one of them has ended.
Result<void> check_session(store::Reader& reader, const SessionOptions& options, std::string_view session_id,
                           std::int64_t now_us);

/// Ends a session; one that has ended stays so.
Result<void> end_session(store::Tx& tx, std::string_view session_id);

/// Removes the sessions that have expired and returns how many.
Result<std::int64_t> forget_sessions(store::Tx& tx, std::int64_t now_us);

/// What a page that holds the session must send with everything that changes something, and what no other
/// site can learn. It is made from the cookie, so that it needs no storage.
[[nodiscard]] std::string csrf_token(std::string_view cookie);
/// Whether `given` is the token of the cookie; the time that it takes does not depend on where they differ.
[[nodiscard]] bool is_csrf_token(std::string_view given, std::string_view cookie);

}  // namespace driftgate::auth
