#include "daemon/auth/sessions.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "daemon/base/durable_file.hpp"
#include "daemon/base/read_file.hpp"
#include "daemon/store/id.hpp"
#include "schema/sha256.hpp"

namespace driftgate::auth {

using schema::ErrorCode;
using store::Blob;
using store::Row;
using store::Sql;

namespace {

constexpr std::int64_t kSecond_us = 1'000'000;

constexpr Sql kInsert{"insert session",
                      "INSERT INTO sessions(id, hash, token, created_us, expires_us, seal) "
                      "VALUES(?1, ?2, ?3, ?4, ?5, ?6)"};
constexpr Sql kFindByHash{"find session by hash",
                          "SELECT s.id, s.hash, s.token, s.created_us, s.expires_us, s.seal, t.name, "
                          "t.scopes, t.expires_us, t.revoked_us "
                          "FROM sessions s JOIN tokens t ON t.id = s.token WHERE s.hash = ?1"};
constexpr Sql kFind{"find session",
                    "SELECT s.id, s.hash, s.token, s.created_us, s.expires_us, s.seal, t.name, t.scopes, "
                    "t.expires_us, t.revoked_us "
                    "FROM sessions s JOIN tokens t ON t.id = s.token WHERE s.id = ?1"};
constexpr Sql kEnd{"end session", "DELETE FROM sessions WHERE id = ?1"};
constexpr Sql kForget{"forget expired sessions", "DELETE FROM sessions WHERE expires_us <= ?1"};
constexpr Sql kEndOldest{"end the oldest sessions of a token",
                         "DELETE FROM sessions WHERE token = ?1 AND id NOT IN (SELECT id FROM sessions "
                         "WHERE token = ?1 ORDER BY created_us DESC, id DESC LIMIT ?2)"};

struct Session {
  std::string id{}, hash{}, token{};
  std::int64_t created_us = 0, expires_us = 0;
  std::string seal{};
  std::string name{};
  Scopes scopes{};
  std::optional<std::int64_t> token_expires_us{}, token_revoked_us{};
};

Session read_session(const Row& row) {
  return {.id = row.text(0),
          .hash = row.text(1),
          .token = row.text(2),
          .created_us = row.integer(3),
          .expires_us = row.integer(4),
          .seal = row.text(5),
          .name = row.text(6),
          .scopes = parse_scopes(row.text(7)).value(),
          .token_expires_us = row.maybe_integer(8),
          .token_revoked_us = row.maybe_integer(9)};
}

bool is_same(std::string_view one, std::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

/// HMAC-SHA-256 of all that the row says.
std::string seal_of(const SessionKey& key, const Session& session) {
  std::string content =
      fmt::format("{}\n{}\n{}\n{}\n", session.id, session.token, session.created_us, session.expires_us);
  content += session.hash;
  schema::Sha256Bytes mac{};
  unsigned int size = 0;
  const auto* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(content.data()), content.size(), mac.data(), &size);
  if (done == nullptr || size != mac.size())
    throw std::runtime_error("OpenSSL has no HMAC-SHA-256: check its providers");
  return std::string(schema::as_chars(mac));
}

std::unexpected<schema::Error> ended_session() {
  return schema::fail(ErrorCode::unauthenticated,
                      "the session is unknown or has ended, perhaps with its token: sign in again");
}

Result<Session> live(const SessionOptions& options, std::optional<Session> session, std::int64_t now_us) {
  if (!session || now_us >= session->expires_us || session->token_revoked_us) return ended_session();
  if (session->token_expires_us && now_us >= *session->token_expires_us) return ended_session();
  if (!is_same(session->seal, seal_of(options.key, *session))) return ended_session();
  return std::move(*session);
}

}  // namespace

Result<SessionKey> session_key(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    const SessionKey fresh = random_secret();
    TRY(base::write_file_durably(file, schema::to_hex(fresh) + "\n", 0600, base::IfPresent::refuse));
    return fresh;
  }
  const std::string text = TRY(base::read_file(file));
  const auto bytes = schema::from_hex(std::string_view(text).substr(0, text.find('\n')));
  SessionKey key{};
  if (!bytes || bytes->size() != key.size())
    return schema::fail(
        ErrorCode::corrupt,
        fmt::format("'{}' is not a key of 64 hex digits: remove it, and everybody signs in again",
                    file.string()));
  std::ranges::copy(*bytes, key.begin());
  return key;
}

Result<OpenedSession> open_session(store::Tx& tx, const SessionOptions& options, const Principal& principal,
                                   const TokenSecret& secret, std::int64_t now_us) {
  if (!principal.session_id.empty())
    return schema::fail(ErrorCode::forbidden,
                        "a session is opened with the token itself, not with another session: send "
                        "'Authorization: Bearer dg_…'");
  TRY(forget_sessions(tx, now_us));
  TRY(tx.run(kEndOldest, {principal.token_id, kMaxSessionsOfToken - 1}));
  const std::int64_t latest = now_us + options.lifetime_s * kSecond_us;
  OpenedSession opened{.cookie = schema::to_hex(secret),
                       .expires_us = std::min(latest, principal.expires_us.value_or(latest))};
  const auto hash = schema::sha256(opened.cookie);
  Session session;
  session.id = store::make_id("se", now_us, store::secure_id_random());
  session.hash = schema::as_chars(hash);
  session.token = principal.token_id;
  session.created_us = now_us;
  session.expires_us = opened.expires_us;
  const std::string seal = seal_of(options.key, session);
  TRY(tx.run(kInsert,
             {session.id, Blob{session.hash}, session.token, now_us, session.expires_us, Blob{seal}}));
  return opened;
}

Result<Principal> authenticate_session(store::Reader& reader, const SessionOptions& options,
                                       std::string_view cookie, std::int64_t now_us) {
  const auto bytes = schema::from_hex(cookie);
  if (!bytes || bytes->size() != sizeof(TokenSecret)) return ended_session();
  const auto hash = schema::sha256(cookie);
  auto found = TRY(reader.one(kFindByHash, {Blob{schema::as_chars(hash)}}, read_session));
  const Session session = TRY(live(options, std::move(found), now_us));
  return Principal{.token_id = session.token,
                   .name = session.name,
                   .scopes = session.scopes,
                   .session_id = session.id,
                   .expires_us = session.expires_us};
}

Result<void> check_session(store::Reader& reader, const SessionOptions& options, std::string_view session_id,
                           std::int64_t now_us) {
  auto found = TRY(reader.one(kFind, {session_id}, read_session));
  TRY(live(options, std::move(found), now_us));
  return {};
}

Result<void> end_session(store::Tx& tx, std::string_view session_id) {
  TRY(tx.run(kEnd, {session_id}));
  return {};
}

Result<std::int64_t> forget_sessions(store::Tx& tx, std::int64_t now_us) {
  return tx.run(kForget, {now_us});
}

std::string csrf_token(std::string_view cookie) {
  schema::Sha256 hash;
  hash.update("driftgate csrf\n").update(cookie);
  return schema::to_hex(hash.finish());
}

bool is_csrf_token(std::string_view given, std::string_view cookie) {
  return is_same(given, csrf_token(cookie));
}

}  // namespace driftgate::auth
