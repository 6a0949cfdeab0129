#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/store/sqlite/sql.hpp"
#include "daemon/store/store.hpp"
#include "schema/error.hpp"

namespace driftgate::evidence {

using schema::Result;

/// Entries of one block of the index. A block is indexed as a whole, when its last entry is appended: a write
/// to a secondary index for each entry would cost more than the log itself. What is newer than the last block
/// is found by a look at each entry, so that a block must not be large either.
inline constexpr std::int64_t kIndexBlock = 512;

/// What entries are found by. The numbers are part of the keys that are stored.
enum class IndexField : std::uint8_t {
  kind = 1,
  actor = 2,
  model = 3,
  stage = 4,
  checkpoint = 5,
  contract = 6,
  kernel = 7,  ///< name of the kernel that an entry names, or that its promotion's candidate runs on
  clause = 8,
  verdict = 9,
  promotion = 10,
};

/// What stands for a value in the index: the first 64 bits of SHA-256(field ‖ value). Two values may share
/// one, so that what the index leads to is compared with the bytes of the entry.
[[nodiscard]] std::int64_t index_key(IndexField field, std::string_view value);

/// Which entries of a block have a value: bit i is entry block · kIndexBlock + i.
using Places = std::bitset<static_cast<std::size_t>(kIndexBlock)>;

/// As stored: 16-bit little-endian numbers when they are fewer than 32, else the bits, 64 bytes.
[[nodiscard]] std::string encode_places(const Places& places);
/// `corrupt` for anything that encode_places does not give.
[[nodiscard]] Result<Places> decode_places(std::string_view bytes);

/// Entries that are in the index: all below the result, a multiple of kIndexBlock.
[[nodiscard]] Result<std::int64_t> indexed_size(store::Reader& reader);
/// Whether that is every full block: not so between a migration and the end of index_log.
[[nodiscard]] Result<bool> is_indexed(store::Reader& reader);

/// Indexes the block after those that are indexed; its entries must be in the log.
Result<void> index_next_block(store::Tx& tx);

/// Indexes the full blocks that are not indexed yet, in several transactions: all of them after a migration,
/// usually none.
Result<void> index_log(store::Store& store);

}  // namespace driftgate::evidence
