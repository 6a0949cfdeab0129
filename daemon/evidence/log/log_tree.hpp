#pragma once

#include <cstdint>
#include <vector>

#include "daemon/evidence/log/merkle.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::evidence {

/// Subtrees of 2^kStoredLevel leaves and more are stored; what lies below is computed from the entries, of
/// which there are few, so that an append writes one row and not three.
inline constexpr unsigned kStoredLevel = 6;
inline constexpr std::uint64_t kGroup = 1ULL << kStoredLevel;  ///< entries of a smallest stored subtree

/// Where a stored subtree lies: as `node_position` numbers the tree whose leaves are the groups.
[[nodiscard]] std::int64_t stored_position(unsigned level, std::uint64_t index);

/// The hash of a complete subtree of the log. `corrupt` when a node or entry of it is missing.
[[nodiscard]] Result<Hash> subtree(store::Reader& reader, unsigned level, std::uint64_t index);

/// Stores the node of a complete subtree of at least kStoredLevel levels; they are stored in the order in
/// which they complete.
[[nodiscard]] Result<void> store_node(store::Tx& tx, unsigned level, std::uint64_t index, const Hash& hash);

inline constexpr unsigned kMaxLevels = 64;

/// Adds the subtree of number `index` of its level to the right edge of a tree of such subtrees: `edge` holds
/// the roots of the complete subtrees, from the left. Calls `on_node(levels above, hash)` for each node that
/// it completes, itself first, up to `top` levels above.
template <typename OnNode>
void grow(std::vector<Hash>& edge, std::uint64_t index, Hash hash, unsigned top, OnNode&& on_node) {
  on_node(0U, hash);
  for (unsigned level = 0; level < top && (index >> level & 1) != 0; ++level) {
    hash = node_hash(edge.back(), hash);
    edge.pop_back();
    on_node(level + 1, hash);
  }
  edge.push_back(hash);
}

/// RFC 6962 root of the tree with this right edge.
[[nodiscard]] Hash root_of_edge(const std::vector<Hash>& edge);

}  // namespace driftgate::evidence
