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

/// Limits of an entry (docs/design/evidence.md, "Canonical form").
inline constexpr std::size_t kMaxEntryBytes = 65'535;
inline constexpr std::size_t kMaxEntryDepth = 32;  ///< nested arrays and objects, including the outermost
inline constexpr std::int64_t kMaxEntryInteger = 9'007'199'254'740'991;  ///< 2^53 − 1

/// A value of an evidence entry (docs/design/evidence.md, "Canonical form"): null, boolean, integer, UTF-8
/// string, array or object. A floating-point value cannot be stored directly: `EntryValue::measured(x)`
/// stores x as the object {"dec": shortest decimal, "hex": IEEE-754 bits}. Numbers of 64 bits, such as seeds
/// and hashes, do not fit an integer of an entry and are written as strings.
class EntryValue {
 public:
  using Array = std::vector<EntryValue>;
  using Object = std::map<std::string, EntryValue, std::less<>>;

  // These are defined in entry_value.cpp, because g++ 12 gives a false warning (-Wmaybe-uninitialized) where
  // it inlines them.
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

  /// The object {"dec": number_text(value), "hex": number_hex(value)}.
  [[nodiscard]] static EntryValue measured(double value);

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  [[nodiscard]] const bool* boolean() const { return std::get_if<bool>(&value_); }
  [[nodiscard]] const std::int64_t* integer() const { return std::get_if<std::int64_t>(&value_); }
  [[nodiscard]] const std::string* text() const { return std::get_if<std::string>(&value_); }
  [[nodiscard]] const Array* array() const { return std::get_if<Array>(&value_); }
  [[nodiscard]] const Object* object() const { return std::get_if<Object>(&value_); }
  /// The value of a measured number. Error: `invalid_document` for any other value.
  [[nodiscard]] Result<double> number() const;
  /// The member of an object; nullptr where it has none of this name, and for values that are not objects.
  [[nodiscard]] const EntryValue* find(std::string_view key) const;

  friend bool operator==(const EntryValue& a, const EntryValue& b);

 private:
  template <std::integral T>
  static std::int64_t clamped(T value) {
    if (std::cmp_greater(value, std::numeric_limits<std::int64_t>::max())) {
      return std::numeric_limits<std::int64_t>::max();  // write_canonical refuses it
    }
    return static_cast<std::int64_t>(value);
  }

  std::variant<std::monostate, bool, std::int64_t, std::string, Array, Object> value_;
};

/// For an object with exactly the members "dec" and "hex": whether both are texts of the same number. True
/// for every other object.
[[nodiscard]] bool measured_is_consistent(const EntryValue::Object& object);

/// The canonical bytes of a value: no white space; members sorted by byte; keys of the form
/// `[a-z][a-z0-9_]{0,63}`; integers within ±(2^53 − 1); strings of valid UTF-8, escaped as in RFC 8785,
/// section 3.2.2.2; at most kMaxEntryDepth levels and kMaxEntryBytes bytes. Errors, with a JSON pointer in
/// `where`: `limit_exceeded` for depth and length, `invalid_document` for every other rule.
[[nodiscard]] Result<std::string> write_canonical(const EntryValue& value);

/// A part of a document that is assembled without copying: an integer, a string or an object.
using CanonicalPart = std::variant<std::int64_t, std::string_view, const EntryValue::Object*>;

/// Appends the canonical bytes of a part at nesting depth `depth` to the document `out`, whose length counts
/// towards the limit. Errors as write_canonical; the JSON pointer is relative to the part.
[[nodiscard]] Result<void> append_canonical(std::string& out, const CanonicalPart& part, std::size_t depth);

/// Reads bytes in canonical form and refuses all others: white space, unsorted or duplicate keys, fractions,
/// -0, needless escapes, a byte-order mark, invalid UTF-8, trailing bytes, and an object {"dec", "hex"} whose
/// texts are not the same number. For every input that is accepted, `write_canonical(*parse_canonical(bytes))
/// == bytes`. Errors: `limit_exceeded` for an entry of more than kMaxEntryBytes, else `invalid_document` with
/// "byte N" in `where`.
[[nodiscard]] Result<EntryValue> parse_canonical(std::string_view bytes);

}  // namespace driftgate::schema
