#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/auth/principal.hpp"
#include "daemon/store/sqlite/sql.hpp"
#include "daemon/store/store.hpp"

namespace driftgate::auth {

using TokenSecret = std::array<std::uint8_t, 32>;

/// A token as listed: never the secret, of which only the SHA-256 is stored.
struct TokenInfo {
  std::string id{};    ///< "tok-…"
  std::string name{};  ///< whose
  Scopes scopes{};
  std::string granted_by{};
  std::int64_t created_us = 0;
  std::optional<std::int64_t> expires_us{};
  std::optional<std::int64_t> revoked_us{};
};

struct TokenRequest {
  std::string name{};  ///< as schema::check_name, none of the program's own, like no other that was ever issued
  Scopes scopes{};
  std::optional<std::int64_t> expires_us{};
  std::string granted_by{};  ///< principal's name, "driftgate" for the first
  std::string recovery{};    ///< why who has the data folder issues it while no daemon runs; empty otherwise
};

struct IssuedToken {
  TokenInfo info{};
  std::string bearer{};  ///< "dg_" + 64 hex digits: shown once
};

/// 256 bits from the kernel's random number generator.
[[nodiscard]] TokenSecret random_secret();

/// Stores a token and the entry `token_granted`, in the caller's transaction. `invalid_argument` for a bad
/// name, one that the program itself uses, no scope, admin with approver, or an expiry that has passed; `conflict`
/// for a name that differs from an issued one only in case or in characters that look alike, and for admin beside
/// a live approver token of the same person or the other way round.
Result<IssuedToken> issue_token(store::Tx& tx, const TokenRequest& request, const TokenSecret& secret,
                                std::int64_t now_us);
/// Newest first. Every token, revoked and expired ones too.
Result<std::vector<TokenInfo>> list_tokens(store::Reader& reader);
/// Ends a token with its sessions and writes `token_revoked`. `not_found` without such a token, `conflict`
/// when it was revoked before, or when the time at which nobody would be admin any more came nearer by it: a
/// token with the scope admin is revoked only while another lasts at least as long.
Result<void> revoke_token(store::Tx& tx, std::string_view id, std::string_view revoked_by,
                          std::int64_t now_us);

/// Whether what a name may do was taken from it: the newest of its tokens that has `scope`, or implies it,
/// was revoked. Expiry takes nothing, since it is how tokens are renewed, and neither does a name without
/// such a token.
Result<bool> is_withdrawn(store::Reader& reader, std::string_view name, Scope scope);

/// Who the bearer of "dg_…" is. `unauthenticated`, always with the same message, for a malformed, unknown,
/// expired or revoked one.
Result<Principal> authenticate(store::Reader& reader, std::string_view bearer, std::int64_t now_us);

/// Whether the token may still be used, as of the transaction of `reader`: `unauthenticated`, with the message
/// of authenticate, once it was revoked or has expired.
Result<void> check_token(store::Reader& reader, std::string_view id, std::int64_t now_us);

/// Issues a token with the scope admin to `request.name`, who has the data folder and no token that works, and
/// writes the bearer to the new `file` (0600, synced, in place before the COMMIT). The entry has `name` as its actor
/// and `reason` in its member `recovery`. Errors of issue_token; `invalid_argument` without a reason.
struct RecoveryRequest {
  std::string name{};
  std::string reason{};
  std::filesystem::path file{};
};
Result<TokenInfo> recover_admin(store::Store& store, const RecoveryRequest& request, std::int64_t now_us);

/// When no token was ever issued: issues one with the scope admin to "admin" and writes the bearer to `file`
/// (0600, synced, in place before the COMMIT). Returns whether it did.
Result<bool> ensure_first_admin(store::Store& store, const std::filesystem::path& file, std::int64_t now_us);

}  // namespace driftgate::auth
