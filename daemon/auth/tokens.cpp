#include "daemon/auth/tokens.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "daemon/base/durable_file.hpp"
#include "daemon/evidence/log/log.hpp"
#include "daemon/store/id.hpp"
#include "schema/names.hpp"
#include "schema/sha256.hpp"

namespace driftgate::auth {

using schema::ErrorCode;
using store::Row;
using store::Sql;

namespace {

constexpr Sql kInsert{
    "insert token",
    "INSERT INTO tokens(id, hash, name, scopes, granted_by, created_us, expires_us, revoked_us) "
    "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL)"};
constexpr Sql kList{"list tokens",
                    "SELECT id, name, scopes, granted_by, created_us, expires_us, revoked_us FROM tokens "
                    "ORDER BY id DESC"};
constexpr Sql kFind{
    "find token",
    "SELECT id, name, scopes, granted_by, created_us, expires_us, revoked_us FROM tokens WHERE id = ?1"};
constexpr Sql kFindByHash{
    "find token by hash",
    "SELECT id, name, scopes, granted_by, created_us, expires_us, revoked_us, hash FROM tokens "
    "WHERE hash = ?1"};
constexpr Sql kRevoke{"revoke token",
                      "UPDATE tokens SET revoked_us = ?2 WHERE id = ?1 AND revoked_us IS NULL"};
constexpr Sql kOfName{"tokens of a name",
                      "SELECT id, name, scopes, granted_by, created_us, expires_us, revoked_us FROM tokens "
                      "WHERE name = ?1 ORDER BY created_us DESC, id DESC"};
constexpr Sql kEndSessions{"end the sessions of a token", "DELETE FROM sessions WHERE token = ?1"};
constexpr Sql kCount{"count tokens", "SELECT count(*) FROM tokens"};

constexpr std::string_view kBearerPrefix = "dg_";

TokenInfo read_token(const Row& row) {
  return {.id = row.text(0),
          .name = row.text(1),
          .scopes = parse_scopes(row.text(2)).value(),
          .granted_by = row.text(3),
          .created_us = row.integer(4),
          .expires_us = row.maybe_integer(5),
          .revoked_us = row.maybe_integer(6)};
}

Result<void> check_request(const TokenRequest& request, std::int64_t now_us) {
  TRY(schema::check_name(request.name, "a token's name", "/name"));
  if (schema::is_reserved_name(request.name)) {
    return schema::fail(ErrorCode::invalid_argument,
                        fmt::format("'{}' is, or looks like, a name under which driftgate itself writes entries "
                                    "(driftgate, console, schedule/…): choose the name of a person or program",
                                    request.name),
                        "/name");
  }
  TRY(parse_scopes(request.scopes.text()));
  if (request.expires_us && *request.expires_us <= now_us) {
    return schema::fail(ErrorCode::invalid_argument,
                        "the token would have expired already: choose a later time");
  }
  return {};
}

bool is_live(const TokenInfo& token, std::int64_t now_us) {
  return !token.revoked_us && (!token.expires_us || now_us < *token.expires_us);
}

bool has_admin_and_approver(const Scopes& one, const Scopes& other) {
  return (one.has(Scope::admin) && other.has(Scope::approver)) ||
         (one.has(Scope::approver) && other.has(Scope::admin));
}

/// One person is one name: no name is issued that could be taken for another's, and who has an admin token gets no
/// approver token beside it, nor the other way round. A name of before this rule keeps being renewed.
Result<void> check_other_tokens(store::Tx& tx, const TokenRequest& request, std::int64_t now_us) {
  auto all = TRY(tx.all(kList, {}, read_token));
  std::erase_if(all,
                [&](const TokenInfo& other) { return !schema::is_same_identity(other.name, request.name); });
  const bool known =
      std::ranges::any_of(all, [&](const TokenInfo& other) { return other.name == request.name; });
  if (!known && !all.empty()) {
    return schema::fail(
        ErrorCode::conflict,
        fmt::format(
            "'{}' differs from '{}', which has had the token {}, only in case or in characters that look "
            "alike: give that name if it is the same person, and a clearly different one if not",
            request.name, all.front().name, all.front().id));
  }
  for (const auto& other : all) {
    if (!is_live(other, now_us) || !has_admin_and_approver(other.scopes, request.scopes)) continue;
    return schema::fail(ErrorCode::conflict,
                        fmt::format("'{}' has the token {} with {}: an admin cannot approve, so revoke that "
                                    "one first",
                                    other.name, other.id, other.scopes.text()));
  }
  return {};
}

/// When a token ends by itself.
std::int64_t end_of(const TokenInfo& token) {
  return token.expires_us.value_or(std::numeric_limits<std::int64_t>::max());
}

/// A revocation never brings the time nearer at which nobody is admin: another admin token must last at least as
/// long. The first token never expires, so that one which does not is always left; where all of them expire, the
/// one that lasts longest stays.
Result<void> check_admin_stays(store::Tx& tx, const TokenInfo& token, std::int64_t now_us) {
  if (!token.scopes.has(Scope::admin) || !is_live(token, now_us)) return {};
  auto all = TRY(tx.all(kList, {}, read_token));
  const bool stays = std::ranges::any_of(all, [&](const TokenInfo& other) {
    return other.id != token.id && other.scopes.has(Scope::admin) && is_live(other, now_us) &&
           !schema::is_reserved_name(other.name) && end_of(other) >= end_of(token);
  });
  if (stays) return {};
  return schema::fail(
      ErrorCode::conflict,
      fmt::format("{} is the last token with the scope admin{}: without it nobody could issue or revoke tokens. "
                  "Issue another that lasts at least as long (driftgate token issue --name … --scope admin), then "
                  "revoke this one with that",
                  token.id, token.expires_us ? " that lasts as long" : " that does not expire"));
}

schema::EntryDraft token_entry(schema::EvidenceKind kind, const TokenInfo& token, std::string_view actor,
                               std::int64_t now_us) {
  schema::EntryValue::Array scopes;
  for (const Scope scope : token.scopes.list()) scopes.emplace_back(to_string(scope));
  schema::EntryValue::Object body{{"name", token.name}, {"scopes", std::move(scopes)}, {"token", token.id}};
  if (token.expires_us) body.emplace("expires_us", *token.expires_us);
  return {
      .time_us = now_us, .kind = kind, .actor = std::string(actor), .subject = {}, .body = std::move(body)};
}

std::unexpected<schema::Error> unknown_token() {
  return schema::fail(ErrorCode::unauthenticated,
                      "the bearer token is unknown, expired or revoked: ask an admin for a new one");
}

bool is_bearer(std::string_view bearer) {
  if (!bearer.starts_with(kBearerPrefix)) return false;
  const auto bytes = schema::from_hex(bearer.substr(kBearerPrefix.size()));
  return bytes && bytes->size() == sizeof(TokenSecret);
}

}  // namespace

TokenSecret random_secret() {
  TokenSecret secret;
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    throw std::runtime_error("the kernel gives no random numbers");
  }
  return secret;
}

