#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "schema/document/document_node.hpp"
#include "schema/json.hpp"

namespace driftgate::schema::detail {
namespace {

using Kind = DocumentNode::Kind;

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool digits_only(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

[[noreturn]] void refuse(const DocumentNode& node, std::string_view why) {
  throw Refused{{node.position, "", fmt::format("found the number {}; {}", node.text, why)}};
}

// (\. [0-9]+ | [0-9]+ (\. [0-9]*)?) ([eE] [-+]? [0-9]+)?
bool is_decimal(std::string_view text) {
  if (const auto e = text.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view exponent = text.substr(e + 1);
    if (exponent.starts_with('+') || exponent.starts_with('-')) exponent.remove_prefix(1);
    if (!digits_only(exponent)) return false;
    text = text.substr(0, e);
  }
  const auto dot = text.find('.');
  if (dot == std::string_view::npos) return digits_only(text);
  const std::string_view whole = text.substr(0, dot), fraction = text.substr(dot + 1);
  if (whole.empty()) return digits_only(fraction);
  return digits_only(whole) && (fraction.empty() || digits_only(fraction));
}

std::optional<double> based_integer(std::string_view text, const DocumentNode& node) {
  const int base = text.starts_with("0x") ? 16 : text.starts_with("0o") ? 8 : 0;
  if (base == 0 || text.size() == 2) return std::nullopt;
  std::uint64_t value = 0;
  const auto end = std::from_chars(text.data() + 2, text.data() + text.size(), value, base);
  if (end.ptr != text.data() + text.size()) return std::nullopt;
  if (end.ec != std::errc{} || value > kMaxJsonInteger) refuse(node, "integers go up to 2^53 - 1");
  return static_cast<double>(value);
}

std::optional<double> decimal(const DocumentNode& node) {
  std::string_view text = node.text;
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (one_of(text, {".inf", ".Inf", ".INF"})) refuse(node, "numbers must be finite");
  if (!is_decimal(text)) return std::nullopt;
  double value = 0;
  std::string digits = (text.starts_with('.') ? "0" : "") + std::string(text);
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end.ec == std::errc::result_out_of_range) refuse(node, "it is beyond the range of a double");
  if (digits_only(text) && value > static_cast<double>(kMaxJsonInteger)) {
    refuse(node, "integers go up to 2^53 - 1");
  }
  return negative ? -value : value;
}

}  // namespace

void resolve_plain_scalar(DocumentNode& node) {
  const std::string& text = node.text;
  node.kind = Kind::text;
  if (one_of(text, {"", "~", "null", "Null", "NULL"})) {
    node.kind = Kind::null;
  } else if (one_of(text, {"true", "True", "TRUE", "false", "False", "FALSE"})) {
    node.kind = Kind::boolean;
    node.flag = text.front() == 't' || text.front() == 'T';
  } else if (one_of(text, {".nan", ".NaN", ".NAN"})) {
    refuse(node, "numbers must be finite");
  } else if (const auto based = based_integer(text, node)) {
    node.kind = Kind::number;
    node.number = *based;
  } else if (const auto value = decimal(node)) {
    node.kind = Kind::number;
    node.number = *value;
  }
}

}  // namespace driftgate::schema::detail
