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

/// A value of a document, its JSON pointer, and where faults about it go.
struct Cursor {
  const DocumentNode& node;
  std::string pointer;
  std::vector<Fault>& faults;

  void refuse(std::string message) const;
  /// "found X; allowed: …"
  void refuse_kind(std::string_view allowed) const;
};

/// What a number may be; the ends are allowed unless they are open.
struct NumberRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;
  bool high_open = false;
};

inline constexpr std::int64_t kMaxDurationMs = std::int64_t{366} * 24 * 3600 * 1000;

/// The value, or nothing after a fault was recorded.
[[nodiscard]] std::optional<std::string> read_text(const Cursor& at, std::size_t max_length = 1'000);
/// A name: letters, digits and `extra`, beginning with a letter or digit, at most 128 long.
[[nodiscard]] std::optional<std::string> read_name(const Cursor& at, std::string_view extra = "._-");
[[nodiscard]] std::optional<double> read_number(const Cursor& at, const NumberRange& range);
[[nodiscard]] std::optional<std::uint64_t> read_count(const Cursor& at, std::uint64_t low,
                                                      std::uint64_t high);
/// `30s`, `5m`, `1h30m`, `500ms` in milliseconds; units d, h, m, s, ms, each at most once, largest first.
[[nodiscard]] std::optional<std::int64_t> read_duration_ms(const Cursor& at, std::int64_t low = 0,
                                                           std::int64_t high = kMaxDurationMs);
/// A fraction in [0, 1] as basis points; finer than 0.0001 is a fault.
[[nodiscard]] std::optional<std::uint32_t> read_share_bp(const Cursor& at, std::uint32_t low_bp = 0,
                                                         std::uint32_t high_bp = 10'000);
[[nodiscard]] std::optional<bool> read_flag(const Cursor& at);
/// The index of the name in `names`.
[[nodiscard]] std::optional<std::size_t> read_choice(const Cursor& at,
                                                     std::span<const std::string_view> names);
/// Calls `visit` for each item of a list of at most `max_items`.
void read_list(const Cursor& at, std::size_t max_items, const std::function<void(const Cursor&)>& visit);

/// The fields of one mapping. Every field that is asked for becomes a known one; `finish` turns the
/// rest into faults that name the nearest known field.
class Fields {
 public:
  /// `what` names the mapping in messages, e.g. "a numerical clause".
  Fields(const Cursor& at, std::string what);

  /// The field, if it is there.
  [[nodiscard]] std::optional<Cursor> find(std::string_view name);
  /// The same; its absence is a fault.
  [[nodiscard]] std::optional<Cursor> need(std::string_view name);

  /// Stores what `read` gives in `out`; keeps `out` when the field is absent or wrong.
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

  void finish();
  [[nodiscard]] const Cursor& cursor() const { return at_; }

 private:
  Cursor at_;
  std::string what_;
  std::vector<std::string_view> known_;
};

/// The name of `names` that `text` is most likely meant to be (edit distance, swaps count one), if any
/// is near enough.
[[nodiscard]] std::optional<std::string_view> nearest_name(std::string_view text,
                                                           std::span<const std::string_view> names);
/// `; allowed: a, b, c; did you mean "b"?`
[[nodiscard]] std::string allowed_names(std::string_view found, std::span<const std::string_view> names);

/// "the number 3", "the text \"x\"", "a list" …
[[nodiscard]] std::string describe(const DocumentNode& node);

}  // namespace driftgate::schema
