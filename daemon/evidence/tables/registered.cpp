#include <fmt/format.h>

#include <map>
#include <set>

#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/tables/parts.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/registry/engines.hpp"
#include "daemon/store/registry/kernels.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::evidence::tables {

using schema::EvidenceKind;
using store::Row;
using store::Sql;

namespace {

constexpr std::int64_t kRows = 256;
constexpr int kBlobs = 16;  ///< in one read: they may be large

constexpr Sql kBlobsAfter{"blobs after a digest",
                          "SELECT digest, bytes FROM blobs WHERE digest > ?1 ORDER BY digest LIMIT ?2"};

/// The entry of a kind that a row says it was written with; a difference when there is none.
Result<std::optional<LogEntry>> entry_of(LogView& log, const std::string& where, std::int64_t seq,
                                         std::string_view kind) {
  auto entry = log.at(seq);
  if (!entry || (*entry && (*entry)->kind == kind)) return entry;
  log.findings().add(where, fmt::format("the table says that entry {} registered it, which {}", seq,
                                        *entry ? fmt::format("is {}", (*entry)->kind) : "the log does not have"));
  return std::nullopt;
}

/// Entries of a kind that no row was written with.
Result<void> find_missing(LogView& log, EvidenceKind kind, const std::set<std::int64_t>& stored,
                          std::string_view what) {
  EntryFilter filter;
  filter.kind = kind;
  return log.each(filter, [&](const LogEntry& entry) {
    if (!stored.contains(entry.seq))
      log.findings().add(fmt::format("{} '{}'", what, text_at(entry.body, "name")),
                         fmt::format("it is not in the table as {} registered it", entry.name()));
    return true;
  });
}

/// Registered documents: contracts and kernels. Their rows have the same columns but one: `place` says by
/// which of them `list` goes on.
template <typename List, typename Place>
Result<void> check_documents(LogView& log, EvidenceKind kind, std::string_view what, List list, Place place) {
  std::set<std::int64_t> stored;
  std::string after;
  for (bool more = true; more;) {
    auto rows = TRY(list(log.reader(), after, kRows));
    for (const auto& row : rows) {
      const auto where = fmt::format("{} '{}'", what, row.name);
      auto entry = TRY(entry_of(log, where, row.evidence_seq, to_string(kind)));
      stored.insert(row.evidence_seq);
      if (!entry) continue;
      auto& findings = log.findings();
      findings.member(where, "the name", row.name, *entry, "name");
      findings.member(where, "the digest", row.digest, *entry, "digest");
      findings.column(where, "who registered it", row.registrant, entry->actor, *entry);
      findings.member(where, "the digest of its document", schema::document_digest(row.canonical), *entry,
                      "digest");
    }
    more = !rows.empty();
    if (more) after = rows.back().*place;
  }
  return find_missing(log, kind, stored, what);
}

void compare_engine(Findings& findings, const store::EngineRow& row, const LogEntry& entry) {
  const auto where = fmt::format("engine '{}'", row.name);
  findings.column(where, "its entry", row.evidence_seq, entry.seq, entry);
  findings.member(where, "the URL", row.base_url, entry, "url");
  findings.member(where, "the kernel", row.kernel, entry, "kernel");
  findings.member(where, "where its checkpoint is", row.checkpoint_uri, entry, "checkpoint_uri");
  findings.member(where, "the rate that it takes", row.max_requests_per_second, entry, "max_requests_per_second");
  findings.column(where, "the checkpoint", row.checkpoint, text_at(entry.subject, "checkpoint"), entry);
  if (entry.body.contains("abilities"))
    findings.document(where, "what its probe found", row.abilities, entry.body["abilities"], entry);
}

/// Two that registered the same new engine at once have two entries, and the row is that of the first.
Result<LogEntry> written_by(LogView& log, const store::EngineRow& row, const LogEntry& newest) {
  if (row.evidence_seq == newest.seq) return newest;
  auto entry = TRY(log.at(row.evidence_seq));
  const auto same = [&](std::string_view member) {
    return text_at(entry->body, member) == text_at(newest.body, member);
  };
  const bool twin = entry && entry->kind == newest.kind && same("name") && same("url") && same("kernel") &&
                    entry->subject == newest.subject;
  return twin ? *entry : newest;
}

}  // namespace

Result<void> check_contracts(LogView& log) {
  return check_documents(log, EvidenceKind::contract_registered, "contract", store::list_contracts,
                         &store::ContractRow::digest);
}

Result<void> check_kernels(LogView& log) {
  return check_documents(log, EvidenceKind::kernel_registered, "kernel", store::list_kernels,
                         &store::KernelRow::name);
}

/// An engine may be registered again: its row is that of the newest entry.
Result<void> check_engines(LogView& log) {
  std::map<std::string, LogEntry> newest;
  EntryFilter filter;
  filter.kind = EvidenceKind::engine_registered;
  auto read = log.each(filter, [&](const LogEntry& entry) {
    newest.insert_or_assign(text_at(entry.body, "name"), entry);
    return true;
  });
  if (!read) return read;
  auto& findings = log.findings();
  std::string after;
  for (bool more = true; more;) {
    auto rows = TRY(store::list_engines(log.reader(), after, kRows));
    for (const auto& row : rows) {
      const auto where = fmt::format("engine '{}'", row.name);
      const auto found = newest.find(row.name);
      if (found == newest.end()) {
        findings.add(where, "it is in the table, but no entry of the log registered it");
        continue;
      }
      auto entry = TRY(written_by(log, row, found->second));
      compare_engine(findings, row, entry);
      newest.erase(found);
    }
    more = !rows.empty();
    if (more) after = rows.back().name;
  }
  for (const auto& [name, entry] : newest)
    findings.add(fmt::format("engine '{}'", name),
                 fmt::format("it is not in the table, but {} registered it", entry.name()));
  return {};
}

Result<void> check_blobs(LogView& log, std::string& after) {
  int read = 0;
  auto done = log.reader().each(kBlobsAfter, {after, kBlobs}, [&](const Row& row) {
    ++read;
    after = row.text(0);
    const auto digest = schema::sha256_digest(row.bytes(1));
    if (digest != after)
      log.findings().add(fmt::format("blob {}", after), fmt::format("its bytes are those of {}", digest));
    return true;
  });
  if (read == 0) after.clear();
  return done;
}

}  // namespace driftgate::evidence::tables
