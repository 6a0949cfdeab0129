#include <optional>

#include "daemon/api/routes.hpp"
#include "daemon/net/url.hpp"

namespace driftgate::api {
namespace {

/// Takes the next "/segment" off `path`.
std::optional<std::string_view> take_segment(std::string_view& path) {
  if (!path.starts_with('/')) return std::nullopt;
  const std::size_t end = path.find('/', 1);
  const std::string_view segment = path.substr(1, end == std::string_view::npos ? end : end - 1);
  path = end == std::string_view::npos ? std::string_view{} : path.substr(end);
  return segment;
}

std::optional<std::vector<std::string>> match_path(std::string_view pattern, std::string_view path) {
  std::vector<std::string> values;
  while (!pattern.empty()) {
    const auto expected = take_segment(pattern);
    const auto found = take_segment(path);
    if (!found) return std::nullopt;
    if (!expected->starts_with('{')) {
      if (*expected != *found) return std::nullopt;
      continue;
    }
    auto value = net::percent_decode(*found);
    if (!value || value->empty()) return std::nullopt;
    values.push_back(std::move(*value));
  }
  if (!path.empty()) return std::nullopt;
  return values;
}

}  // namespace

std::optional<Match> match_route(std::string_view method, std::string_view path, std::string& allowed) {
  allowed.clear();
  for (const Route& route : routes()) {
    auto values = match_path(route.path, path);
    if (!values) continue;
    if (route.method == method) return Match{&route, std::move(*values)};
    if (!allowed.empty()) allowed += ", ";
    allowed += route.method;
  }
  return std::nullopt;
}

}  // namespace driftgate::api
