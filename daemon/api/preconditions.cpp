#include "daemon/api/preconditions.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "daemon/base/http_text.hpp"

namespace driftgate::api {
namespace {

bool is_tag_character(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == 0x21 || (byte >= 0x23 && byte != 0x7f);
}

void skip_blanks(std::string_view& text) {
  const std::size_t at = text.find_first_not_of(" \t");
  text.remove_prefix(at == std::string_view::npos ? text.size() : at);
}

/// Takes an entity tag off the front; a weak one gives "". Nothing when there is none.
std::optional<std::string> take_tag(std::string_view& text) {
  const bool weak = text.starts_with("W/");
  const std::string_view tag = weak ? text.substr(2) : text;
  if (!tag.starts_with('"')) return std::nullopt;
  const std::size_t end = tag.find('"', 1);
  if (end == std::string_view::npos || !std::ranges::all_of(tag.substr(1, end - 1), is_tag_character))
    return std::nullopt;
  std::string taken = weak ? std::string() : std::string(tag.substr(0, end + 1));
  text.remove_prefix(end + 1 + (weak ? 2 : 0));
  return taken;
}

std::unexpected<schema::Error> strange(std::string_view value) {
  return schema::fail(schema::ErrorCode::invalid_argument,
                      fmt::format("If-Match is \"*\" or a list of entity tags in quotes, not '{}': send the ETag of "
                                  "GET as it is",
                                  value.substr(0, 80)));
}

schema::Result<IfMatch> parse(std::string_view value) {
  IfMatch wanted;
  std::string_view rest = value;
  skip_blanks(rest);
  if (rest.starts_with('*')) {
    rest.remove_prefix(1);
    skip_blanks(rest);
    wanted.any = true;
    return rest.empty() ? schema::Result<IfMatch>(wanted) : strange(value);
  }
  bool found = false;
  while (!rest.empty()) {
    if (!rest.starts_with(',')) {
      auto tag = take_tag(rest);
      if (!tag) return strange(value);
      found = true;
      if (!tag->empty()) wanted.tags.push_back(std::move(*tag));
      skip_blanks(rest);
      if (!rest.empty() && !rest.starts_with(',')) return strange(value);
    }
    if (!rest.empty()) rest.remove_prefix(1);
    skip_blanks(rest);
  }
  return found ? schema::Result<IfMatch>(std::move(wanted)) : strange(value);
}

}  // namespace

schema::Result<std::optional<IfMatch>> if_match_of(const net::RequestHead& head) {
  std::optional<std::string> value;
  for (const net::Header& header : head.headers) {
    if (!base::equal_ignoring_case(header.name, "if-match")) continue;
    value = value ? *value + "," + header.value : header.value;
  }
  if (!value) return std::nullopt;
  auto wanted = TRY(parse(*value));
  return wanted;
}

bool holds(const IfMatch& wanted, std::string_view etag) {
  return wanted.any || std::ranges::find(wanted.tags, etag) != wanted.tags.end();
}

std::string etag_of(std::uint64_t revision) {
  return fmt::format("\"{}\"", revision);
}

}  // namespace driftgate::api
