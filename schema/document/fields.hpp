#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/document/document_node.hpp"

namespace driftgate::schema {

/// A value of a document with its JSON pointer, and the list to which faults of it are added.
struct Cursor {
  const DocumentNode& node;
  std::string pointer;
  std::vector<Fault>& faults;

  /// Adds a fault at this value.
  void refuse(std::string message) const;
  /// Adds the fault "found X; allowed: …", where X describes the value.
  void refuse_kind(std::string_view allowed) const;
};

/// A range of numbers. It includes its ends unless they are marked as open.
struct NumberRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;
};

inline constexpr std::int64_t kMaxDurationMs = std::int64_t{366} * 24 * 3600 * 1000;

/// The functions below return the value, or record a fault and return std::nullopt if it is not of the kind
/// described.
///
/// Text of 1 to `max_length` bytes.
[[nodiscard]] std::optional<std::string> read_text(const Cursor& at, std::size_t max_length = 1'000);
/// A name of at most 128 characters: ASCII letters, digits and the characters of `extra`, beginning with a
/// letter or digit.
[[nodiscard]] std::optional<std::string> read_name(const Cursor& at, std::string_view extra = "._-");
[[nodiscard]] std::optional<double> read_number(const Cursor& at, const NumberRange& range);
/// A whole number from `low` to `high`.
[[nodiscard]] std::optional<std::uint64_t> read_count(const Cursor& at, std::uint64_t low,
                                                      std::uint64_t high);
/// A duration such as `30s`, `5m`, `1h30m` or `500ms`, in milliseconds. The units are d, h, m, s and ms, each
/// at most once, the largest first.
[[nodiscard]] std::optional<std::int64_t> read_duration_ms(const Cursor& at, std::int64_t low = 0,
                                                           std::int64_t high = kMaxDurationMs);
/// A fraction in [0, 1], in basis points. A fraction that is not a multiple of 0.0001 is a fault.
[[nodiscard]] std::optional<std::uint32_t> read_share_bp(const Cursor& at, std::uint32_t low_bp = 0,
                                                         std::uint32_t high_bp = 10'000);
/// true or false.
[[nodiscard]] std::optional<bool> read_flag(const Cursor& at);
/// One of `names`, as its index.
[[nodiscard]] std::optional<std::size_t> read_choice(const Cursor& at,
                                                     std::span<const std::string_view> names);
/// Calls `visit` for each item of a list. Records a fault instead if the value is not a list or has more than
/// `max_items` items.
void read_list(const Cursor& at, std::size_t max_items, const std::function<void(const Cursor&)>& visit);

/// The fields of one mapping. A field becomes known when it is looked up; `finish` records a fault for each
/// remaining field and suggests the nearest known name.
class Fields {
 public:
  /// `what` names the mapping in messages, such as "a numerical clause". A value that is not a mapping is a
  /// fault.
  Fields(const Cursor& at, std::string what);

  /// The field, or std::nullopt where it is absent.
  [[nodiscard]] std::optional<Cursor> find(std::string_view name);
  /// As `find`, but an absent field is a fault.
  [[nodiscard]] std::optional<Cursor> need(std::string_view name);

  /// Stores in `out` what `read` returns for the field. Leaves `out` as it is where the field is absent or
  /// `read` returns std::nullopt.
  template <typename T, typename Read>
  void take(std::string_view name, T& out, Read read) {
    if (auto at = find(name)) {
      if (auto value = read(*at)) out = static_cast<T>(*value);
    }
  }
  template <typename T, typename Read>
  void take(std::string_view name, std::optional<T>& out, Read read) {
    if (auto at = find(name)) {
      if (auto value = read(*at)) out = static_cast<T>(*value);
    }
  }

  /// Records a fault for each field that was never looked up.
  void finish();
  [[nodiscard]] const Cursor& cursor() const { return at_; }

 private:
  Cursor at_;
  std::string what_;
  std::vector<std::string_view> known_;
};

/// The name of `names` with the smallest edit distance to `text`, where a swap of neighbouring characters
/// costs one. std::nullopt where none is near enough.
[[nodiscard]] std::optional<std::string_view> nearest_name(std::string_view text,
                                                           std::span<const std::string_view> names);
/// "; allowed: a, b, c", followed by "; did you mean \"b\"?" where a name is near `found`.
[[nodiscard]] std::string allowed_names(std::string_view found, std::span<const std::string_view> names);

/// The value as messages name it: "the number 3", "the text \"x\"", "a list".
[[nodiscard]] std::string describe(const DocumentNode& node);

}  // namespace driftgate::schema
