#include "daemon/evidence/index/entry_index.hpp"

#include <algorithm>
#include <utility>

#include "daemon/evidence/index/entry_glance.hpp"
#include "daemon/evidence/index/index_block.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/sha256.hpp"

namespace driftgate::evidence {

using store::Reader;
using store::Row;
using store::Sql;
using store::Tx;

namespace {

constexpr std::size_t kBitmapBytes = static_cast<std::size_t>(kIndexBlock) / 8;
constexpr std::size_t kMaxListed =
    kBitmapBytes / 2;  ///< a list as long as the bitmap would be mistaken for it
constexpr std::int64_t kBlocksAtOnce = 64;  ///< in one transaction of index_log

// Nodes beyond the full blocks are not of the daemon: they must not hide the entries that are not indexed
// yet.
constexpr Sql kIndexed{"indexed blocks",
                       "SELECT min((SELECT coalesce(max(block), -1) + 1 FROM index_nodes), "
                       "(SELECT (coalesce(max(seq), -1) + 1) / ?1 FROM entries))"};
constexpr Sql kFull{"full blocks", "SELECT (coalesce(max(seq), -1) + 1) / ?1 FROM entries"};
constexpr Sql kEntries{"entries of a block",
                       "SELECT seq, bytes FROM entries WHERE seq >= ?1 AND seq < ?2 ORDER BY seq"};

std::unexpected<schema::Error> bad_places() {
  return schema::fail(schema::ErrorCode::corrupt,
                      "the index of the evidence log is damaged: restore a backup");
}

/// Whether blocks are left.
Result<bool> index_some(Tx& tx) {
  const auto full = TRY(find_row<std::int64_t>(tx, kFull, {kIndexBlock}));
  auto done = TRY(indexed_size(tx));
  const std::int64_t left = full.value_or(0) - done / kIndexBlock;
  for (std::int64_t i = 0; i < std::min(left, kBlocksAtOnce); ++i) TRY(index_next_block(tx));
  return left > kBlocksAtOnce;
}

}  // namespace

std::int64_t index_key(IndexField field, std::string_view value) {
  thread_local schema::Sha256 digest;
  const char number = static_cast<char>(field);
  const auto hash = digest.update(std::string_view(&number, 1)).update(value).finish();
  std::uint64_t key = 0;
  for (std::size_t i = 0; i < sizeof key; ++i) key = key << 8 | hash[i];
  return static_cast<std::int64_t>(key);
}

std::string encode_places(const Places& places) {
  std::string bytes;
  if (places.count() < kMaxListed) {
    for (std::size_t i = places._Find_first(); i < places.size(); i = places._Find_next(i)) {
      bytes += static_cast<char>(i & 0xff);
      bytes += static_cast<char>(i >> 8);
    }
    return bytes;
  }
  bytes.resize(kBitmapBytes);
  for (std::size_t i = places._Find_first(); i < places.size(); i = places._Find_next(i)) {
    bytes[i / 8] = static_cast<char>(static_cast<unsigned char>(bytes[i / 8]) | 1U << (i % 8));
  }
  return bytes;
}

Result<Places> decode_places(std::string_view bytes) {
  Places places;
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]));
  };
  if (bytes.size() == kBitmapBytes) {
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = (byte(i / 8) >> (i % 8) & 1) != 0;
    if (places.count() < kMaxListed) return bad_places();
    return places;
  }
  if (bytes.empty() || bytes.size() % 2 != 0 || bytes.size() > kBitmapBytes) return bad_places();
  std::size_t least = 0;  // the places of a list rise
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const std::size_t place = byte(i) | byte(i + 1) << 8;
    if (place < least || place >= places.size()) return bad_places();
    places.set(place);
    least = place + 1;
  }
  return places;
}

Result<std::int64_t> indexed_size(Reader& reader) {
  auto blocks = TRY(find_row<std::int64_t>(reader, kIndexed, {kIndexBlock}));
  return blocks.value_or(0) * kIndexBlock;
}

Result<bool> is_indexed(Reader& reader) {
  const auto full = TRY(find_row<std::int64_t>(reader, kFull, {kIndexBlock}));
  const auto indexed = TRY(indexed_size(reader));
  return indexed == full.value_or(0) * kIndexBlock;
}

Result<void> index_next_block(Tx& tx) {
  auto indexed = TRY(indexed_size(tx));
  IndexBlock block(indexed / kIndexBlock);
  EntryGlance glance;
  TRY(tx.each(kEntries, {indexed, indexed + kIndexBlock}, [&](const Row& row) {
    block.add(row.integer(0), glance.read(row.bytes(1)));
    return true;
  }));
  return block.write(tx);
}

Result<void> index_log(store::Store& store) {
  for (bool more = true; more;) {
    more = TRY(store.write("index the log", index_some));
  }
  return {};
}

}  // namespace driftgate::evidence
