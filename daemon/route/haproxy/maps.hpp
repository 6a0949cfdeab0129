#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/route/table/route.hpp"
#include "schema/error.hpp"

// How routes are written in the maps that HAProxy's configuration (config_text.cpp) looks up for each
// request.
namespace driftgate::route::haproxy {

/// One line of a map.
struct MapEntry {
  std::string key;
  std::string value;
  auto operator<=>(const MapEntry&) const = default;
};

/// `routes` has one entry for each model and one for each pin; a request looks its model up once and so sees
/// one route as a whole. `slices` has regular expressions, the first that matches wins; each begins with the
/// route that it belongs to, so that entries of two routes can lie beside each other.
struct Maps {
  std::vector<MapEntry> routes;
  std::vector<MapEntry> slices;
};

/// What the entry of a model says.
struct HeldRoute {
  std::string model;
  std::string tag;      ///< tag_of
  std::string backend;  ///< of HAProxy
  std::uint64_t epoch = 0;
  std::uint64_t revision = 0;
  bool reverted = false;
};

/// "7.3": epoch and revision; "7.3r" when the lease took its candidate away.
[[nodiscard]] std::string tag_of(const ObservedRoute& observed);

/// `unsupported` for a route that the maps cannot carry: names with characters other than those of
/// schema::check_name, a version that no server of HAProxy can be called.
[[nodiscard]] schema::Result<void> check_route(const ModelRoute& route);

/// Adds the entries of an effective route whose requests go to `backend`.
void append_entries(const ObservedRoute& observed, const std::string& backend, Maps& maps);

/// The entry of a model; nothing for a pin and for what this program did not write.
[[nodiscard]] std::optional<HeldRoute> read_route(const MapEntry& entry);
/// The same entry with everything on the incumbent and the fallback, for a model that nobody here knows.
[[nodiscard]] std::optional<MapEntry> without_candidate(const MapEntry& entry);
/// True for an entry of `slices`, or a pin of `routes`, that belongs to this route.
[[nodiscard]] bool belongs_to(const MapEntry& entry, const HeldRoute& route);

/// The entries in HAProxy's answer to `show map`: "0x55aa46401d00 KEY VALUE" a line.
[[nodiscard]] std::vector<MapEntry> parse_map(std::string_view shown);
/// A map as a file: "KEY VALUE" a line.
[[nodiscard]] std::string map_text(const std::vector<MapEntry>& entries);

}  // namespace driftgate::route::haproxy
