#include "daemon/route/haproxy/maps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "daemon/base/ascii.hpp"
#include "schema/failf.hpp"
#include "schema/names.hpp"

namespace driftgate::route::haproxy {
namespace {

constexpr std::size_t kFields = 9;  // of a model's value, separated by '|'
constexpr std::size_t kMaxServerBytes = 64;
constexpr std::string_view kNone = "-";
constexpr std::string_view kRouterServer = "router";

enum Field : std::size_t {
  kTag,
  kBackend,
  kIncumbent,
  kCandidate,
  kFallback,
  kShare,
  kSeed,
  kMirror,
  kFlags
};

using Fields = std::array<std::string_view, kFields>;

std::optional<Fields> fields_of(std::string_view value) {
  Fields fields;
  for (std::size_t i = 0; i < kFields; ++i) {
    const auto end = value.find('|');
    const bool last = i + 1 == kFields;
    if ((end == std::string_view::npos) != last) return std::nullopt;
    fields[i] = value.substr(0, end);
    if (!last) value.remove_prefix(end + 1);
  }
  return fields;
}

bool read_number(std::string_view& text, std::uint64_t& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

/// The text as a regular expression that matches it alone, without blanks, which would end the key of a map.
std::string literally(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    if (base::is_alphanumeric(byte, "_")) {
      out += byte;
    } else {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(byte));
    }
  }
  return out;
}

std::string owner(std::string_view tag, std::string_view backend) {
  return fmt::format("{}|{}|", tag, backend);
}

/// Matches the owner, followed by a header `driftgate-slice` that has every attribute of `where`.
std::string slice_pattern(const std::string& owned_by, const std::map<std::string, std::string>& where) {
  std::string pattern = "^" + literally(owned_by);
  for (const auto& [dimension, value] : where) {
    pattern += fmt::format(R"((?=(?:.*;)?[\x20\t;]*{}[\x20\t]*=[\x20\t]*{}[\x20\t]*(?:;|$)))",
                           literally(dimension), literally(value));
  }
  return pattern;
}

std::string hex_of(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes)
    fmt::format_to(std::back_inserter(out), "{:02X}", static_cast<unsigned char>(byte));
  return out;
}

schema::Result<void> check_server(const ModelRoute& route, const Arm& arm) {
  const auto& name = arm.version;
  const bool fits = !name.empty() && name.size() <= kMaxServerBytes && name != kRouterServer &&
                    name != kNone &&
                    std::ranges::all_of(name, [](char byte) { return base::is_alphanumeric(byte, "._:-"); });
  if (fits) return {};
  return schema::failf(
      schema::ErrorCode::unsupported,
      "route of model '{}' has the version '{}', which no server of HAProxy can be called: use 1 "
      "to {} letters, digits and . _ : -",
      route.model, name, kMaxServerBytes);
}

std::string joined(const Fields& fields) {
  return fmt::format("{}", fmt::join(fields, "|"));
}

}  // namespace

std::string tag_of(const ObservedRoute& observed) {
  return fmt::format("{}.{}{}", observed.route.epoch, observed.route.revision, observed.reverted ? "r" : "");
}

schema::Result<void> check_route(const ModelRoute& route) {
  const auto named = schema::check_name(route.model, "the name of a model that HAProxy routes");
  if (!named) return schema::fail(schema::ErrorCode::unsupported, named.error().message);
  TRY(check_server(route, route.incumbent));
  if (route.candidate) TRY(check_server(route, *route.candidate));
  if (route.fallback) TRY(check_server(route, *route.fallback));
  return {};
}

void append_entries(const ObservedRoute& observed, const std::string& backend, Maps& maps) {
  const auto& route = observed.route;
  const auto tag = tag_of(observed);
  const auto name = [](const std::optional<Arm>& arm) { return arm ? arm->version : std::string(kNone); };
  const auto mirror_bp = route.mirror_token_budget > 0 ? route.mirror_bp : 0;
  std::string flags;
  if (route.all_to_fallback && route.fallback) flags += 'F';
  if (!route.pins.empty()) flags += 'P';
  maps.routes.push_back(
      {route.model,
       fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", tag, backend, route.incumbent.version, name(route.candidate),
                   name(route.fallback), route.candidate ? route.candidate_bp : 0, route.seed, mirror_bp,
                   flags.empty() ? kNone : std::string_view(flags))});
  const auto owned_by = owner(tag, backend);
  for (const auto& [key, arm] : route.pins) {
    // Without a candidate its pins mean the incumbent, as in decide().
    const bool candidate = arm == "candidate" && route.candidate;
    maps.routes.push_back({owned_by + hex_of(key), candidate ? "candidate" : "incumbent"});
  }
  for (const auto& weight : route.slices) {
    const bool fallback = weight.to_fallback && route.fallback;
    const auto share = route.candidate ? weight.candidate_bp : 0;
    maps.slices.push_back(
        {slice_pattern(owned_by, weight.where), fallback ? "f" : fmt::format("b{}", share)});
  }
}

std::optional<HeldRoute> read_route(const MapEntry& entry) {
  const auto fields = fields_of(entry.value);
  if (!fields) return std::nullopt;
  HeldRoute held{
      .model = entry.key, .tag = std::string((*fields)[kTag]), .backend = std::string((*fields)[kBackend])};
  auto tag = (*fields)[kTag];
  if (!read_number(tag, held.epoch) || !tag.starts_with('.')) return std::nullopt;
  tag.remove_prefix(1);
  if (!read_number(tag, held.revision)) return std::nullopt;
  held.reverted = tag == "r";
  if (!tag.empty() && !held.reverted) return std::nullopt;
  return held;
}

std::optional<MapEntry> without_candidate(const MapEntry& entry) {
  auto fields = fields_of(entry.value);
  const auto held = read_route(entry);
  if (!fields || !held) return std::nullopt;
  const auto tag = fmt::format("{}.{}r", held->epoch, held->revision);
  const bool fallback = (*fields)[kFlags].contains('F');
  (*fields)[kTag] = tag;
  (*fields)[kCandidate] = kNone;
  (*fields)[kShare] = "0";
  (*fields)[kMirror] = "0";
  (*fields)[kFlags] = fallback ? "F" : kNone;
  return MapEntry{entry.key, joined(*fields)};
}

bool belongs_to(const MapEntry& entry, const HeldRoute& route) {
  const auto owned_by = owner(route.tag, route.backend);
  return entry.key.starts_with(owned_by) || entry.key.starts_with("^" + literally(owned_by) + "(");
}

std::vector<MapEntry> parse_map(std::string_view shown) {
  std::vector<MapEntry> entries;
  while (!shown.empty()) {
    const auto end = shown.find('\n');
    auto line = shown.substr(0, end);
    shown = end == std::string_view::npos ? std::string_view() : shown.substr(end + 1);
    const auto key = line.find(' ');
    if (key == std::string_view::npos || !line.starts_with("0x")) continue;
    line.remove_prefix(key + 1);
    const auto value = line.find(' ');
    if (value == std::string_view::npos) continue;
    entries.push_back({std::string(line.substr(0, value)), std::string(line.substr(value + 1))});
  }
  return entries;
}

std::string map_text(const std::vector<MapEntry>& entries) {
  std::string text;
  for (const auto& entry : entries) text.append(entry.key).append(" ").append(entry.value).append("\n");
  return text;
}

}  // namespace driftgate::route::haproxy
