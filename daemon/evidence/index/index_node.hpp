#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "daemon/evidence/index/entry_index.hpp"

namespace driftgate::evidence {

inline constexpr unsigned kNodeBits = 4;        ///< a node above the blocks has 2^kNodeBits children
inline constexpr unsigned kTopIndexLevel = 3;   ///< 2,097,152 entries
using Children = std::bitset<1U << kNodeBits>;  ///< the least significant is the oldest

/// A part of the index: a block (level 0), or the 16 nodes of the level below. A node is stored when its last
/// block is, and under the number of that block, so that rows are only ever added at the end.
struct IndexNode {
  unsigned level = 0;
  std::int64_t number = 0;  ///< within its level

  [[nodiscard]] std::int64_t first_block() const { return number << (kNodeBits * level); }
  [[nodiscard]] std::int64_t last_block() const { return ((number + 1) << (kNodeBits * level)) - 1; }
  [[nodiscard]] IndexNode child(std::int64_t i) const { return {level - 1, (number << kNodeBits) + i}; }
};

/// The earliest and the latest time of a node's entries.
struct NodeTimes {
  std::int64_t min_us = 0;
  std::int64_t max_us = 0;
  bool operator==(const NodeTimes&) const = default;
};

/// What a node above the blocks says: which of its children have a key.
struct InnerNode {
  std::map<std::int64_t, Children> children{};
  NodeTimes times{};
  bool operator==(const InnerNode&) const = default;
};

/// The bytes that a node has under a key, or nothing.
[[nodiscard]] Result<std::optional<std::string>> node_places(store::Reader& reader, const IndexNode& node,
                                                             std::int64_t key);
/// All that a node has, by key.
[[nodiscard]] Result<std::map<std::int64_t, std::string>> node_rows(store::Reader& reader,
                                                                    const IndexNode& node);
/// Nothing when the node is not stored.
[[nodiscard]] Result<std::optional<NodeTimes>> node_times(store::Reader& reader, const IndexNode& node);
Result<void> add_row(store::Tx& tx, const IndexNode& node, std::int64_t key, std::string_view places);
Result<void> add_times(store::Tx& tx, const IndexNode& node, const NodeTimes& times);

[[nodiscard]] std::string encode_children(const Children& children);
/// `corrupt` for anything that encode_children does not give.
[[nodiscard]] Result<Children> decode_children(std::string_view bytes);
/// What the stored children of a node say together. `corrupt` when one is missing.
[[nodiscard]] Result<InnerNode> join_children(store::Reader& reader, const IndexNode& node);
Result<void> write_inner(store::Tx& tx, const IndexNode& node);

}  // namespace driftgate::evidence
