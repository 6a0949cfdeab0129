#include <fmt/format.h>

#include <map>
#include <utility>

#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/tables/parts.hpp"
#include "schema/sha256.hpp"

namespace driftgate::evidence::tables {

using nlohmann::json;
using schema::EvidenceKind;
using store::Row;
using store::Sql;

namespace {

// Read here as they are: what the daemon would refuse to read is a difference too.
constexpr Sql kTokens{"tokens as stored",
                      "SELECT id, hash, name, scopes, granted_by, created_us, expires_us, revoked_us FROM tokens "
                      "ORDER BY id"};

constexpr std::int64_t kNever = -1;

struct Granted {
  LogEntry grant{};
  std::optional<LogEntry> revoked{};
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

void compare(Findings& findings, const Row& row, const Granted& granted) {
  const auto where = fmt::format("token {} of '{}'", row.text(0), text_at(granted.grant.body, "name"));
  const auto& grant = granted.grant;
  findings.member(where, "the digest of its hash", schema::sha256_digest(row.text(1)), grant, "hash_digest");
  findings.column(where, "whose it is", row.text(2), text_at(grant.body, "name"), grant);
  findings.column(where, "the scopes", row.text(3), scopes_text(grant.body), grant);
  findings.column(where, "who granted it", row.text(4), grant.actor, grant);
  findings.column(where, "when it was granted", row.integer(5), grant.time_us, grant);
  findings.column(where, "when it expires", row.maybe_integer(6).value_or(kNever),
                  grant.body.value("expires_us", kNever), grant);
  const auto revoked_us = row.maybe_integer(7);
  if (granted.revoked && !revoked_us) {
    findings.add(where, fmt::format("it is not revoked in the table, but {} revoked it", granted.revoked->name()));
  } else if (granted.revoked) {
    findings.column(where, "when it was revoked", *revoked_us, granted.revoked->time_us, *granted.revoked);
  } else if (revoked_us) {
    findings.add(where, "it is revoked in the table, but no entry of the log revoked it");
  }
}

}  // namespace

Result<void> check_tokens(LogView& log) {
  std::map<std::string, Granted, std::less<>> granted;
  for (const auto kind : {EvidenceKind::token_granted, EvidenceKind::token_revoked}) {
    EntryFilter filter;
    filter.kind = kind;
    auto read = log.each(filter, [&](const LogEntry& entry) {
      auto& token = granted[text_at(entry.body, "token")];
      if (kind == EvidenceKind::token_granted) {
        token.grant = entry;
      } else {
        token.revoked = entry;
      }
      return true;
    });
    if (!read) return read;
  }
  auto& findings = log.findings();
  auto rows = log.reader().each(kTokens, {}, [&](const Row& row) {
    const auto found = granted.find(row.text(0));
    if (found == granted.end()) {
      findings.add(fmt::format("token {} of '{}'", row.text(0), row.text(2)),
                   fmt::format("it is in the table with the scopes '{}', but no entry of the log granted it",
                               row.text(3)));
      return true;
    }
    compare(findings, row, found->second);
    granted.erase(found);
    return true;
  });
  if (!rows) return rows;
  for (const auto& [id, token] : granted)
    findings.add(fmt::format("token {} of '{}'", id, text_at(token.grant.body, "name")),
                 fmt::format("it is not in the table, but {} granted it", token.grant.name()));
  return {};
}

}  // namespace driftgate::evidence::tables
