#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/store/sqlite/sql.hpp"
#include "schema/error.hpp"

namespace driftgate::evidence {

using schema::Result;

/// Entries of one block of the index. A block is indexed as a whole, when its last entry is appended: a write
/// to a secondary index for each entry would cost more than the log itself.
inline constexpr std::int64_t kIndexBlock = 1'024;

/// What entries are found by. The numbers are stored.
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
};

/// Which entries of a block have a value: bit i is entry block · kIndexBlock + i.
using Places = std::bitset<static_cast<std::size_t>(kIndexBlock)>;

/// As stored: 16-bit little-endian numbers when they are fewer than 64, else the bits, 128 bytes.
[[nodiscard]] std::string encode_places(const Places& places);
/// `corrupt` for anything that encode_places does not give.
[[nodiscard]] Result<Places> decode_places(std::string_view bytes);

/// Entries that are in the index: all below the result, a multiple of kIndexBlock.
[[nodiscard]] Result<std::int64_t> indexed_size(store::Reader& reader);

/// Indexes the block after those that are indexed; its entries must be in the log.
Result<void> index_next_block(store::Tx& tx);

}  // namespace driftgate::evidence
