#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/evidence/index/entry_glance.hpp"
#include "daemon/evidence/index/entry_index.hpp"

namespace driftgate::evidence {

/// The values of one block's entries with their places, until it is full and written.
class IndexBlock {
 public:
  explicit IndexBlock(std::int64_t number) : first_(number * kIndexBlock) {}

  /// The number of its first entry.
  [[nodiscard]] std::int64_t first() const { return first_; }
  /// The newest entry that was added with a value, or nothing.
  [[nodiscard]] std::optional<std::int64_t> newest_of(IndexField field, std::string_view value) const;

  /// The number must lie in the block. An entry whose bytes cannot be read has none of the values.
  void add(std::int64_t seq, const std::optional<IndexedEntry>& entry);
  /// Writes a whole block, and the nodes above that it completes; `internal` when an entry of it was not
  /// added.
  Result<void> write(store::Tx& tx);
  /// Compares a whole block, and the nodes above that it completes, with what is stored of them, and calls
  /// `differs` with what is stored otherwise: "what it has under FIELD VALUE" for each such value. Returns
  /// how many rows of places they have.
  Result<std::int64_t> compare(store::Reader& reader, const std::function<void(const std::string&)>& differs);

 private:
  using Values = std::map<std::string, Places, std::less<>>;

  static void mark(Values& values, std::optional<Values::iterator>& last, std::string_view value,
                   std::size_t place);
  Result<void> resolve_kernels(store::Reader& reader);
  [[nodiscard]] std::int64_t number() const { return first_ / kIndexBlock; }
  [[nodiscard]] std::map<std::int64_t, Places> keyed() const;
  [[nodiscard]] std::string name_of(std::int64_t key) const;

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
