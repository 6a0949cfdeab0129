#include "daemon/base/http_text.hpp"

#include <algorithm>

#include "daemon/base/ascii.hpp"

namespace driftgate::base {
namespace {

bool is_token_char(char c) {
  return is_alphanumeric(c, "!#$%&'*+-.^_`|~");
}

}  // namespace

bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_char);
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

bool list_has(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    if (equal_ignoring_case(trimmed(list.substr(0, comma)), word)) return true;
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return false;
}

}  // namespace driftgate::base
