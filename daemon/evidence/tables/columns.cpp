#include <fmt/format.h>

#include <map>
#include <utility>

#include "daemon/evidence/index/index_block.hpp"
#include "daemon/evidence/log/log_tail.hpp"
#include "daemon/evidence/tables/parts.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::evidence::tables {

using store::Row;
using store::Sql;

namespace {

/// The fields of the index have columns in their order, but for the kernel, which has none.
constexpr Sql kEntries{
    "entries with their columns",
    "SELECT seq, bytes, time_us, promotion, kind, actor, model, stage, checkpoint, contract, NULL, "
    "clause, verdict FROM entries WHERE seq >= ?1 AND seq < ?2 ORDER BY seq"};
constexpr int kTimeColumn = 2, kPromotionColumn = 3, kFirstFieldColumn = 4;
// As queries walk it: a damaged cell can be found by its value and still lead to another entry.
constexpr Sql kOfPromotion{"entries by promotion",
                           "SELECT seq FROM entries INDEXED BY entries_by_promotion "
                           "WHERE promotion = ?1 AND seq >= ?2 AND seq < ?3 ORDER BY seq"};
constexpr Sql kPostings{"postings of blocks", "SELECT count(*) FROM postings WHERE block < ?1"};

using OfPromotions = std::map<std::string, std::vector<std::int64_t>>;  ///< numbers of entries, ascending

void compare_columns(Findings& findings, const Row& row, const schema::Entry& entry,
                     const IndexedEntry& said) {
  const LogEntry named{.seq = entry.seq, .kind = std::string(schema::to_string(entry.draft.kind))};
  RowCheck check(findings, fmt::format("evidence entry {}", entry.seq), named);
  check.column("the column time_us", row.integer(kTimeColumn), said.time_us);
  const auto compare = [&](std::string_view name, int column, const std::optional<std::string_view>& value) {
    const auto stored = row.is_null(column) ? std::nullopt : std::optional(row.bytes(column));
    if (stored != value)
      check.column(fmt::format("the column {}", name), stored.value_or("NULL"), value.value_or("NULL"));
  };
  compare("promotion", kPromotionColumn, said.promotion);
  for (std::size_t field = 0; field < kIndexFields; ++field) {
    if (field == kKernelField) continue;
    compare(kFieldNames[field], kFirstFieldColumn + static_cast<int>(field), said.values[field]);
  }
}

Result<void> compare_promotions(LogView& log, std::int64_t first, const OfPromotions& of_promotions) {
  for (const auto& [promotion, seqs] : of_promotions) {
    const auto found =
        TRY(list_rows<std::int64_t>(log.reader(), kOfPromotion, {promotion, first, first + kIndexBlock}));
    if (found != seqs)
      log.findings().add(
          fmt::format("the index of promotion '{}'", promotion),
          fmt::format("it does not lead to the entries from {} on that are about it", seqs.front()));
  }
  return {};
}

}  // namespace

Result<std::int64_t> check_block(LogView& log, std::int64_t block) {
  const std::int64_t first = block * kIndexBlock;
  IndexBlock index(block);
  std::int64_t entries = 0;
  OfPromotions of_promotions;
  TRY(log.reader().each(kEntries, {first, first + kIndexBlock}, [&](const Row& row) {
    const auto entry = schema::decode_entry(row.bytes(1));
    if (!entry || entry->seq != row.integer(0)) {
      // Its bytes are checked against the tree elsewhere.
      log.findings().add(
          fmt::format("evidence entry {}", row.integer(0)),
          entry ? fmt::format("its bytes are those of entry {}", entry->seq) : entry.error().message);
      return true;
    }
    ++entries;
    const auto said = indexed_entry(entry->seq, entry->draft);
    compare_columns(log.findings(), row, *entry, said);
    index.add(said);
    if (said.promotion) of_promotions[std::string(*said.promotion)].push_back(entry->seq);
    return true;
  }));
  TRY(compare_promotions(log, first, of_promotions));
  if (entries != kIndexBlock) return 0;
  const auto where = fmt::format("the index of entries {} to {}", first, first + kIndexBlock - 1);
  const auto stored = TRY(indexed_size(log.reader()));
  if (stored <= first) {
    log.findings().add(where, "it is missing");
    return 0;
  }
  return index.compare(log.reader(), [&](const std::string& what) {
    log.findings().add(where, fmt::format("what it has under {} is not what the entries say", what));
  });
}

Result<void> check_index_size(LogView& log, std::int64_t blocks, std::int64_t postings) {
  const auto stored = TRY(find_row<std::int64_t>(log.reader(), kPostings, {blocks}));
  if (stored != postings)
    log.findings().add(
        fmt::format("the index of the first {} blocks", blocks),
        fmt::format("it has {} postings, but the entries make {}", stored.value_or(0), postings));
  const auto size = TRY(tree_size(log.reader()));
  const auto full = static_cast<std::int64_t>(size) / kIndexBlock * kIndexBlock;
  const auto indexed = TRY(indexed_size(log.reader()));
  if (indexed != full)
    log.findings().add(
        "the index of the log",
        fmt::format("it covers {} entries, but the full blocks of the log have {}", indexed, full));
  return {};
}

}  // namespace driftgate::evidence::tables
