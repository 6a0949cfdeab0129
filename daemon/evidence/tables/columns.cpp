#include <fmt/format.h>

#include <array>
#include <utility>

#include "daemon/evidence/audit/audit_json.hpp"
#include "daemon/evidence/index/index_block.hpp"
#include "daemon/evidence/tables/parts.hpp"

namespace driftgate::evidence::tables {

using nlohmann::json;
using store::Row;
using store::Sql;

namespace {

constexpr Sql kEntries{"entries with their columns",
                       "SELECT seq, bytes, time_us, kind, actor, model, promotion, stage, checkpoint, contract, "
                       "clause, verdict FROM entries WHERE seq >= ?1 AND seq < ?2 ORDER BY seq"};
constexpr Sql kPostings{"postings of blocks", "SELECT count(*) FROM postings WHERE block < ?1"};

/// The texts of an entry that columns and index repeat.
struct Said {
  LogEntry entry{};
  std::array<std::optional<std::string>, 9> texts{};  ///< of the columns from `kind` on
  std::optional<std::string> kernel{};
};

constexpr std::array<const char*, 9> kColumns = {"kind",       "actor",    "model",  "promotion", "stage",
                                                 "checkpoint", "contract", "clause", "verdict"};
constexpr int kFirstColumn = 3;
constexpr int kTimeColumn = 2;

/// The kernel that an entry names by itself.
std::optional<std::string> kernel_of(const LogEntry& entry) {
  if (entry.kind == "kernel_registered") return base::maybe_text_at(entry.body, "name");
  const bool names =
      entry.kind == "engine_registered" || entry.kind == "model_bootstrapped" || entry.kind == "promotion_requested";
  return names ? base::maybe_text_at(entry.body, "kernel") : std::nullopt;
}

Said said_by(LogEntry entry) {
  Said said;
  said.texts = {entry.kind,
                entry.actor,
                base::maybe_text_at(entry.subject, "model"),
                base::maybe_text_at(entry.subject, "promotion"),
                base::maybe_text_at(entry.subject, "stage"),
                base::maybe_text_at(entry.subject, "checkpoint"),
                base::maybe_text_at(entry.subject, "contract"),
                base::maybe_text_at(entry.body, "clause"),
                base::maybe_text_at(entry.body, "verdict")};
  said.kernel = kernel_of(entry);
  said.entry = std::move(entry);
  return said;
}

void compare_columns(Findings& findings, const Row& row, const Said& said) {
  const auto where = fmt::format("evidence entry {}", said.entry.seq);
  findings.column(where, "the column time_us", row.integer(kTimeColumn), said.entry.time_us, said.entry);
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    const auto stored = row.maybe_text(kFirstColumn + static_cast<int>(i));
    if (stored != said.texts[i])
      findings.column(where, fmt::format("the column {}", kColumns[i]), stored.value_or("NULL"),
                      said.texts[i].value_or("NULL"), said.entry);
  }
}

IndexedEntry indexed(const Said& said) {
  IndexedEntry entry{.seq = said.entry.seq, .time_us = said.entry.time_us};
  entry[IndexField::kind] = said.texts[0];
  entry[IndexField::actor] = said.texts[1];
  entry[IndexField::model] = said.texts[2];
  entry.promotion = said.texts[3];
  entry[IndexField::stage] = said.texts[4];
  entry[IndexField::checkpoint] = said.texts[5];
  entry[IndexField::contract] = said.texts[6];
  entry[IndexField::clause] = said.texts[7];
  entry[IndexField::verdict] = said.texts[8];
  entry[IndexField::kernel] = said.kernel;
  return entry;
}

}  // namespace

Result<std::int64_t> check_block(LogView& log, std::int64_t block) {
  const std::int64_t first = block * kIndexBlock;
  IndexBlock index(block);
  std::int64_t entries = 0;
  TRY(log.reader().each(kEntries, {first, first + kIndexBlock}, [&](const Row& row) {
    auto entry = decode({row.integer(0), std::string(row.bytes(1))});
    if (!entry) {
      // Its bytes are checked against the tree elsewhere.
      log.findings().add(fmt::format("evidence entry {}", row.integer(0)), entry.error().message);
      return true;
    }
    ++entries;
    const auto said = said_by(std::move(*entry));
    compare_columns(log.findings(), row, said);
    index.add(indexed(said));
    return true;
  }));
  if (entries != kIndexBlock) return 0;
  auto stored = TRY(indexed_size(log.reader()));
  if (stored <= first) {
    log.findings().add(fmt::format("the index of entries {} to {}", first, first + kIndexBlock - 1),
                       "it is not there");
    return 0;
  }
  return index.compare(log.reader(), [&](const std::string& what) {
    log.findings().add(fmt::format("the index of entries {} to {}", first, first + kIndexBlock - 1),
                       fmt::format("what it has under {} is not what the entries say", what));
  });
}

Result<void> check_index_size(LogView& log, std::int64_t blocks, std::int64_t postings) {
  auto stored = TRY(log.reader().one(kPostings, {blocks}, [](const Row& row) { return row.integer(0); }));
  if (stored.value_or(0) != postings)
    log.findings().add(
        fmt::format("the index of the first {} blocks", blocks),
        fmt::format("it has {} postings, but the entries make {}", stored.value_or(0), postings));
  return {};
}

}  // namespace driftgate::evidence::tables
