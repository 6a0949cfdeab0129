#include "daemon/evidence/index/index_block.hpp"

#include <algorithm>
#include <utility>

#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::evidence {

using store::Blob;
using store::Reader;
using store::Row;
using store::Sql;
using store::Tx;

namespace {

constexpr Sql kKernelOf{
    "kernel of a promotion",
    "SELECT v.kernel FROM promotions p JOIN versions v ON v.id = p.candidate WHERE p.id = ?1"};
constexpr Sql kFindKey{"find index key", "SELECT id FROM index_keys WHERE field = ?1 AND value = ?2"};
constexpr Sql kAddKey{"add index key", "INSERT INTO index_keys(field, value) VALUES(?1, ?2) RETURNING id"};
constexpr Sql kAddPlaces{"add postings", "INSERT INTO postings(key, block, places) VALUES(?1, ?2, ?3)"};
constexpr Sql kAddBlock{"add index block",
                        "INSERT INTO index_blocks(block, min_us, max_us) VALUES(?1, ?2, ?3)"};

constexpr Sql kPlacesOf{"postings of a value",
                        "SELECT p.places FROM index_keys AS k JOIN postings AS p ON p.key = k.id "
                        "WHERE k.field = ?1 AND k.value = ?2 AND p.block = ?3"};
constexpr Sql kTimes{"times of a block", "SELECT min_us, max_us FROM index_blocks WHERE block = ?1"};

Result<std::int64_t> key_of(Tx& tx, std::size_t field, const std::string& value) {
  const auto known = TRY(find_row<std::int64_t>(tx, kFindKey, {field, value}));
  if (known) return *known;
  const auto added = TRY(find_row<std::int64_t>(tx, kAddKey, {field, value}));
  return added.value();
}

}  // namespace

/// Neighbours mostly have the same value.
void IndexBlock::mark(Values& values, std::optional<Values::iterator>& last, std::string_view value,
                      std::size_t place) {
  if (!last || (*last)->first != value) {
    auto found = values.find(value);
    if (found == values.end()) found = values.emplace(std::string(value), Places()).first;
    last = found;
  }
  (*last)->second.set(place);
}

void IndexBlock::add(const IndexedEntry& entry) {
  const auto place = static_cast<std::size_t>(entry.seq - first_);
  min_us_ = std::min(min_us_, entry.time_us);
  max_us_ = std::max(max_us_, entry.time_us);
  ++entries_;
  for (std::size_t field = 0; field < kIndexFields; ++field) {
    if (entry.values[field]) mark(values_[field], last_[field], *entry.values[field], place);
  }
  if (!entry.values[kKernelField] && entry.promotion) mark(unnamed_, last_unnamed_, *entry.promotion, place);
}

Result<void> IndexBlock::resolve_kernels(Reader& reader) {
  for (const auto& [promotion, places] : unnamed_) {
    auto kernel = TRY(find_row<std::string>(reader, kKernelOf, {promotion}));
    if (kernel) values_[kKernelField][*kernel] |= places;
  }
  return {};
}

Result<void> IndexBlock::write(Tx& tx) {
  if (entries_ != kIndexBlock) {
    return schema::fail(schema::ErrorCode::internal,
                        "a block of the evidence log is indexed before it is full");
  }
  TRY(resolve_kernels(tx));
  const std::int64_t number = first_ / kIndexBlock;
  for (std::size_t field = 0; field < kIndexFields; ++field) {
    for (const auto& [value, places] : values_[field]) {
      auto key = TRY(key_of(tx, field + 1, value));
      TRY(tx.run(kAddPlaces, {key, number, Blob{encode_places(places)}}));
    }
  }
  TRY(tx.run(kAddBlock, {number, min_us_, max_us_}));
  return {};
}

Result<std::int64_t> IndexBlock::compare(Reader& reader,
                                         const std::function<void(const std::string&)>& differs) {
  TRY(resolve_kernels(reader));
  const std::int64_t number = first_ / kIndexBlock;
  std::int64_t postings = 0;
  for (std::size_t field = 0; field < kIndexFields; ++field) {
    for (const auto& [value, places] : values_[field]) {
      ++postings;
      auto stored = TRY(find_row<std::string>(reader, kPlacesOf, {field + 1, value, number}));
      if (stored != encode_places(places)) differs(std::string(kFieldNames[field]) + " " + value);
    }
  }
  auto times = TRY(reader.one(kTimes, {number}, [&](const Row& row) {
    return row.integer(0) == min_us_ && row.integer(1) == max_us_;
  }));
  if (!times.value_or(false)) differs("times");
  return postings;
}

}  // namespace driftgate::evidence
