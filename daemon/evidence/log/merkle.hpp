#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "schema/error.hpp"
#include "schema/sha256.hpp"

namespace driftgate::evidence {

using schema::Result;
using Hash = schema::Sha256Bytes;

/// SHA-256(0x00 ‖ entry), RFC 6962 section 2.1.
[[nodiscard]] Hash leaf_hash(std::string_view entry);
/// SHA-256(0x01 ‖ left ‖ right).
[[nodiscard]] Hash node_hash(const Hash& left, const Hash& right);
/// SHA-256 of nothing: the root of the tree without leaves.
[[nodiscard]] Hash empty_root();

/// The number of the complete subtree of 2^level leaves that starts at leaf index·2^level: nodes are numbered
/// in the order in which they complete, so that storing them only ever appends.
[[nodiscard]] std::int64_t node_position(unsigned level, std::uint64_t index);

/// Gives the hash of the complete subtree of 2^level leaves that starts at leaf index·2^level.
using NodeSource = std::function<Result<Hash>(unsigned level, std::uint64_t index)>;

/// Root of the first `size` leaves.
[[nodiscard]] Result<Hash> root_at(std::uint64_t size, const NodeSource& nodes);
/// RFC 9162 section 2.1.3: the path for leaf `index` in the tree of `size`. `invalid_argument` unless index <
/// size.
[[nodiscard]] Result<std::vector<Hash>> inclusion_proof(std::uint64_t index, std::uint64_t size,
                                                        const NodeSource& nodes);
/// RFC 9162 section 2.1.4: the tree of `from` leaves is a prefix of the tree of `to`. `invalid_argument`
/// unless from ≤ to; empty when they are equal or `from` is 0.
[[nodiscard]] Result<std::vector<Hash>> consistency_proof(std::uint64_t from, std::uint64_t to,
                                                          const NodeSource& nodes);

/// RFC 9162 section 2.1.3.2.
[[nodiscard]] bool verify_inclusion(const Hash& leaf, std::uint64_t index, std::uint64_t size,
                                    const std::vector<Hash>& proof, const Hash& root);
/// RFC 9162 section 2.1.4.2; with `from` = 0 the proof must be empty and `from_root` the empty tree's.
[[nodiscard]] bool verify_consistency(std::uint64_t from, std::uint64_t to, const Hash& from_root,
                                      const Hash& to_root, const std::vector<Hash>& proof);

}  // namespace driftgate::evidence
