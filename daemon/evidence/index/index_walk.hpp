#pragma once

#include <cstdint>
#include <vector>

#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::evidence {

/// Keys of the index of which an entry has at least one, or none; mostly it is one key.
struct Condition {
  std::vector<std::int64_t> keys{};
  bool none = false;
};

/// The places of one block that fulfil all conditions.
struct BlockPlaces {
  std::int64_t block = 0;
  Places places{};
};

/// Walks over the blocks from `first` to `last` in which entries fulfil all of `conditions`.
class IndexWalk {
 public:
  IndexWalk(std::vector<Condition> conditions, std::int64_t first, std::int64_t last, bool newest_first);
  /// Further blocks, in order, that hold such entries; empty at the end.
  Result<std::vector<BlockPlaces>> next(store::Reader& reader);

 private:
  Result<void> choose_driver(store::Reader& reader);
  Result<std::vector<BlockPlaces>> candidates(store::Reader& reader);
  Result<Places> places_of(store::Reader& reader, const Condition& condition, std::int64_t block) const;

  std::vector<Condition> conditions_;
  std::int64_t first_, last_;
  bool newest_first_;
  std::int64_t chunk_;  ///< blocks looked at by one call
  bool chosen_ = false;
};

}  // namespace driftgate::evidence
