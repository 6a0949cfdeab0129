#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/evidence/index/index_block.hpp"
#include "daemon/evidence/index/index_node.hpp"
#include "daemon/evidence/tables/parts.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::evidence::tables {

using store::Row;
using store::Sql;

namespace {

constexpr Sql kEntries{"entries of a block to check",
                       "SELECT seq, bytes FROM entries WHERE seq >= ?1 AND seq < ?2 ORDER BY seq"};
constexpr Sql kRows{"rows of the index", "SELECT count(*) FROM index_places WHERE block < ?1"};
constexpr Sql kNodes{"nodes of the index", "SELECT count(*) FROM index_nodes WHERE block < ?1"};
constexpr Sql kBeyond{"rows beyond the index",
                      "SELECT (SELECT count(*) FROM index_places WHERE block >= ?1) + "
                      "(SELECT count(*) FROM index_nodes WHERE block >= ?1)"};

/// Nodes of all levels that so many blocks complete.
std::int64_t nodes_of(std::int64_t blocks) {
  std::int64_t nodes = 0;
  for (unsigned level = 0; level <= kTopIndexLevel; ++level) nodes += blocks >> (kNodeBits * level);
  return nodes;
}

}  // namespace

Result<std::int64_t> check_block(LogView& log, std::int64_t block) {
  const std::int64_t first = block * kIndexBlock;
  IndexBlock index(block);
  std::int64_t entries = 0;
  TRY(log.reader().each(kEntries, {first, first + kIndexBlock}, [&](const Row& row) {
    const std::int64_t seq = row.integer(0);
    const auto entry = schema::decode_entry(row.bytes(1));
    ++entries;
    if (!entry || entry->seq != seq) {
      // Its bytes are checked against the tree elsewhere.
      log.findings().add(
          fmt::format("evidence entry {}", seq),
          entry ? fmt::format("its bytes are those of entry {}", entry->seq) : entry.error().message);
    }
    index.add(seq, entry ? std::optional(indexed_entry(entry->draft)) : std::nullopt);
    return true;
  }));
  if (entries != kIndexBlock) return 0;
  const auto where = fmt::format("the index of entries {} to {}", first, first + kIndexBlock - 1);
  const auto stored = TRY(indexed_size(log.reader()));
  if (stored <= first) return 0;  // check_index_size says so for all of them at once
  return index.compare(log.reader(), [&](const std::string& what) {
    log.findings().add(where, fmt::format("{} is not what the entries say", what));
  });
}

Result<void> check_index_size(LogView& log, std::int64_t blocks, std::int64_t rows) {
  const auto size = TRY(tree_size(log.reader()));
  const auto full = static_cast<std::int64_t>(size) / kIndexBlock;
  const auto entries = TRY(indexed_size(log.reader()));
  const auto indexed = entries / kIndexBlock;
  const auto checked = std::min(blocks, indexed);
  const auto stored = TRY(find_row<std::int64_t>(log.reader(), kRows, {checked}));
  if (stored != rows)
    log.findings().add(fmt::format("the index of the first {} blocks", checked),
                       fmt::format("it has {} rows, but the entries make {}", stored.value_or(0), rows));
  const auto nodes = TRY(find_row<std::int64_t>(log.reader(), kNodes, {indexed}));
  if (nodes != nodes_of(indexed))
    log.findings().add(
        fmt::format("the index of the first {} blocks", indexed),
        fmt::format("it has {} nodes, but the blocks make {}", nodes.value_or(0), nodes_of(indexed)));
  const auto beyond = TRY(find_row<std::int64_t>(log.reader(), kBeyond, {indexed}));
  if (beyond != 0)
    log.findings().add("the index of the log",
                       fmt::format("it has {} rows beyond its {} entries", beyond.value_or(0), entries));
  if (indexed < full)
    log.findings().add(
        "the index of the log",
        fmt::format("it covers {} entries of {}, as an upgrade leaves it that was interrupted: "
                    "a daemon must start on the folder once",
                    entries, full * kIndexBlock),
        true);
  return {};
}

}  // namespace driftgate::evidence::tables
