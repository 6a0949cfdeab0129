#include "daemon/evidence/index/index_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/evidence/index/index_node.hpp"
#include "daemon/store/sqlite/rows.hpp"

namespace driftgate::evidence {

using store::Reader;
using store::Tx;

namespace {

/// The nodes above a block that it completes, from the lowest level.
std::vector<IndexNode> completed_by(std::int64_t block) {
  std::vector<IndexNode> nodes;
  for (unsigned level = 1; level <= kTopIndexLevel; ++level) {
    const IndexNode node{level, block >> (kNodeBits * level)};
    if (node.last_block() != block) break;
    nodes.push_back(node);
  }
  return nodes;
}

/// Compares a node above the blocks with what its stored children say. Returns how many rows it must have.
Result<std::int64_t> compare_inner(Reader& reader, const IndexNode& node,
                                   const std::function<void(const std::string&)>& differs) {
  const auto said = TRY(join_children(reader, node));
  const auto rows = TRY(node_rows(reader, node));
  const auto times = TRY(node_times(reader, node));
  std::map<std::int64_t, std::string> expected;
  for (const auto& [key, children] : said.children) expected.emplace(key, encode_children(children));
  if (rows != expected || times != said.times) {
    differs(
        fmt::format("what it has of the blocks {} to {} together", node.first_block(), node.last_block()));
  }
  return static_cast<std::int64_t>(expected.size());
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

std::optional<std::int64_t> IndexBlock::newest_of(IndexField field, std::string_view value) const {
  const Values& values = values_[field_index(field)];
  const auto found = values.find(value);
  if (found == values.end()) return std::nullopt;
  std::int64_t place = kIndexBlock - 1;
  while (!found->second[static_cast<std::size_t>(place)]) --place;
  return first_ + place;
}

void IndexBlock::add(std::int64_t seq, const std::optional<IndexedEntry>& entry) {
  ++entries_;
  if (!entry) return;
  const auto place = static_cast<std::size_t>(seq - first_);
  min_us_ = std::min(min_us_, entry->time_us);
  max_us_ = std::max(max_us_, entry->time_us);
  for (std::size_t field = 0; field < kIndexFields; ++field) {
    if (entry->values[field]) mark(values_[field], last_[field], *entry->values[field], place);
  }
  if (!entry->at(IndexField::kernel) && entry->at(IndexField::promotion))
    mark(unnamed_, last_unnamed_, *entry->at(IndexField::promotion), place);
}

Result<void> IndexBlock::resolve_kernels(Reader& reader) {
  for (const auto& [promotion, places] : unnamed_) {
    auto kernel = TRY(kernel_of_promotion(reader, promotion));
    if (kernel) values_[field_index(IndexField::kernel)][*kernel] |= places;
  }
  return {};
}

std::map<std::int64_t, Places> IndexBlock::keyed() const {
  std::map<std::int64_t, Places> rows;
  for (std::size_t field = 0; field < kIndexFields; ++field) {
    for (const auto& [value, places] : values_[field])
      rows[index_key(static_cast<IndexField>(field + 1), value)] |= places;
  }
  return rows;
}

Result<void> IndexBlock::write(Tx& tx) {
  if (entries_ != kIndexBlock) {
    return schema::fail(schema::ErrorCode::internal,
                        "a block of the evidence log is indexed before it is full");
  }
  TRY(resolve_kernels(tx));
  const IndexNode node{0, number()};
  for (const auto& [key, places] : keyed()) TRY(add_row(tx, node, key, encode_places(places)));
  TRY(add_times(tx, node, {min_us_, max_us_}));
  for (const IndexNode& above : completed_by(number())) TRY(write_inner(tx, above));
  return {};
}

std::string IndexBlock::name_of(std::int64_t key) const {
  for (std::size_t field = 0; field < kIndexFields; ++field) {
    for (const auto& [value, places] : values_[field])
      if (index_key(static_cast<IndexField>(field + 1), value) == key)
        return fmt::format("{} {}", kFieldNames[field], value);
  }
  return "a value that none of them has";
}

Result<std::int64_t> IndexBlock::compare(Reader& reader,
                                         const std::function<void(const std::string&)>& differs) {
  TRY(resolve_kernels(reader));
  const IndexNode node{0, number()};
  auto rows = TRY(node_rows(reader, node));
  const auto expected = keyed();
  for (const auto& [key, places] : expected) {
    const auto stored = rows.find(key);
    if (stored == rows.end() || stored->second != encode_places(places))
      differs(fmt::format("what it has under {}", name_of(key)));
    if (stored != rows.end()) rows.erase(stored);
  }
  for (const auto& [key, places] : rows) differs(fmt::format("what it has under {}", name_of(key)));
  const auto times = TRY(node_times(reader, node));
  if (times != NodeTimes{min_us_, max_us_}) differs("what it has under times");
  auto count = static_cast<std::int64_t>(expected.size());
  for (const IndexNode& above : completed_by(number())) count += TRY(compare_inner(reader, above, differs));
  return count;
}

}  // namespace driftgate::evidence
