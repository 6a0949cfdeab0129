#pragma once

#include <cstdint>
#include <vector>

#include "daemon/evidence/merkle.hpp"
#include "daemon/store/sql.hpp"

namespace driftgate::evidence {

/// Subtrees of 2^kStoredLevel leaves and more are stored; what lies below is computed from the entries, of
/// which there are few, so that an append writes one row and not three.
inline constexpr unsigned kStoredLevel = 6;
inline constexpr std::uint64_t kGroup = 1ULL << kStoredLevel;  ///< entries of a smallest stored subtree

/// Where a stored subtree lies: as `node_position` numbers the tree whose leaves are the groups.
[[nodiscard]] std::int64_t stored_position(unsigned level, std::uint64_t index);

/// The hash of a complete subtree of the log. `corrupt` when a node or entry of it is missing.
[[nodiscard]] Result<Hash> subtree(store::Reader& reader, unsigned level, std::uint64_t index);

/// Groups whose nodes are stored.
[[nodiscard]] Result<std::uint64_t> stored_groups(store::Reader& reader);

/// Stores the nodes that the next group of entries completes; all its entries must be in the log.
[[nodiscard]] Result<void> store_next_group(store::Tx& tx);
/// The same with the group's leaves at hand.
[[nodiscard]] Result<void> store_next_group(store::Tx& tx, std::vector<Hash> leaves);

}  // namespace driftgate::evidence
