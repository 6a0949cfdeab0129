#include "daemon/evidence/index/index_walk.hpp"

#include <algorithm>
#include <utility>

namespace driftgate::evidence {

using store::Reader;

IndexWalk::IndexWalk(std::vector<Condition> conditions, const WalkRange& range, std::int64_t blocks)
    : conditions_(std::move(conditions)), range_(range) {
  // The fewest complete nodes that cover the blocks, from the oldest.
  for (std::int64_t block = 0, level = kTopIndexLevel; level >= 0; --level) {
    const std::int64_t size = std::int64_t{1} << (kNodeBits * static_cast<unsigned>(level));
    for (; block + size <= blocks; block += size)
      waiting_.push_back({static_cast<unsigned>(level), block / size});
  }
  if (!range_.newest_first) std::ranges::reverse(waiting_);
}

Result<bool> IndexWalk::is_in_range(Reader& reader, const IndexNode& node) const {
  if (node.last_block() < range_.first_block || node.first_block() > range_.last_block) return false;
  if (!range_.from_us && !range_.to_us) return true;
  const auto times = TRY(node_times(reader, node));
  if (!times) return true;  // what the node says is missing is said elsewhere
  return (!range_.from_us || times->max_us >= *range_.from_us) &&
         (!range_.to_us || times->min_us < *range_.to_us);
}

/// Where each condition holds in some entry. One that excludes values says nothing here.
Result<Children> IndexWalk::children_of(Reader& reader, const IndexNode& node) const {
  Children all = ~Children();
  for (const Condition& condition : conditions_) {
    if (condition.none) continue;
    Children any;
    for (const std::int64_t key : condition.keys) {
      const auto bytes = TRY(node_places(reader, node, key));
      if (bytes) any |= TRY(decode_children(*bytes));
    }
    all &= any;
    if (all.none()) break;
  }
  return all;
}

Result<Places> IndexWalk::places_of(Reader& reader, const IndexNode& node) const {
  Places all = ~Places();
  for (const Condition& condition : conditions_) {
    Places any;
    for (const std::int64_t key : condition.keys) {
      const auto bytes = TRY(node_places(reader, node, key));
      if (bytes) any |= TRY(decode_places(*bytes));
    }
    all &= condition.none ? ~any : any;
    if (all.none()) break;
  }
  return all;
}

void IndexWalk::push_children(const IndexNode& node, const Children& children) {
  const auto count = static_cast<std::int64_t>(children.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t child = range_.newest_first ? i : count - 1 - i;
    if (children[static_cast<std::size_t>(child)]) waiting_.push_back(node.child(child));
  }
}

Result<std::optional<BlockPlaces>> IndexWalk::next(Reader& reader) {
  while (!waiting_.empty()) {
    const IndexNode node = waiting_.back();
    waiting_.pop_back();
    const bool in_range = TRY(is_in_range(reader, node));
    if (!in_range) continue;
    if (node.level == 0) {
      auto places = TRY(places_of(reader, node));
      if (places.any()) return BlockPlaces{node.number, places};
      continue;
    }
    const auto children = TRY(children_of(reader, node));
    push_children(node, children);
  }
  return std::nullopt;
}

}  // namespace driftgate::evidence
