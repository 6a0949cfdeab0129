#include "schema/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace driftgate::schema {

namespace {

constexpr std::array<std::string_view, 3> kReserved{"driftgate", "console", "schedule"};

bool may_begin(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool may_follow(char c) {
  return may_begin(c) || std::string_view("._:@+-").find(c) != std::string_view::npos;
}

/// The character as it may be shown: a byte that is not printable ASCII as its number.
std::string shown(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte < 0x7f ? fmt::format("'{}'", c) : fmt::format("the byte 0x{:02x}", byte);
}

/// What is wrong with the name, or "".
std::string fault_of(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.size() > kMaxNameBytes) return fmt::format("it has {} bytes", name.size());
  bool begins = true;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '/') {
      if (begins) return fmt::format("there is no character before the '/' at byte {}", i + 1);
      begins = true;
      continue;
    }
    if (begins && !may_begin(c)) return fmt::format("{} at byte {} cannot begin it or a part of it", shown(c), i + 1);
    if (!may_follow(c)) return fmt::format("{} at byte {} is not allowed", shown(c), i + 1);
    begins = false;
  }
  return begins ? "there is no character after the last '/'" : "";
}

char folded(char c) {
  if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (c == '0') return 'o';
  if (c == '1' || c == 'i') return 'l';
  return c;
}

}  // namespace

Result<void> check_name(std::string_view name, std::string_view what, std::string where) {
  const std::string fault = fault_of(name);
  if (fault.empty()) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} has 1 to {} characters: letters, digits, '_' and any of ._:@+-, in parts that are "
                          "joined by '/' and begin with a letter, digit or '_'; {}",
                          what, kMaxNameBytes, fault),
              std::move(where));
}

std::string identity_of(std::string_view name) {
  std::string identity;
  identity.reserve(name.size());
  for (const char c : name) {
    const char next = folded(c);
    if (next == 'n' && identity.ends_with('r')) {
      identity.back() = 'm';
    } else if (next == 'v' && identity.ends_with('v')) {
      identity.back() = 'w';
    } else {
      identity += next;
    }
  }
  return identity;
}

bool is_same_identity(std::string_view one, std::string_view other) {
  return identity_of(one) == identity_of(other);
}

bool is_reserved_name(std::string_view name) {
  const std::string first = identity_of(name.substr(0, name.find('/')));
  return std::ranges::any_of(kReserved, [&](std::string_view reserved) { return first == identity_of(reserved); });
}

}  // namespace driftgate::schema
