#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/evidence/index/index_block.hpp"
#include "daemon/evidence/log/merkle.hpp"
#include "daemon/store/sqlite/sql.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::evidence {

/// What an append needs to know of the entries before it: the next number, the newest entry of each
/// promotion, the right edge of the tree and the values of the unfinished block. It is kept in memory
/// (store::Tx::beside) and read from the log where it is missing.
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
  /// Whether root() follows from hashes that were read from the database and not yet compared with a signed
  /// head.
  [[nodiscard]] bool is_unchecked() const { return unchecked_; }
  void mark_checked() { unchecked_ = false; }

 private:
  void note_newest(const std::string& promotion, std::int64_t seq);
  Result<void> read_edge(store::Reader& reader, std::uint64_t size);
  Result<void> add_leaf(store::Tx& tx, std::int64_t seq, const std::string& bytes);
  Result<void> read_block(store::Reader& reader, std::int64_t size);
  Result<void> add_to_block(store::Tx& tx, std::int64_t seq, const schema::EntryDraft& draft);

  std::optional<std::int64_t> next_;
  std::unordered_map<std::string, std::int64_t> newest_;  ///< at most kMaxKnownPromotions
  std::pair<const std::string, std::int64_t>* last_ = nullptr;  ///< in newest_: what was set last
  std::optional<std::vector<Hash>> edge_;  ///< roots of the complete subtrees of all entries, from the left
  bool unchecked_ = true;
  std::optional<IndexBlock> block_;  ///< the unfinished one
};

}  // namespace driftgate::evidence
