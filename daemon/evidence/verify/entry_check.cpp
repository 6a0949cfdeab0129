#include "daemon/evidence/verify/entry_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/evidence/log/log_tree.hpp"

namespace driftgate::evidence {

using store::Reader;
using store::Row;
using store::Sql;

namespace {

constexpr std::uint64_t kBlock =
    16 * kGroup;  ///< entries in one read: at most 64 MB of bytes, one row at a time

constexpr Sql kEntries{"entries to check",
                       "SELECT seq, bytes FROM entries WHERE seq >= ?1 AND seq < ?2 ORDER BY seq"};
constexpr Sql kNodes{
    "nodes to check",
    "SELECT position, hash FROM tree_nodes WHERE position >= ?1 AND position < ?2 ORDER BY position"};

std::string entries_text(std::uint64_t first, std::uint64_t end) {
  return first + 1 == end ? fmt::format("evidence entry {}", first)
                          : fmt::format("evidence entries {} to {}", first, end - 1);
}

/// The hashes of the entries [first, end); a missing one is reported and has the hash of nothing.
Result<std::vector<Hash>> read_leaves(Reader& reader, std::uint64_t first, std::uint64_t end,
                                      std::vector<Difference>& found) {
  std::vector<std::optional<Hash>> leaves(end - first);
  TRY(reader.each(kEntries, {first, end}, [&](const Row& row) {
    leaves[row.unsigned_integer(0) - first] = leaf_hash(row.bytes(1));
    return true;
  }));
  std::vector<Hash> hashes;
  for (std::uint64_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i]) found.push_back({entries_text(first + i, first + i + 1), "it is missing"});
    hashes.push_back(leaves[i].value_or(Hash{}));
  }
  return hashes;
}

/// The stored nodes [first, end) by their position; a missing one has the hash of nothing, which no node has.
Result<std::vector<Hash>> read_nodes(Reader& reader, std::int64_t first, std::int64_t end) {
  std::vector<Hash> nodes(static_cast<std::size_t>(end - first));
  TRY(reader.each(kNodes, {first, end}, [&](const Row& row) {
    const auto bytes = row.bytes(1);
    auto& node = nodes[static_cast<std::size_t>(row.integer(0) - first)];
    if (bytes.size() == node.size()) std::ranges::copy(bytes, reinterpret_cast<char*>(node.data()));
    return true;
  }));
  return nodes;
}

}  // namespace

Result<bool> EntryCheck::step(Reader& reader, std::vector<Difference>& found) {
  if (is_finished_) return false;
  const std::uint64_t end = std::min(done_ + kBlock, size_);
  const std::uint64_t first_group = done_ / kGroup;
  const std::uint64_t groups = end / kGroup;
  const std::int64_t first_node = stored_position(kStoredLevel, first_group);
  std::vector<Difference> differences;
  auto leaves = TRY(read_leaves(reader, done_, end, differences));
  auto nodes = TRY(read_nodes(reader, first_node, stored_position(kStoredLevel, groups)));
  for (std::uint64_t group = first_group; group < groups; ++group) {
    const auto at = leaves.begin() + static_cast<std::ptrdiff_t>((group - first_group) * kGroup);
    check_group(group, {at, at + kGroup}, nodes, first_node, differences);
  }
  for (std::uint64_t seq = std::max(groups * kGroup, done_); seq < end; ++seq) {
    grow(rest_, seq % kGroup, leaves[seq - done_], kStoredLevel, [](unsigned, const Hash&) {});
  }
  done_ = end;
  if (done_ == size_) finish(differences);
  found.insert(found.end(), std::make_move_iterator(differences.begin()),
               std::make_move_iterator(differences.end()));
  return !is_finished_;
}

/// Compares the group's node and those that it completes above with the stored ones. After a difference it
/// goes on with the stored hash, so that one change is named once.
void EntryCheck::check_group(std::uint64_t group, const std::vector<Hash>& leaves,
                             const std::vector<Hash>& nodes, std::int64_t first_node,
                             std::vector<Difference>& found) {
  std::vector<Hash> own;
  for (std::uint64_t i = 0; i < kGroup; ++i)
    grow(own, i, leaves[i], kStoredLevel, [](unsigned, const Hash&) {});
  const auto stored = [&](unsigned level, std::uint64_t index) {
    return nodes[static_cast<std::size_t>(stored_position(level, index) - first_node)];
  };
  Hash hash = stored(kStoredLevel, group);
  if (own.front() != hash) {
    found.push_back(
        {entries_text(group * kGroup, (group + 1) * kGroup),
         "their bytes do not give the stored node of the tree, so that some of them were changed"});
  }
  for (unsigned level = 0; (group >> level & 1) != 0; ++level) {
    const Hash expected = node_hash(edge_.back(), hash);
    edge_.pop_back();
    const unsigned above = kStoredLevel + level + 1;
    hash = stored(above, group >> (level + 1));
    if (hash == expected) continue;
    const std::uint64_t index = group >> (level + 1);
    found.push_back({fmt::format("node {} of the tree", stored_position(above, index)),
                     fmt::format("it does not follow from the two nodes below it, over {}",
                                 entries_text(index << above, (index + 1) << above))});
  }
  edge_.push_back(hash);
}

void EntryCheck::finish(std::vector<Difference>& found) {
  is_finished_ = true;
  std::vector<Hash> edge = edge_;
  edge.insert(edge.end(), rest_.begin(), rest_.end());
  if (root_of_edge(edge) == root_) return;
  found.push_back(
      {fmt::format("the tree of {} entries", size_),
       "its root is not the one that the log's signed head names, so that entries or nodes were changed"});
}

}  // namespace driftgate::evidence
