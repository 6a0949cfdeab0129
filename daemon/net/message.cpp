#include "daemon/net/message.hpp"

#include <algorithm>

namespace driftgate::net {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> find_header(const Headers& headers, std::string_view name) {
  for (const Header& header : headers)
    if (equal_ignoring_case(header.name, name)) return header.value;
  return std::nullopt;
}

}  // namespace driftgate::net
