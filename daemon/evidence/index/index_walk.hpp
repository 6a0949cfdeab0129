#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/evidence/index/entry_index.hpp"
#include "daemon/evidence/index/index_node.hpp"

namespace driftgate::evidence {

/// Holds for entries that have one of these values; with `none`, for those that have none of them.
struct Condition {
  std::vector<std::int64_t> keys{};  ///< of index_key
  bool none = false;
};

/// Which blocks and times a walk looks at; ends are included but for `to_us`.
struct WalkRange {
  std::int64_t first_block = 0;
  std::int64_t last_block = -1;
  std::optional<std::int64_t> from_us{};
  std::optional<std::int64_t> to_us{};
  bool newest_first = false;
};

struct BlockPlaces {
  std::int64_t block = 0;
  Places places{};
};

/// Goes through the blocks in which all conditions may hold at one entry, in the order of the range. It goes
/// down from the largest nodes and passes over what cannot have such an entry.
class IndexWalk {
 public:
  /// `blocks`: how many the index has.
  IndexWalk(std::vector<Condition> conditions, const WalkRange& range, std::int64_t blocks);

  /// The next block, or nothing after the last one. `corrupt` for an index that cannot be read.
  Result<std::optional<BlockPlaces>> next(store::Reader& reader);

 private:
  Result<bool> is_in_range(store::Reader& reader, const IndexNode& node) const;
  Result<Children> children_of(store::Reader& reader, const IndexNode& node) const;
  Result<Places> places_of(store::Reader& reader, const IndexNode& node) const;
  void push_children(const IndexNode& node, const Children& children);

  std::vector<Condition> conditions_;
  WalkRange range_;
  std::vector<IndexNode> waiting_;  ///< the next one is the last
};

}  // namespace driftgate::evidence
