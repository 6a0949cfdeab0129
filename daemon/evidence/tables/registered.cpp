#include <fmt/format.h>

#include <set>
#include <utility>

#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/tables/parts.hpp"
#include "daemon/evidence/tables/recorded.hpp"
#include "daemon/store/registry/contracts.hpp"
#include "daemon/store/registry/engine_access.hpp"
#include "daemon/store/registry/engines.hpp"
#include "daemon/store/registry/kernels.hpp"
#include "schema/json.hpp"
#include "schema/sha256.hpp"

namespace driftgate::evidence::tables {

using schema::EvidenceKind;
using store::Row;
using store::Sql;

namespace {

constexpr int kBlobs = 16;  ///< in one read: they may be large

constexpr Sql kBlobsAfter{"blobs after a digest",
                          "SELECT digest, bytes FROM blobs WHERE digest > ?1 ORDER BY digest LIMIT ?2"};

/// The entry of a kind that a row says it was written with; a difference when there is none.
Result<std::optional<LogEntry>> entry_of(LogView& log, const std::string& where, std::int64_t seq,
                                         std::string_view kind) {
  auto entry = TRY(log.at(seq));
  if (entry && entry->kind == kind) return entry;
  log.findings().add(where, fmt::format("the table says that entry {} registered it, which {}", seq,
                                        entry ? fmt::format("is {}", entry->kind) : "the log does not have"));
  return std::nullopt;
}

/// Entries of a kind that no row was written with.
Result<void> find_missing(LogView& log, EvidenceKind kind, const std::set<std::int64_t>& stored,
                          std::string_view what) {
  return log.each({.kind = kind}, [&](const LogEntry& entry) {
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
  TRY(each_row(log, list, place, [&](const auto& row) -> Result<void> {
    const auto where = fmt::format("{} '{}'", what, row.name);
    const auto entry = TRY(entry_of(log, where, row.evidence_seq, to_string(kind)));
    stored.insert(row.evidence_seq);
    if (!entry) return {};
    RowCheck check(log.findings(), where, *entry);
    check.member("the name", row.name, "name");
    check.member("the digest", row.digest, "digest");
    check.column("who registered it", row.registrant, entry->actor);
    check.member("the digest of its document", schema::document_digest(row.canonical), "digest");
    return {};
  }));
  return find_missing(log, kind, stored, what);
}

void compare_engine(Findings& findings, const store::EngineRow& row, const LogEntry& entry) {
  RowCheck check(findings, fmt::format("engine '{}'", row.name), entry);
  check.column("its entry", row.evidence_seq, entry.seq);
  check.member("the URL", row.base_url, "url");
  check.member("the kernel", row.kernel, "kernel");
  check.member("where its checkpoint is", row.checkpoint_uri, "checkpoint_uri");
  check.member("the rate that it takes", row.max_requests_per_second, "max_requests_per_second");
  check.subject("the checkpoint", row.checkpoint, "checkpoint");
  check.document_member("what its probe found", row.abilities, "abilities");
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
  auto engines = TRY(recorded_rows(log, EvidenceKind::engine_registered, std::nullopt, "name"));
  return compare_rows(
      log, std::move(engines), store::list_engines, &store::EngineRow::name,
      [](const std::string& name) { return fmt::format("engine '{}'", name); }, "registered",
      [&](const store::EngineRow& row, const Recorded& engine) -> Result<void> {
        const auto entry = TRY(written_by(log, row, engine.made));
        compare_engine(log.findings(), row, entry);
        return {};
      });
}

/// Of each URL the newest entry decides, and only an engine that asks for something has a row.
Result<void> check_engine_access(LogView& log) {
  auto urls = TRY(recorded_rows(log, EvidenceKind::engine_registered, std::nullopt, "url"));
  std::erase_if(urls, [](const auto& url) {
    const auto& body = url.second.made.body;
    return text_at(body, "key_file").empty() && text_at(body, "ca_file").empty();
  });
  const auto where = [](const std::string& url) {
    return fmt::format("what the engine at {} asks for", url);
  };
  return compare_rows(log, std::move(urls), store::list_engine_access, &store::EngineAccessRow::base_url,
                      where, "registered",
                      [&](const store::EngineAccessRow& row, const Recorded& url) -> Result<void> {
                        RowCheck check(log.findings(), where(row.base_url), url.made);
                        check.column("its entry", row.evidence_seq, url.made.seq);
                        check.member("its key file", row.key_file, "key_file");
                        check.member("the header of its key", row.key_header, "key_header");
                        check.member("its CA file", row.ca_file, "ca_file");
                        check.member("the digest of its CA file", row.ca_digest, "ca_digest");
                        return {};
                      });
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
