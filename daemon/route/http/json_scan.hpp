#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace driftgate::route {

inline constexpr int kMaxJsonDepth = 64;

/// A string of a JSON text.
struct JsonText {
  std::string_view raw;     ///< as it stands between its quotes
  std::size_t escapes = 0;  ///< bytes of escape sequences behind the first one of each

  /// Of the string that it means.
  [[nodiscard]] std::size_t code_points() const;
  /// The string that it means, in UTF-8.
  [[nodiscard]] std::string decoded() const;
  [[nodiscard]] bool is(std::string_view text) const { return escapes > 0 ? means(text) : raw == text; }

 private:
  [[nodiscard]] bool means(std::string_view text) const;
};

/// Is told what stands in a JSON text, in its order. A call that returns false ends the scan.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool begin_object() = 0;
  virtual bool begin_array() = 0;
  /// The innermost object or array ends.
  virtual void end() = 0;
  virtual bool key(const JsonText& name) = 0;
  virtual bool string(const JsonText& value) = 0;
  /// A number as it stands.
  virtual bool number(std::string_view digits) = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool null() = 0;
};

/// Reads a text from end to end and builds nothing. True when it is JSON (RFC 8259) in well-formed UTF-8,
/// nested at most kMaxJsonDepth deep, each number of which a double can hold, and no event returned false.
/// Events of the part before a fault are told, and none of a text that is not UTF-8. Names that an object has
/// twice are for the events to find.
[[nodiscard]] bool scan_json(std::string_view text, JsonEvents& events);

}  // namespace driftgate::route
