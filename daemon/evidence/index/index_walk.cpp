#include "daemon/evidence/index/index_walk.hpp"

#include <algorithm>
#include <utility>

#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::evidence {

using store::Reader;
using store::Row;
using store::Sql;

namespace {

constexpr std::int64_t kFirstChunk = 8;   ///< a page of a frequent value needs few blocks …
constexpr std::int64_t kLastChunk = 256;  ///< … and one of a rare value many
constexpr std::int64_t kCounted = 1'024;  ///< blocks: above this a value is frequent

constexpr Sql kBlocks{"postings of a key",
                      "SELECT block, places FROM postings WHERE key = ?1 AND block >= ?2 AND block <= ?3 "
                      "ORDER BY block LIMIT ?4"};
constexpr Sql kNewestBlocks{
    "newest postings of a key",
    "SELECT block, places FROM postings WHERE key = ?1 AND block >= ?2 AND block <= ?3 "
    "ORDER BY block DESC LIMIT ?4"};
constexpr Sql kHowMany{"how many postings of a key",
                       "SELECT count(*) FROM (SELECT 1 FROM postings WHERE key = ?1 AND block >= ?2 AND block <= ?3 "
                       "LIMIT ?4)"};
constexpr Sql kPlaces{"postings of a block", "SELECT places FROM postings WHERE key = ?1 AND block = ?2"};

}  // namespace

IndexWalk::IndexWalk(std::vector<Condition> conditions, std::int64_t first, std::int64_t last,
                     bool newest_first)
    : conditions_(std::move(conditions)),
      first_(first),
      last_(last),
      newest_first_(newest_first),
      chunk_(kFirstChunk) {
}

/// Of the conditions with one key, the one in the fewest blocks drives the walk; the others are looked up in its
/// blocks.
Result<void> IndexWalk::choose_driver(Reader& reader) {
  if (std::exchange(chosen_, true)) return {};
  auto driver = conditions_.end();
  std::int64_t fewest = 0;
  for (auto condition = conditions_.begin(); condition != conditions_.end(); ++condition) {
    if (condition->keys.size() != 1 || condition->none) continue;
    auto blocks =
        TRY(find_row<std::int64_t>(reader, kHowMany, {condition->keys.front(), first_, last_, kCounted}));
    if (driver != conditions_.end() && blocks.value_or(0) >= fewest) continue;
    driver = condition;
    fewest = blocks.value_or(0);
  }
  if (driver != conditions_.end()) std::rotate(conditions_.begin(), driver, driver + 1);
  return {};
}

Result<Places> IndexWalk::places_of(Reader& reader, const Condition& condition, std::int64_t block) const {
  Places places;
  for (const std::int64_t key : condition.keys) {
    auto bytes = TRY(find_row<std::string>(reader, kPlaces, {key, block}));
    if (!bytes) continue;
    auto decoded = TRY(decode_places(*bytes));
    places |= decoded;
  }
  return condition.none ? ~places : places;
}

/// Blocks in which the driving condition holds somewhere; with none of one key, all blocks.
Result<std::vector<BlockPlaces>> IndexWalk::candidates(Reader& reader) {
  std::vector<BlockPlaces> blocks;
  if (conditions_.front().keys.size() != 1 || conditions_.front().none) {
    const std::int64_t count = std::min(chunk_, last_ - first_ + 1);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t block = newest_first_ ? last_ - i : first_ + i;
      auto places = TRY(places_of(reader, conditions_.front(), block));
      blocks.push_back({block, places});
    }
    return blocks;
  }
  Result<Places> decoded;
  TRY(reader.each(newest_first_ ? kNewestBlocks : kBlocks,
                  {conditions_.front().keys.front(), first_, last_, chunk_}, [&](const Row& row) {
                    decoded = decode_places(row.text(1));
                    if (decoded) blocks.push_back({row.integer(0), *decoded});
                    return decoded.has_value();
                  }));
  if (!decoded) return std::unexpected(std::move(decoded.error()));
  return blocks;
}

Result<std::vector<BlockPlaces>> IndexWalk::next(Reader& reader) {
  TRY(choose_driver(reader));
  std::vector<BlockPlaces> found;
  while (found.empty() && first_ <= last_) {
    auto blocks = TRY(candidates(reader));
    if (blocks.empty()) break;
    if (newest_first_) {
      last_ = blocks.back().block - 1;
    } else {
      first_ = blocks.back().block + 1;
    }
    chunk_ = std::min(2 * chunk_, kLastChunk);
    for (BlockPlaces& block : blocks) {
      for (std::size_t i = 1; i < conditions_.size() && block.places.any(); ++i) {
        auto also = TRY(places_of(reader, conditions_[i], block.block));
        block.places &= also;
      }
      if (block.places.any()) found.push_back(block);
    }
  }
  return found;
}

}  // namespace driftgate::evidence
