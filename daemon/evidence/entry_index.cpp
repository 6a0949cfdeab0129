#include "daemon/evidence/entry_index.hpp"

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace driftgate::evidence {

using store::Blob;
using store::Reader;
using store::Row;
using store::Sql;
using store::Tx;

namespace {

constexpr std::size_t kBitmapBytes = static_cast<std::size_t>(kIndexBlock) / 8;
constexpr std::size_t kMaxListed =
    kBitmapBytes / 2;  ///< a list as long as the bitmap would be mistaken for it
constexpr std::size_t kFields = 9;

constexpr Sql kIndexed{"indexed blocks", "SELECT coalesce(max(block), -1) + 1 FROM index_blocks"};
// The kernel of what names one itself; that of the others is their promotion's.
constexpr Sql kEntries{
    "entries of a block",
    "SELECT seq, time_us, promotion, kind, actor, model, stage, checkpoint, contract, "
    "CASE WHEN kind IN ('engine_registered', 'model_bootstrapped', 'promotion_requested') "
    "THEN json_extract(CAST(bytes AS TEXT), '$.body.kernel') WHEN kind = 'kernel_registered' "
    "THEN json_extract(CAST(bytes AS TEXT), '$.body.name') END, clause, verdict "
    "FROM entries WHERE seq >= ?1 AND seq < ?2 ORDER BY seq"};
constexpr Sql kKernelOf{
    "kernel of a promotion",
    "SELECT v.kernel FROM promotions p JOIN versions v ON v.id = p.candidate WHERE p.id = ?1"};
constexpr Sql kFindKey{"find index key", "SELECT id FROM index_keys WHERE field = ?1 AND value = ?2"};
constexpr Sql kAddKey{"add index key", "INSERT INTO index_keys(field, value) VALUES(?1, ?2) RETURNING id"};
constexpr Sql kAddPlaces{"add postings", "INSERT INTO postings(key, block, places) VALUES(?1, ?2, ?3)"};
constexpr Sql kAddBlock{"add index block",
                        "INSERT INTO index_blocks(block, min_us, max_us) VALUES(?1, ?2, ?3)"};

constexpr int kSeqColumn = 0, kTimeColumn = 1, kPromotionColumn = 2, kFirstFieldColumn = 3;

/// The values of one block's entries with their places.
class Block {
 public:
  explicit Block(std::int64_t number) : first_(number * kIndexBlock) {}

  Result<void> read(Tx& tx) {
    Result<void> added;
    auto done = tx.each(kEntries, {first_, first_ + kIndexBlock}, [&](const Row& row) {
      added = add(tx, row);
      return added.has_value();
    });
    if (done && !added) return added;
    return done;
  }

  Result<void> write(Tx& tx) {
    for (std::size_t field = 0; field < kFields; ++field) {
      for (const auto& [value, places] : values_[field]) {
        auto key = key_of(tx, field + 1, value);
        if (!key) return std::unexpected(std::move(key.error()));
        auto added = tx.run(kAddPlaces, {*key, first_ / kIndexBlock, Blob{encode_places(places)}});
        if (!added) return std::unexpected(std::move(added.error()));
      }
    }
    auto added = tx.run(kAddBlock, {first_ / kIndexBlock, min_us_, max_us_});
    if (!added) return std::unexpected(std::move(added.error()));
    return {};
  }

  [[nodiscard]] std::int64_t entries() const { return entries_; }

 private:
  using Values = std::map<std::string, Places, std::less<>>;

  Result<void> add(Tx& tx, const Row& row) {
    const auto place = static_cast<std::size_t>(row.integer(kSeqColumn) - first_);
    min_us_ = std::min(min_us_, row.integer(kTimeColumn));
    max_us_ = std::max(max_us_, row.integer(kTimeColumn));
    ++entries_;
    for (std::size_t field = 0; field < kFields; ++field) {
      const int column = kFirstFieldColumn + static_cast<int>(field);
      if (!row.is_null(column)) mark(field, row.text(column), place);
    }
    constexpr std::size_t kKernel = static_cast<std::size_t>(IndexField::kernel) - 1;
    if (!row.is_null(kFirstFieldColumn + static_cast<int>(kKernel)) || row.is_null(kPromotionColumn))
      return {};
    auto kernel = kernel_of(tx, row.text(kPromotionColumn));
    if (!kernel) return std::unexpected(std::move(kernel.error()));
    if (*kernel) mark(kKernel, **kernel, place);
    return {};
  }

  /// Neighbours mostly have the same value.
  void mark(std::size_t field, const std::string& value, std::size_t place) {
    auto& last = last_[field];
    if (!last || (*last)->first != value) last = values_[field].try_emplace(value).first;
    (*last)->second.set(place);
  }

  Result<std::optional<std::string>> kernel_of(Tx& tx, const std::string& promotion) {
    const auto known = kernels_.find(promotion);
    if (known != kernels_.end()) return known->second;
    auto found = tx.one(kKernelOf, {promotion}, [](const Row& row) { return row.text(0); });
    if (!found) return std::unexpected(std::move(found.error()));
    return kernels_.emplace(promotion, std::move(*found)).first->second;
  }

  static Result<std::int64_t> key_of(Tx& tx, std::size_t field, const std::string& value) {
    const auto id = [](const Row& row) { return row.integer(0); };
    auto found = tx.one(kFindKey, {field, value}, id);
    if (found && !*found) found = tx.one(kAddKey, {field, value}, id);
    if (!found) return std::unexpected(std::move(found.error()));
    return **found;
  }

  std::int64_t first_;
  std::int64_t entries_ = 0;
  std::int64_t min_us_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_us_ = 0;
  std::array<Values, kFields> values_;
  std::array<std::optional<Values::iterator>, kFields> last_;
  std::map<std::string, std::optional<std::string>> kernels_;  ///< of the promotions met
};

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
    return places;
  }
  if (bytes.empty() || bytes.size() % 2 != 0 || bytes.size() > kBitmapBytes) return bad_places();
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const std::size_t place = byte(i) | byte(i + 1) << 8;
    if (place >= places.size()) return bad_places();
    places.set(place);
  }
  return places;
}

Result<std::int64_t> indexed_size(Reader& reader) {
  auto blocks = reader.one(kIndexed, {}, [](const Row& row) { return row.integer(0); });
  if (!blocks) return std::unexpected(std::move(blocks.error()));
  return blocks->value_or(0) * kIndexBlock;
}

Result<void> index_next_block(Tx& tx) {
  auto indexed = indexed_size(tx);
  if (!indexed) return std::unexpected(std::move(indexed.error()));
  Block block(*indexed / kIndexBlock);
  auto done = block.read(tx);
  if (!done) return done;
  if (block.entries() != kIndexBlock) {
    return schema::fail(schema::ErrorCode::internal,
                        "a block of the evidence log is indexed before it is full");
  }
  return block.write(tx);
}

}  // namespace driftgate::evidence
