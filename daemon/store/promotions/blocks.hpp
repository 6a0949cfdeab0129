#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// A checkpoint and kernel that may not be promoted again under one contract.
struct BlockRow {
  std::string id{};          ///< "bl-…", sorts by time
  std::string checkpoint{};  ///< digest
  std::string kernel{};      ///< name
  std::string contract{};    ///< digest
  std::string promotion{};   ///< that led to it
  std::string reason{};
  std::string set_by{};
  std::int64_t set_us = 0;
  std::optional<std::int64_t> lifted_us{};
  std::string lifted_by{};
  std::string lift_reason{};
  std::int64_t evidence_seq = -1;  ///< of the entry that recorded its last change
  bool operator==(const BlockRow&) const = default;
};

/// True when it was new; false when the same pair is blocked under this contract already.
Result<bool> insert_block(Tx& tx, const BlockRow& block);
/// Lifts a block that is in force. `not_found` without it, `conflict` when it was lifted before.
Result<void> lift_block(Tx& tx, std::string_view id, std::string_view by, std::string_view reason,
                        std::int64_t now_us, std::int64_t evidence_seq);
Result<std::optional<BlockRow>> find_block(Reader& reader, std::string_view id);
/// The block in force on this pair under this contract.
Result<std::optional<BlockRow>> block_in_force(Reader& reader, std::string_view checkpoint,
                                               std::string_view kernel, std::string_view contract);
/// In the order of creation, those after `after` ("" = from the start), at most `limit`.
Result<std::vector<BlockRow>> list_blocks(Reader& reader, std::string_view after, std::int64_t limit);

}  // namespace driftgate::store
