#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "schema/document/fields.hpp"
#include "schema/json.hpp"

namespace driftgate::schema {

using Kind = DocumentNode::Kind;

std::optional<std::string> read_text(const Cursor& at, std::size_t max_length) {
  if (at.node.kind != Kind::text) {
    const bool scalar = at.node.kind == Kind::number || at.node.kind == Kind::boolean;
    at.refuse_kind(scalar ? fmt::format("text; write \"{}\" in quotes", at.node.text) : "text");
    return std::nullopt;
  }
  if (at.node.text.empty() || at.node.text.size() > max_length) {
    at.refuse_kind(fmt::format("text of 1 to {} bytes", max_length));
    return std::nullopt;
  }
  return at.node.text;
}

std::optional<std::string> read_name(const Cursor& at, std::string_view extra) {
  constexpr std::size_t kLongestName = 128;
  auto text = read_text(at, kLongestName);
  if (!text) return text;
  const auto letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const bool valid = letter_or_digit(text->front()) && std::all_of(text->begin(), text->end(), [&](char c) {
                       return letter_or_digit(c) || extra.find(c) != std::string_view::npos;
                     });
  if (valid) return text;
  at.refuse_kind(
      fmt::format("a name of letters, digits and any of {} that begins with a letter or digit", extra));
  return std::nullopt;
}

std::optional<double> read_number(const Cursor& at, const NumberRange& range) {
  const auto allowed = [&] {
    const auto end = [](double value) {
      return std::isinf(value) ? std::string(value < 0 ? "-∞" : "∞") : ecmascript_number(value);
    };
    return fmt::format("a number in {}{}, {}{}", range.low_open || std::isinf(range.low) ? "(" : "[",
                       end(range.low), end(range.high),
                       range.high_open || std::isinf(range.high) ? ")" : "]");
  };
  if (at.node.kind != Kind::number) {
    at.refuse_kind(allowed());
    return std::nullopt;
  }
  const double value = at.node.number;
  const bool above = range.low_open ? value > range.low : value >= range.low;
  const bool below = range.high_open ? value < range.high : value <= range.high;
  if (above && below) return value;
  at.refuse_kind(allowed());
  return std::nullopt;
}

std::optional<std::uint64_t> read_count(const Cursor& at, std::uint64_t low, std::uint64_t high) {
  const double value = at.node.number;
  const bool whole = at.node.kind == Kind::number && value == std::floor(value);
  if (whole && value >= static_cast<double>(low) && value <= static_cast<double>(high)) {
    return static_cast<std::uint64_t>(value);
  }
  at.refuse_kind(fmt::format("a whole number from {} to {}", low, high));
  return std::nullopt;
}

namespace {

struct Unit {
  std::string_view name;
  std::int64_t ms;
};
constexpr std::array<Unit, 5> kUnits{
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

// "1h30m" → 5,400,000; nothing when the text is not a duration or too long for one.
std::optional<std::int64_t> parse_duration_ms(std::string_view text) {
  std::int64_t total = 0;
  std::size_t next_unit = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    std::int64_t count = 0;
    std::size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
      count = count * 10 + (text[digits] - '0');
      if (++digits > 12) return std::nullopt;
    }
    text.remove_prefix(digits);
    const std::size_t letters = std::min(text.find_first_of("0123456789"), text.size());
    const auto unit = std::find_if(kUnits.begin() + static_cast<std::ptrdiff_t>(next_unit), kUnits.end(),
                                   [&](const Unit& u) { return u.name == text.substr(0, letters); });
    if (digits == 0 || unit == kUnits.end()) return std::nullopt;
    next_unit = static_cast<std::size_t>(unit - kUnits.begin()) + 1;
    if (count > kMaxDurationMs / unit->ms) return std::nullopt;
    total += count * unit->ms;
    text.remove_prefix(letters);
  }
  return total;
}

std::string duration_text(std::int64_t ms) {
  std::string text;
  for (const Unit& unit : kUnits) {
    if (ms >= unit.ms) text += fmt::format("{}{}", ms / unit.ms, unit.name);
    ms %= unit.ms;
  }
  return text.empty() ? "0s" : text;
}

}  // namespace

std::optional<std::int64_t> read_duration_ms(const Cursor& at, std::int64_t low, std::int64_t high) {
  if (at.node.kind == Kind::text) {
    const auto value = parse_duration_ms(at.node.text);
    if (value && *value >= low && *value <= high) return value;
  }
  at.refuse_kind(fmt::format("a duration such as 500ms, 30s, 5m or 1h30m, from {} to {}", duration_text(low),
                             duration_text(high)));
  return std::nullopt;
}

std::optional<std::uint32_t> read_share_bp(const Cursor& at, std::uint32_t low_bp, std::uint32_t high_bp) {
  const auto value = read_number(at, {low_bp / 10'000.0, high_bp / 10'000.0});
  if (!value) return std::nullopt;
  const double scaled = *value * 10'000;
  const double rounded = std::round(scaled);
  // A decimal share times 10,000 is off by a few ulps at most; anything more is a finer share.
  if (std::abs(scaled - rounded) < 1e-6) return static_cast<std::uint32_t>(rounded);
  at.refuse_kind("a share in steps of 0.0001 (basis points)");
  return std::nullopt;
}

std::optional<bool> read_flag(const Cursor& at) {
  if (at.node.kind == Kind::boolean) return at.node.flag;
  at.refuse_kind("true or false");
  return std::nullopt;
}

std::optional<std::size_t> read_choice(const Cursor& at, std::span<const std::string_view> names) {
  if (at.node.kind == Kind::text) {
    const auto found = std::find(names.begin(), names.end(), at.node.text);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  }
  const std::string_view text = at.node.kind == Kind::text ? std::string_view(at.node.text) : "";
  at.refuse(fmt::format("found {}{}", describe(at.node), allowed_names(text, names)));
  return std::nullopt;
}

void read_list(const Cursor& at, std::size_t max_items, const std::function<void(const Cursor&)>& visit) {
  if (at.node.kind != Kind::list || at.node.items.size() > max_items) {
    at.refuse_kind(fmt::format("a list of at most {} items", max_items));
    return;
  }
  for (std::size_t i = 0; i < at.node.items.size(); ++i) {
    visit({at.node.items[i], fmt::format("{}/{}", at.pointer, i), at.faults});
  }
}

}  // namespace driftgate::schema
