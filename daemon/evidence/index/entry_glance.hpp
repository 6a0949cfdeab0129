#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/evidence/index/entry_index.hpp"
#include "schema/evidence/evidence_entry.hpp"

namespace driftgate::evidence {

inline constexpr std::size_t kIndexFields = 10;  ///< of IndexField
inline constexpr std::array<std::string_view, kIndexFields> kFieldNames = {
    "kind", "actor", "model", "stage", "checkpoint", "contract", "kernel", "clause", "verdict", "promotion"};

[[nodiscard]] constexpr std::size_t field_index(IndexField field) {
  return static_cast<std::size_t>(field) - 1;
}

/// What entries are found by, of one entry. It refers to texts that live elsewhere.
struct IndexedEntry {
  std::int64_t time_us = 0;
  /// By field_index. `kernel` is the one that the entry itself names; another has that of its promotion.
  std::array<std::optional<std::string_view>, kIndexFields> values{};

  [[nodiscard]] const std::optional<std::string_view>& at(IndexField field) const {
    return values[field_index(field)];
  }
  [[nodiscard]] std::optional<std::string_view>& at(IndexField field) { return values[field_index(field)]; }
};

/// Of an entry that is about to be written. It refers to the texts of `draft`.
[[nodiscard]] IndexedEntry indexed_entry(const schema::EntryDraft& draft);

/// The kernel that the candidate of a promotion runs on, as the tables have it.
[[nodiscard]] Result<std::optional<std::string>> kernel_of_promotion(store::Reader& reader,
                                                                     const std::string& promotion);

/// Reads what entries are found by from their stored bytes, several times as fast as decode_entry: it relies
/// on the canonical form and passes over what it does not need.
class EntryGlance {
 public:
  /// Nothing for bytes that are no entry. Bytes that decode_entry refuses may be read; whether they are those
  /// that were appended is what the tree says. Valid until the next call, and as long as `bytes`.
  [[nodiscard]] std::optional<IndexedEntry> read(std::string_view bytes);

 private:
  std::optional<schema::Entry> decoded_;  ///< of the newest entry with escapes in its texts
};

}  // namespace driftgate::evidence
