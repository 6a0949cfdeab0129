#include "daemon/route/table/slice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/base/ascii.hpp"
#include "daemon/base/http_text.hpp"
#include "schema/failf.hpp"

namespace driftgate::route {
namespace {

bool valid_dimension(std::string_view name) {
  if (name.empty() || name.size() > kMaxDimensionBytes) return false;
  return base::is_lower(name.front()) && std::ranges::all_of(name, [](char byte) {
           return base::is_lower(byte) || base::is_digit(byte) || byte == '_';
         });
}

bool valid_value(std::string_view value) {
  if (value.empty() || value.size() > kMaxSliceValueBytes) return false;
  return std::ranges::all_of(value, [](char byte) {
    return byte >= ' ' && byte <= '~' && !std::string_view(";=,\"\\").contains(byte);
  });
}

using base::trimmed;

std::unexpected<schema::Error> bad_header(std::string_view why) {
  return schema::failf(schema::ErrorCode::invalid_argument,
                       "header driftgate-slice {}; use the form language=de;domain=code", why);
}

}  // namespace

schema::Result<SliceAttributes> parse_slice_header(std::string_view text) {
  if (text.size() > kMaxSliceHeaderBytes)
    return bad_header(fmt::format("is longer than {} bytes", kMaxSliceHeaderBytes));
  SliceAttributes slice;
  while (!text.empty()) {
    const auto end = text.find(';');
    const auto part = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (part.empty()) continue;
    const auto equals = part.find('=');
    if (equals == std::string_view::npos) return bad_header("has a part without '='");
    const auto name = trimmed(part.substr(0, equals));
    const auto value = trimmed(part.substr(equals + 1));
    if (!valid_dimension(name)) return bad_header("has a dimension that is not [a-z][a-z0-9_]{0,31}");
    if (!valid_value(value)) return bad_header("has a value that is empty, too long or not printable ASCII");
    if (slice.size() == kMaxSliceDimensions)
      return bad_header(fmt::format("has more than {} dimensions", kMaxSliceDimensions));
    if (!slice.emplace(name, value).second) return bad_header("names a dimension twice");
  }
  return slice;
}

SliceAttributes slice_of_metadata(const std::map<std::string, std::string>& metadata) {
  SliceAttributes slice;
  for (const auto& [name, value] : metadata) {
    if (slice.size() == kMaxSliceDimensions) break;
    if (valid_dimension(name) && valid_value(value) && trimmed(value) == value) slice.emplace(name, value);
  }
  return slice;
}

std::string canonical_slice(const SliceAttributes& slice) {
  std::string text;
  for (const auto& [name, value] : slice) {
    if (!text.empty()) text += ';';
    text.append(name).append(1, '=').append(value);
  }
  return text;
}

bool matches(const std::map<std::string, std::string>& where, const SliceAttributes& slice) {
  return std::ranges::all_of(where, [&](const auto& wanted) {
    const auto found = slice.find(wanted.first);
    return found != slice.end() && found->second == wanted.second;
  });
}

}  // namespace driftgate::route
