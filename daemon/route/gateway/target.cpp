#include "daemon/route/gateway/target.hpp"

#include <algorithm>
#include <utility>

#include "daemon/base/ascii.hpp"
#include "daemon/base/http_text.hpp"
#include "daemon/route/relay/endpoint.hpp"
#include "schema/failf.hpp"

namespace driftgate::route::gateway {
namespace {

constexpr std::size_t kMaxLabelBytes = 63;
constexpr std::size_t kMaxHostnameBytes = 253;
constexpr std::size_t kMaxInstallationBytes = 40;  // names of HTTPRoutes begin with it
constexpr std::size_t kMaxParents = 32;            // of an HTTPRoute
constexpr std::size_t kMaxHostnames = 16;          // of an HTTPRoute
constexpr std::string_view kPlainHttp = "http://";
constexpr std::string_view kServiceDomain = "svc";

/// A label of RFC 1123, which names of Services, namespaces and most Gateways are.
bool is_label(std::string_view text) {
  const auto plain = [](char byte) { return base::is_lower(byte) || base::is_digit(byte); };
  return !text.empty() && text.size() <= kMaxLabelBytes && plain(text.front()) && plain(text.back()) &&
         std::ranges::all_of(text, [&](char byte) { return plain(byte) || byte == '-'; });
}

/// Labels with dots between them.
bool is_domain(std::string_view text) {
  if (text.size() > kMaxHostnameBytes) return false;
  for (;;) {
    const auto dot = text.find('.');
    if (!is_label(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool is_hostname(std::string_view text) {
  if (text.starts_with("*.")) text.remove_prefix(2);
  return is_domain(text);
}

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.emplace_back(base::trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// The elements of a list that is written with commas; none for "".
std::vector<std::string> list_of(std::string_view text) {
  return base::trimmed(text).empty() ? std::vector<std::string>() : parts_of(text, ',');
}

std::unexpected<schema::Error> refuse(std::string_view setting, std::string_view text,
                                      std::string_view form) {
  return schema::failf(schema::ErrorCode::invalid_argument, "setting 'gateway.{}' has '{}'; it must be {}",
                       setting, text, form);
}

schema::Result<Parent> read_parent(const std::string& text, const std::string& space) {
  auto parts = parts_of(text, '/');
  if (parts.size() == 1) parts.insert(parts.begin(), space);
  const bool good = (parts.size() == 2 || (parts.size() == 3 && is_domain(parts[2]))) && is_label(parts[0]) &&
                    is_domain(parts[1]);
  if (!good)
    return refuse("parents", text, "a list of GATEWAY, NAMESPACE/GATEWAY or NAMESPACE/GATEWAY/LISTENER");
  return Parent{std::move(parts[0]), std::move(parts[1]),
                parts.size() == 3 ? std::move(parts[2]) : std::string()};
}

schema::Result<std::vector<Parent>> read_parents(const std::string& text, const std::string& space) {
  const auto written = list_of(text);
  if (written.empty() || written.size() > kMaxParents)
    return refuse("parents", text, "a list of 1 to 32 Gateways that users reach");
  std::vector<Parent> parents;
  for (const auto& one : written) {
    auto parent = TRY(read_parent(one, space));
    if (std::ranges::find(parents, parent) == parents.end()) parents.push_back(std::move(parent));
  }
  return parents;
}

schema::Result<Service> read_router(const std::string& text, const std::string& space) {
  constexpr std::string_view kForm =
      "SERVICE:PORT or SERVICE.NAMESPACE:PORT, the Service in front of the router";
  const auto at = parse_authority(text);
  if (!at || at->port == 0) return refuse("router_service", text, kForm);
  auto parts = parts_of(at->host, '.');
  if (parts.size() == 1) parts.push_back(space);
  if (parts.size() != 2 || !is_label(parts[0]) || !is_label(parts[1]))
    return refuse("router_service", text, kForm);
  return Service{std::move(parts[0]), std::move(parts[1]), at->port};
}

}  // namespace

schema::Result<Target> target_of(const RouterOptions& options) {
  const auto& space = options.gateway_namespace;
  if (!is_label(options.gateway_name) || options.gateway_name.size() > kMaxInstallationBytes)
    return refuse("name", options.gateway_name, "1 to 40 lower-case letters, digits and '-'");
  if (!is_label(space)) return refuse("namespace", space, "the name of a namespace");
  auto hostnames = list_of(options.gateway_hostnames);
  if (hostnames.size() > kMaxHostnames || !std::ranges::all_of(hostnames, is_hostname))
    return refuse(
        "hostnames", options.gateway_hostnames,
        "a list of at most 16 hostnames in lower case, such as 'api.example.org' or '*.example.org'");
  auto parents = TRY(read_parents(options.gateway_parents, space));
  auto router = TRY(read_router(options.gateway_router, space));
  return Target{.name = options.gateway_name,
                .space = space,
                .parents = std::move(parents),
                .hostnames = std::move(hostnames),
                .router = std::move(router),
                .watched_bp = options.gateway_watched_bp};
}

std::optional<Service> service_of(std::string_view url) {
  if (!url.starts_with(kPlainHttp)) return std::nullopt;
  url.remove_prefix(kPlainHttp.size());
  if (url.ends_with('/')) url.remove_suffix(1);
  if (url.find('/') != std::string_view::npos) return std::nullopt;
  const auto at = parse_authority(url);
  if (!at || at->port == 0) return std::nullopt;
  auto parts = parts_of(at->host, '.');
  if (parts.size() < 3 || parts[2] != kServiceDomain || !is_label(parts[0]) || !is_label(parts[1]))
    return std::nullopt;
  return Service{std::move(parts[0]), std::move(parts[1]), at->port};
}

}  // namespace driftgate::route::gateway
