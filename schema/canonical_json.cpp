#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "schema/json.hpp"

namespace driftgate::schema {
namespace {

// UTF-16 code units order the same as code points, except that U+E000–U+FFFF come after everything
// beyond the basic plane. In UTF-8 terms: lead bytes 0xEE and 0xEF sort after 0xF0–0xF4.
bool less_by_utf16(const std::string& a, const std::string& b) {
  const auto rank = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == 0xEE || byte == 0xEF ? byte + 0x10 : byte;
  };
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [&](char x, char y) { return rank(x) < rank(y); });
}

void write_string(std::string& out, const std::string& text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void write(std::string& out, const nlohmann::json& value);

void write_object(std::string& out, const nlohmann::json& value) {
  std::vector<const std::string*> keys;
  for (const auto& item : value.items()) keys.push_back(&item.key());
  std::sort(keys.begin(), keys.end(),
            [](const std::string* a, const std::string* b) { return less_by_utf16(*a, *b); });
  out += '{';
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) out += ',';
    write_string(out, *keys[i]);
    out += ':';
    write(out, value.at(*keys[i]));
  }
  out += '}';
}

void write_array(std::string& out, const nlohmann::json& value) {
  out += '[';
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (i > 0) out += ',';
    write(out, value[i]);
  }
  out += ']';
}

void write_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "\"NaN\"";
  } else if (std::isinf(value)) {
    out += value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else {
    out += ecmascript_number(value);
  }
}

void write(std::string& out, const nlohmann::json& value) {
  if (value.is_object()) {
    write_object(out, value);
  } else if (value.is_array()) {
    write_array(out, value);
  } else if (value.is_string()) {
    write_string(out, value.get_ref<const std::string&>());
  } else if (value.is_boolean()) {
    out += value.get<bool>() ? "true" : "false";
  } else if (value.is_number()) {
    write_number(out, value.get<double>());
  } else {
    out += "null";
  }
}

}  // namespace

std::string ecmascript_number(double value) {
  if (value == 0) return "0";
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(value),
                                 std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const auto e = text.find('e');
  std::string digits(text.substr(0, 1));
  if (e > 2) digits += text.substr(2, e - 2);
  int exponent = 0;
  const std::string_view exponent_text = text.substr(text[e + 1] == '+' ? e + 2 : e + 1);
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);

  // ECMA-262, Number::toString: value = 0.digits × 10^n with k digits.
  const int k = static_cast<int>(digits.size());
  const int n = exponent + 1;
  std::string out = value < 0 ? "-" : "";
  const auto at = static_cast<std::size_t>(std::max(n, 0));
  if (k <= n && n <= 21) {
    out += digits + std::string(static_cast<std::size_t>(n - k), '0');
  } else if (0 < n && n <= 21) {
    out += digits.substr(0, at) + "." + digits.substr(at);
  } else if (-6 < n && n <= 0) {
    out += "0." + std::string(static_cast<std::size_t>(-n), '0') + digits;
  } else {
    out += digits.substr(0, 1);
    if (k > 1) out += "." + digits.substr(1);
    out += fmt::format("e{}{}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  return out;
}

std::string canonical_json(const nlohmann::json& value) {
  std::string out;
  write(out, value);
  return out;
}

}  // namespace driftgate::schema
