#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "schema/error.hpp"

namespace driftgate::schema {

inline constexpr std::size_t kMaxEntryBytes = 65'535;
inline constexpr std::size_t kMaxEntryDepth = 32;  ///< nested arrays and objects, the outermost included
inline constexpr std::int64_t kMaxEntryInteger = 9'007'199'254'740'991;  ///< 2^53 − 1

/// A value of an evidence entry (docs/design/evidence.md, "Canonical form"): null, boolean, integer, UTF-8
/// string, array or object. There is no floating-point value on purpose: a measured number is
/// `EntryValue::measured(x)`, the object {"dec": shortest decimal, "hex": IEEE-754 bits}. Seeds and hashes of
/// 64 bits do not fit an integer of an entry: write them as hex strings.
class EntryValue {
 public:
  using Array = std::vector<EntryValue>;
  using Object = std::map<std::string, EntryValue, std::less<>>;

  // Defined in entry_value.cpp: when it inlines them, g++ 12 warns falsely (-Wmaybe-uninitialized).
  EntryValue();
  ~EntryValue();
  EntryValue(const EntryValue&);
  EntryValue(EntryValue&&) noexcept;
  EntryValue& operator=(const EntryValue&);
  EntryValue& operator=(EntryValue&&) noexcept;
  EntryValue(std::nullptr_t) : EntryValue() {}
  EntryValue(bool value) : value_(value) {}
  template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>) EntryValue(T value) : value_(clamped(value)) {}
  EntryValue(const char* text) : value_(std::string(text)) {}
  EntryValue(std::string_view text) : value_(std::string(text)) {}
  EntryValue(std::string text) : value_(std::move(text)) {}
  EntryValue(Array items) : value_(std::move(items)) {}
  EntryValue(Object members) : value_(std::move(members)) {}
  EntryValue(double) = delete;

  /// {"dec": number_text(value), "hex": number_hex(value)}
  [[nodiscard]] static EntryValue measured(double value);

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  [[nodiscard]] const bool* boolean() const { return std::get_if<bool>(&value_); }
  [[nodiscard]] const std::int64_t* integer() const { return std::get_if<std::int64_t>(&value_); }
  [[nodiscard]] const std::string* text() const { return std::get_if<std::string>(&value_); }
  [[nodiscard]] const Array* array() const { return std::get_if<Array>(&value_); }
  [[nodiscard]] const Object* object() const { return std::get_if<Object>(&value_); }
  /// The double of a measured number; `invalid_document` for anything else.
  [[nodiscard]] Result<double> number() const;
  /// The member of an object, or nullptr.
  [[nodiscard]] const EntryValue* find(std::string_view key) const;

  friend bool operator==(const EntryValue& a, const EntryValue& b);

 private:
  template <std::integral T>
  static std::int64_t clamped(T value) {
    if (std::cmp_greater(value, std::numeric_limits<std::int64_t>::max())) {
      return std::numeric_limits<std::int64_t>::max();  // the writer refuses it by name
    }
    return static_cast<std::int64_t>(value);
  }

  std::variant<std::monostate, bool, std::int64_t, std::string, Array, Object> value_;
};

/// Of an object with the members "dec" and "hex" only, whether both are texts of the same number; true for
/// every other object.
[[nodiscard]] bool measured_is_consistent(const EntryValue::Object& object);

/// The canonical bytes of a value: no white space, members sorted by byte, keys `[a-z][a-z0-9_]{0,63}`,
/// integers within ±(2^53 − 1), strings escaped as in RFC 8785 section 3.2.2.2 and valid UTF-8,
/// at most kMaxEntryDepth deep and kMaxEntryBytes long. Errors: `invalid_document` or `limit_exceeded`,
/// with a JSON pointer in `where`.
[[nodiscard]] Result<std::string> write_canonical(const EntryValue& value);

/// A part of a document that is put together without copying: an integer, a string or an object.
using CanonicalPart = std::variant<std::int64_t, std::string_view, const EntryValue::Object*>;

/// Appends the canonical bytes of a part that stands `depth` levels deep. `out` is the document so far, and
/// its length counts. Errors of write_canonical, with a pointer from the part.
[[nodiscard]] Result<void> append_canonical(std::string& out, const CanonicalPart& part, std::size_t depth);

/// Reads bytes that are exactly in canonical form and refuses everything else: white space, another order
/// of keys, duplicate keys, fractions, -0, needless escapes, a BOM, invalid UTF-8, trailing bytes, an object
/// {"dec", "hex"} whose two texts are not the same number. `where` is "byte N".
/// For every accepted input, `write_canonical(*parse_canonical(bytes)) == bytes`.
[[nodiscard]] Result<EntryValue> parse_canonical(std::string_view bytes);

}  // namespace driftgate::schema
