#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/evidence/index_block.hpp"
#include "daemon/evidence/merkle.hpp"
#include "daemon/store/sql.hpp"
#include "schema/evidence_entry.hpp"

namespace driftgate::evidence {

/// A string member of an entry's body.
[[nodiscard]] std::optional<std::string_view> body_text(const schema::EntryDraft& draft,
                                                        std::string_view key);

/// What an append needs of the entries before it, kept beside the writer's connection (store::Tx::beside) so
/// that it is not read back: the next number, the newest entry of each promotion, the leaves of the
/// unfinished group and the values of the unfinished block. What it does not know is read from the log.
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

 private:
  Result<void> add_leaf(store::Tx& tx, std::int64_t seq, const std::string& bytes);
  Result<void> add_to_block(store::Tx& tx, std::int64_t seq, const schema::EntryDraft& draft);

  std::optional<std::int64_t> next_;
  std::unordered_map<std::string, std::int64_t> newest_;  ///< at most kMaxKnownPromotions
  std::vector<Hash> leaves_;                              ///< of the unfinished group, all or none
  std::optional<IndexBlock> block_;                       ///< the unfinished one, from its first entry on
};

}  // namespace driftgate::evidence
