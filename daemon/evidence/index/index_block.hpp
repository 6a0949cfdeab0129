#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/evidence/index/entry_index.hpp"

namespace driftgate::evidence {

inline constexpr std::size_t kIndexFields = 9;  ///< of IndexField
inline constexpr std::array<std::string_view, kIndexFields> kFieldNames = {
    "kind", "actor", "model", "stage", "checkpoint", "contract", "kernel", "clause", "verdict"};
inline constexpr std::size_t kKernelField = static_cast<std::size_t>(IndexField::kernel) - 1;

/// What the index knows of an entry.
struct IndexedEntry {
  std::int64_t seq = 0;
  std::int64_t time_us = 0;
  std::optional<std::string_view> promotion{};
  /// By IndexField − 1. An entry that names no kernel has that of its promotion.
  std::array<std::optional<std::string_view>, kIndexFields> values{};

  [[nodiscard]] std::optional<std::string_view>& operator[](IndexField field) {
    return values[static_cast<std::size_t>(field) - 1];
  }
};

/// The values of one block's entries with their places, until it is full and written.
class IndexBlock {
 public:
  explicit IndexBlock(std::int64_t number) : first_(number * kIndexBlock) {}

  /// The entry's seq must lie in the block.
  void add(const IndexedEntry& entry);
  /// Writes a whole block; `internal` when an entry of it was not added.
  Result<void> write(store::Tx& tx);
  /// Compares a whole block with what is stored of it, and calls `differs` with "field value" for each posting
  /// that is not there or has other places, and with "times" for other times. Returns how many postings it has.
  Result<std::int64_t> compare(store::Reader& reader, const std::function<void(const std::string&)>& differs);

 private:
  using Values = std::map<std::string, Places, std::less<>>;

  static void mark(Values& values, std::optional<Values::iterator>& last, std::string_view value,
                   std::size_t place);
  Result<void> resolve_kernels(store::Reader& reader);

  std::int64_t first_;
  std::int64_t entries_ = 0;
  std::int64_t min_us_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_us_ = 0;
  std::array<Values, kIndexFields> values_;
  std::array<std::optional<Values::iterator>, kIndexFields> last_;
  Values unnamed_;  ///< by promotion: entries that name no kernel
  std::optional<Values::iterator> last_unnamed_;
};

}  // namespace driftgate::evidence
