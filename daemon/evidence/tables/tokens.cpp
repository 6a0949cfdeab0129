#include <fmt/format.h>

#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/tables/parts.hpp"
#include "daemon/evidence/tables/recorded.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/sha256.hpp"

namespace driftgate::evidence::tables {

using nlohmann::json;
using schema::EvidenceKind;
using store::Sql;

namespace {

// Read here as they are: what the daemon would refuse to read is a difference too.
constexpr Sql kTokens{"tokens as stored",
                      "SELECT id, hash, name, scopes, granted_by, created_us, expires_us, revoked_us FROM tokens "
                      "ORDER BY id"};

constexpr std::int64_t kNever = -1;

struct StoredToken {
  std::string id{}, hash{}, name{}, scopes{}, granted_by{};
  std::int64_t created_us = 0;
  std::optional<std::int64_t> expires_us{}, revoked_us{};
};

/// "approver,viewer", as the table has the list of an entry.
std::string scopes_text(const json& body) {
  std::string text;
  const auto scopes = body.find("scopes");
  if (scopes == body.end() || !scopes->is_array()) return text;
  for (const auto& scope : *scopes) {
    if (!scope.is_string()) continue;
    text += (text.empty() ? "" : ",") + scope.get<std::string>();
  }
  return text;
}

void compare(Findings& findings, const StoredToken& token, const Recorded& recorded) {
  const auto& [grant, revoked] = recorded;
  const auto where = fmt::format("token {} of '{}'", token.id, text_at(grant.body, "name"));
  RowCheck check(findings, where, grant);
  check.member("the digest of its hash", schema::sha256_digest(token.hash), "hash_digest");
  check.column("whose it is", token.name, text_at(grant.body, "name"));
  check.column("the scopes", token.scopes, scopes_text(grant.body));
  check.column("who granted it", token.granted_by, grant.actor);
  check.column("when it was granted", token.created_us, grant.time_us);
  check.column("when it expires", token.expires_us.value_or(kNever), grant.body.value("expires_us", kNever));
  if (revoked && !token.revoked_us) {
    findings.add(where, fmt::format("it is not revoked in the table, but {} revoked it", revoked->name()));
  } else if (revoked) {
    RowCheck(findings, where, *revoked).column("when it was revoked", *token.revoked_us, revoked->time_us);
  } else if (token.revoked_us) {
    findings.add(where, "it is revoked in the table, but no entry of the log revoked it");
  }
}

}  // namespace

Result<void> check_tokens(LogView& log) {
  auto granted = TRY(recorded_rows(log, EvidenceKind::token_granted, EvidenceKind::token_revoked, "token"));
  auto& findings = log.findings();
  const auto tokens = TRY(list_rows<StoredToken>(log.reader(), kTokens, {}));
  for (const StoredToken& token : tokens) {
    const auto found = granted.find(token.id);
    if (found == granted.end()) {
      findings.add(fmt::format("token {} of '{}'", token.id, token.name),
                   fmt::format("it is in the table with the scopes '{}', but no entry of the log granted it",
                               token.scopes));
      continue;
    }
    compare(findings, token, found->second);
    granted.erase(found);
  }
  for (const auto& [id, token] : granted)
    findings.add(fmt::format("token {} of '{}'", id, text_at(token.made.body, "name")),
                 fmt::format("it is not in the table, but {} granted it", token.made.name()));
  return {};
}

}  // namespace driftgate::evidence::tables
