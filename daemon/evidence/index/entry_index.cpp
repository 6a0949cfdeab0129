#include "daemon/evidence/index/entry_index.hpp"

#include <utility>

#include "daemon/evidence/index/index_block.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::evidence {

using store::Reader;
using store::Row;
using store::Sql;
using store::Tx;

namespace {

constexpr std::size_t kBitmapBytes = static_cast<std::size_t>(kIndexBlock) / 8;
constexpr std::size_t kMaxListed =
    kBitmapBytes / 2;  ///< a list as long as the bitmap would be mistaken for it

constexpr Sql kIndexed{"indexed blocks", "SELECT coalesce(max(block), -1) + 1 FROM index_blocks"};
// The kernel of what names one itself; that of the others is their promotion's.
constexpr Sql kEntries{
    "entries of a block",
    "SELECT seq, time_us, promotion, kind, actor, model, stage, checkpoint, contract, "
    "CASE WHEN kind IN ('engine_registered', 'model_bootstrapped', 'promotion_requested') "
    "THEN json_extract(CAST(bytes AS TEXT), '$.body.kernel') WHEN kind = 'kernel_registered' "
    "THEN json_extract(CAST(bytes AS TEXT), '$.body.name') END, clause, verdict "
    "FROM entries WHERE seq >= ?1 AND seq < ?2 ORDER BY seq"};
constexpr int kSeqColumn = 0, kTimeColumn = 1, kPromotionColumn = 2, kFirstFieldColumn = 3;

IndexedEntry entry_of(const Row& row) {
  IndexedEntry entry{.seq = row.integer(kSeqColumn), .time_us = row.integer(kTimeColumn)};
  if (!row.is_null(kPromotionColumn)) entry.promotion = row.bytes(kPromotionColumn);
  for (std::size_t field = 0; field < kIndexFields; ++field) {
    const int column = kFirstFieldColumn + static_cast<int>(field);
    if (!row.is_null(column)) entry.values[field] = row.bytes(column);
  }
  return entry;
}

std::unexpected<schema::Error> bad_places() {
  return schema::fail(schema::ErrorCode::corrupt,
                      "the index of the evidence log is damaged: restore a backup");
}

}  // namespace

std::string encode_places(const Places& places) {
  std::string bytes;
  if (places.count() < kMaxListed) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (!places[i]) continue;
      bytes += static_cast<char>(i & 0xff);
      bytes += static_cast<char>(i >> 8);
    }
    return bytes;
  }
  bytes.resize(kBitmapBytes);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i]) bytes[i / 8] = static_cast<char>(static_cast<unsigned char>(bytes[i / 8]) | 1U << (i % 8));
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
  auto blocks = TRY(find_row<std::int64_t>(reader, kIndexed, {}));
  return blocks.value_or(0) * kIndexBlock;
}

Result<void> index_next_block(Tx& tx) {
  auto indexed = TRY(indexed_size(tx));
  IndexBlock block(indexed / kIndexBlock);
  TRY(tx.each(kEntries, {indexed, indexed + kIndexBlock}, [&](const Row& row) {
    block.add(entry_of(row));
    return true;
  }));
  return block.write(tx);
}

}  // namespace driftgate::evidence
