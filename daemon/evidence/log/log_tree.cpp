#include "daemon/evidence/log/log_tree.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"

namespace driftgate::evidence {

using store::Blob;
using store::Reader;
using store::Row;
using store::Sql;
using store::Tx;

namespace {

constexpr Sql kNode{"find node", "SELECT hash FROM tree_nodes WHERE position = ?1"};
constexpr Sql kInsertNode{"append node", "INSERT INTO tree_nodes(position, hash) VALUES(?1, ?2)"};
constexpr Sql kLeaves{"entries of a subtree",
                      "SELECT bytes FROM entries WHERE seq >= ?1 AND seq < ?2 ORDER BY seq"};

Result<Hash> read_node(Reader& reader, std::int64_t position) {
  auto found = TRY(find_row<std::string>(reader, kNode, {position}));
  if (!found || found->size() != sizeof(Hash)) {
    return schema::failf(schema::ErrorCode::corrupt, "node {} of the evidence log is missing", position);
  }
  Hash hash;
  std::copy(found->begin(), found->end(), reinterpret_cast<char*>(hash.data()));
  return hash;
}

/// The root of a complete subtree.
Hash root_of(std::vector<Hash> hashes) {
  for (; hashes.size() > 1; hashes.resize(hashes.size() / 2)) {
    for (std::size_t i = 0; i < hashes.size() / 2; ++i) {
      hashes[i] = node_hash(hashes[2 * i], hashes[2 * i + 1]);
    }
  }
  return hashes.front();
}

Result<Hash> subtree_of_entries(Reader& reader, unsigned level, std::uint64_t index) {
  std::vector<Hash> hashes;
  const std::uint64_t first = index << level;
  const std::uint64_t end = (index + 1) << level;
  hashes.reserve(end - first);
  TRY(reader.each(kLeaves, {first, end}, [&](const Row& row) {
    hashes.push_back(leaf_hash(row.bytes(0)));
    return true;
  }));
  if (hashes.size() != end - first) {
    return schema::failf(schema::ErrorCode::corrupt, "some of the evidence entries {} to {} are missing",
                         first, end - 1);
  }
  return root_of(std::move(hashes));
}

Result<void> add_node(Tx& tx, std::int64_t position, const Hash& hash) {
  TRY(tx.run(kInsertNode, {position, Blob{schema::as_chars(hash)}}));
  return {};
}

}  // namespace

std::int64_t stored_position(unsigned level, std::uint64_t index) {
  return node_position(level - kStoredLevel, index);
}

Result<Hash> subtree(Reader& reader, unsigned level, std::uint64_t index) {
  if (level < kStoredLevel) return subtree_of_entries(reader, level, index);
  return read_node(reader, stored_position(level, index));
}

Result<void> store_node(Tx& tx, unsigned level, std::uint64_t index, const Hash& hash) {
  return add_node(tx, stored_position(level, index), hash);
}

Hash root_of_edge(const std::vector<Hash>& edge) {
  if (edge.empty()) return empty_root();
  Hash hash = edge.back();
  for (auto left = edge.rbegin() + 1; left != edge.rend(); ++left) hash = node_hash(*left, hash);
  return hash;
}

}  // namespace driftgate::evidence
