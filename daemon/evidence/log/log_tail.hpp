#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/evidence/index/index_block.hpp"
#include "daemon/evidence/log/merkle.hpp"
#include "daemon/store/sqlite/sql.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::evidence {

/// A string member of an entry's body.
[[nodiscard]] std::optional<std::string_view> body_text(const schema::EntryDraft& draft,
                                                        std::string_view key);

/// What an append needs of the entries before it, kept beside the writer's connection (store::Tx::beside) so
/// that it is not read back: the next number, the newest entry of each promotion, the right edge of the tree
/// and the values of the unfinished block. What it does not know is read from the log.
class LogTail {
 public:
  /// The number of the next entry.
  Result<std::int64_t> next(store::Reader& reader);
  /// The number of the newest entry of a promotion.
  Result<std::optional<std::int64_t>> newest_of(store::Reader& reader, const std::string& promotion);
  /// Takes in the entry that was stored as `seq`, which next() gave, and stores the nodes and the block that
  /// it completes.
  Result<void> add(store::Tx& tx, std::int64_t seq, const schema::EntryDraft& draft,
                   const std::string& bytes);
  /// Root of the tree of all entries, by O(log n) hashes.
  Result<Hash> root(store::Reader& reader);
  /// Whether root() rests on what was read from the database and nobody has compared with a signed head yet.
  [[nodiscard]] bool is_unchecked() const { return unchecked_; }
  void mark_checked() { unchecked_ = false; }

 private:
  Result<void> read_edge(store::Reader& reader, std::uint64_t size);
  Result<void> add_leaf(store::Tx& tx, std::int64_t seq, const std::string& bytes);
  Result<void> add_to_block(store::Tx& tx, std::int64_t seq, const schema::EntryDraft& draft);

  std::optional<std::int64_t> next_;
  std::unordered_map<std::string, std::int64_t> newest_;  ///< at most kMaxKnownPromotions
  std::optional<std::vector<Hash>> edge_;  ///< roots of the complete subtrees of all entries, from the left
  bool unchecked_ = true;
  std::optional<IndexBlock> block_;                       ///< the unfinished one, from its first entry on
};

}  // namespace driftgate::evidence