Result<IssuedToken> issue_token(store::Tx& tx, const TokenRequest& request, const TokenSecret& secret,
                                std::int64_t now_us) {
  TRY(check_request(request, now_us));
  TRY(check_other_tokens(tx, request, now_us));
  IssuedToken issued{.info = {.id = store::make_id("tok", now_us, store::secure_id_random()),
                              .name = request.name,
                              .scopes = request.scopes,
                              .granted_by = request.granted_by,
                              .created_us = now_us,
                              .expires_us = request.expires_us},
                     .bearer = std::string(kBearerPrefix) + schema::to_hex(secret)};
  const auto hash = schema::sha256(issued.bearer);
  TRY(tx.run(kInsert, {issued.info.id, store::Blob{schema::as_chars(hash)}, request.name,
                       request.scopes.text(), request.granted_by, now_us, request.expires_us}));
  auto draft = token_entry(schema::EvidenceKind::token_granted, issued.info, request.granted_by, now_us);
  // What the bearer must hash to, without saying it.
  draft.body.emplace("hash_digest", schema::sha256_digest(schema::as_chars(hash)));
  if (!request.recovery.empty()) draft.body.emplace("recovery", request.recovery);
  TRY(evidence::append(tx, draft));
  return issued;
}

Result<std::vector<TokenInfo>> list_tokens(store::Reader& reader) {
  return reader.all(kList, {}, read_token);
}

