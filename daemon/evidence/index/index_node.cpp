#include "daemon/evidence/index/index_node.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::evidence {

using store::Blob;
using store::Reader;
using store::Row;
using store::Sql;
using store::Tx;

namespace {

constexpr Sql kPlaces{"places of a value",
                      "SELECT places FROM index_places WHERE block = ?1 AND level = ?2 AND key = ?3"};
constexpr Sql kRows{"places of a node",
                    "SELECT key, places FROM index_places WHERE block = ?1 AND level = ?2"};
constexpr Sql kTimes{"times of a node",
                     "SELECT min_us, max_us FROM index_nodes WHERE block = ?1 AND level = ?2"};
// What is there before a node is written was put there by somebody else. It must not keep the log from
// growing; a row that is not replaced stays, and the checks of the index find it.
constexpr Sql kAddPlaces{
    "add places", "INSERT OR REPLACE INTO index_places(block, level, key, places) VALUES(?1, ?2, ?3, ?4)"};
constexpr Sql kAddNode{
    "add index node",
    "INSERT OR REPLACE INTO index_nodes(block, level, min_us, max_us) VALUES(?1, ?2, ?3, ?4)"};

std::unexpected<schema::Error> damaged() {
  return schema::fail(schema::ErrorCode::corrupt,
                      "the index of the evidence log is damaged: restore a backup");
}

}  // namespace

Result<std::optional<std::string>> node_places(Reader& reader, const IndexNode& node, std::int64_t key) {
  return find_row<std::string>(reader, kPlaces, {node.last_block(), node.level, key});
}

Result<std::map<std::int64_t, std::string>> node_rows(Reader& reader, const IndexNode& node) {
  std::map<std::int64_t, std::string> rows;
  TRY(reader.each(kRows, {node.last_block(), node.level}, [&](const Row& row) {
    rows.emplace(row.integer(0), row.text(1));
    return true;
  }));
  return rows;
}

Result<std::optional<NodeTimes>> node_times(Reader& reader, const IndexNode& node) {
  return find_row<NodeTimes>(reader, kTimes, {node.last_block(), node.level});
}

Result<void> add_row(Tx& tx, const IndexNode& node, std::int64_t key, std::string_view places) {
  TRY(tx.run(kAddPlaces, {node.last_block(), node.level, key, Blob{places}}));
  return {};
}

Result<void> add_times(Tx& tx, const IndexNode& node, const NodeTimes& times) {
  TRY(tx.run(kAddNode, {node.last_block(), node.level, times.min_us, times.max_us}));
  return {};
}

std::string encode_children(const Children& children) {
  const auto bits = children.to_ulong();
  return {static_cast<char>(bits & 0xff), static_cast<char>(bits >> 8)};
}

Result<Children> decode_children(std::string_view bytes) {
  if (bytes.size() != 2) return damaged();
  const Children children(static_cast<unsigned char>(bytes[0]) |
                          static_cast<unsigned long>(static_cast<unsigned char>(bytes[1])) << 8);
  if (children.none()) return damaged();
  return children;
}

Result<InnerNode> join_children(Reader& reader, const IndexNode& node) {
  InnerNode joined{.times = {.min_us = std::numeric_limits<std::int64_t>::max()}};
  for (std::size_t i = 0; i < Children().size(); ++i) {
    const IndexNode child = node.child(static_cast<std::int64_t>(i));
    const auto times = TRY(node_times(reader, child));
    if (!times) return damaged();
    joined.times.min_us = std::min(joined.times.min_us, times->min_us);
    joined.times.max_us = std::max(joined.times.max_us, times->max_us);
    TRY(reader.each(kRows, {child.last_block(), child.level}, [&](const Row& row) {
      joined.children[row.integer(0)].set(i);
      return true;
    }));
  }
  return joined;
}

Result<void> write_inner(Tx& tx, const IndexNode& node) {
  const auto joined = TRY(join_children(tx, node));
  for (const auto& [key, children] : joined.children) TRY(add_row(tx, node, key, encode_children(children)));
  return add_times(tx, node, joined.times);
}

}  // namespace driftgate::evidence
