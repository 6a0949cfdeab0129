#include "schema/number_text.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "schema/sha256.hpp"

namespace driftgate::schema {

namespace {
constexpr std::uint64_t kCanonicalNan = 0x7ff8'0000'0000'0000;
constexpr std::size_t kLongestText = 32;  // the longest shortest form has 24 characters

/// The text of a number, in `buffer` or a literal.
std::string_view write_number(double value, std::array<char, kLongestText>& buffer) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data())};
}

}  // namespace

std::string number_text(double value) {
  std::array<char, kLongestText> buffer{};
  return std::string(write_number(value, buffer));
}

std::string number_hex(double value) {
  const std::uint64_t bits = std::isnan(value) ? kCanonicalNan : std::bit_cast<std::uint64_t>(value);
  std::array<std::uint8_t, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(bits >> (56 - 8 * i));
  return to_hex(bytes);
}

Result<double> parse_number_text(std::string_view text) {
  double value = 0;
  if (text == "NaN") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (text == "Infinity" || text == "-Infinity") {
    value =
        text[0] == '-' ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  } else {
    std::from_chars(text.data(), text.data() + text.size(), value);
  }
  // Comparing with what would be written refuses every other spelling at once.
  if (number_text(value) != text) {
    return fail(ErrorCode::invalid_argument,
                "'" + std::string(text.substr(0, 40)) + "' is not the shortest decimal of a double");
  }
  return value;
}

Result<double> parse_number_hex(std::string_view text) {
  const auto bytes = from_hex(text);
  if (bytes && bytes->size() == 8) {
    std::uint64_t bits = 0;
    for (const char c : *bytes) bits = bits << 8 | static_cast<std::uint8_t>(c);
    const double value = std::bit_cast<double>(bits);
    if (!std::isnan(value) || bits == kCanonicalNan) return value;
  }
  return fail(ErrorCode::invalid_argument, "'" + std::string(text.substr(0, 40)) +
                                               "' is not the 16 lower-case hexadecimal digits of a double");
}

bool are_one_number(std::string_view text, std::string_view hex) {
  if (hex.size() != 16) return false;
  std::uint64_t bits = 0;
  for (const char c : hex) {
    const bool is_letter = c >= 'a' && c <= 'f';
    if (!is_letter && (c < '0' || c > '9')) return false;
    bits = bits << 4 | static_cast<std::uint64_t>(is_letter ? c - 'a' + 10 : c - '0');
  }
  const double value = std::bit_cast<double>(bits);
  if (std::isnan(value) && bits != kCanonicalNan) return false;
  std::array<char, kLongestText> buffer{};
  return write_number(value, buffer) == text;
}

}  // namespace driftgate::schema