Result<void> revoke_token(store::Tx& tx, std::string_view id, std::string_view revoked_by,
                          std::int64_t now_us) {
  const auto token = TRY(tx.one(kFind, {id}, read_token));
  if (!token) return schema::fail(ErrorCode::not_found, fmt::format("there is no token '{}'", id));
  TRY(check_admin_stays(tx, *token, now_us));
  const auto revoked = TRY(tx.run(kRevoke, {id, now_us}));
  if (revoked == 0)
    return schema::fail(ErrorCode::conflict, fmt::format("token '{}' is already revoked", id));
  TRY(tx.run(kEndSessions, {id}));
  TRY(evidence::append(tx, token_entry(schema::EvidenceKind::token_revoked, *token, revoked_by, now_us)));
  return {};
}

Result<bool> is_withdrawn(store::Reader& reader, std::string_view name, Scope scope) {
  const auto tokens = TRY(reader.all(kOfName, {name}, read_token));
  for (const TokenInfo& token : tokens) {
    if (require({token.id, token.name, token.scopes}, scope)) return token.revoked_us.has_value();
  }
  return false;
}

Result<Principal> authenticate(store::Reader& reader, std::string_view bearer, std::int64_t now_us) {
  if (!is_bearer(bearer)) return unknown_token();
  const auto hash = schema::sha256(bearer);
  bool same = false;
  const auto token = TRY(reader.one(kFindByHash, {store::Blob{schema::as_chars(hash)}}, [&](const Row& row) {
    const std::string stored = row.text(7);
    same = stored.size() == hash.size() && CRYPTO_memcmp(stored.data(), hash.data(), hash.size()) == 0;
    return read_token(row);
  }));
  if (!token || !same || !is_live(*token, now_us)) return unknown_token();
  if (schema::is_reserved_name(token->name)) {
    // Issued before such names were refused: its holder would write entries as the daemon.
    return schema::fail(
        ErrorCode::unauthenticated,
        fmt::format("this token is for '{}', a name under which driftgate itself writes entries: "
                    "ask an admin for a token with another name",
                    token->name));
  }
  return Principal{
      .token_id = token->id, .name = token->name, .scopes = token->scopes, .expires_us = token->expires_us};
}

Result<void> check_token(store::Reader& reader, std::string_view id, std::int64_t now_us) {
  auto token = TRY(reader.one(kFind, {id}, read_token));
  if (!token || !is_live(*token, now_us)) return unknown_token();
  return {};
}

Result<TokenInfo> recover_admin(store::Store& store, const RecoveryRequest& request, std::int64_t now_us) {
  if (request.reason.empty()) {
    return schema::fail(ErrorCode::invalid_argument,
                        "a recovery needs a reason: it is written to the log for the auditors");
  }
  bool wrote = false;
  auto recovered = store.write("recover an admin token", [&](store::Tx& tx) -> Result<TokenInfo> {
    auto issued = TRY(issue_token(tx,
                                  {.name = request.name,
                                   .scopes = {Scope::admin},
                                   .granted_by = request.name,
                                   .recovery = request.reason},
                                  random_secret(), now_us));
    TRY(base::write_file_durably(request.file, issued.bearer + "\n", 0600, base::IfPresent::refuse));
    wrote = true;
    return issued.info;
  });
  std::error_code ignored;
  if (!recovered && wrote) std::filesystem::remove(request.file, ignored);
  return recovered;
}

Result<bool> ensure_first_admin(store::Store& store, const std::filesystem::path& file, std::int64_t now_us) {
  return store.write("issue the first admin token", [&](store::Tx& tx) -> Result<bool> {
    auto count = TRY(tx.one(kCount, {}, [](const Row& row) { return row.integer(0); }));
    if (count.value_or(0) != 0) return false;
    const TokenRequest request{.name = "admin", .scopes = {Scope::admin}, .granted_by = "driftgate"};
    auto issued = TRY(issue_token(tx, request, random_secret(), now_us));
    // Before the COMMIT: a crash in between leaves a file without a token, which the next start replaces.
    TRY(base::write_file_durably(file, issued.bearer + "\n", 0600, base::IfPresent::replace));
    return true;
  });
}

}  // namespace driftgate::auth
