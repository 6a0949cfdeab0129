#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/store/sqlite/sql.hpp"

namespace driftgate::store {

/// The newest route of a model, desired or applied (read back); history is in the evidence log.
struct RouteRow {
  std::string model{};
  std::uint64_t epoch = 0;
  std::uint64_t revision = 0;
  std::string route{};  ///< JSON of route::ModelRoute
  std::int64_t time_us = 0;
  bool operator==(const RouteRow&) const = default;
};

/// `conflict` when a route with a newer (epoch, revision) is stored; the same (epoch, revision) with the same
/// JSON changes nothing, with another JSON it is a `conflict`.
Result<void> put_desired_route(Tx& tx, const RouteRow& route);
/// As put_desired_route, except that reading back the same (epoch, revision) again replaces the row.
Result<void> put_applied_route(Tx& tx, const RouteRow& route);
Result<std::optional<RouteRow>> find_desired_route(Reader& reader, std::string_view model);
Result<std::optional<RouteRow>> find_applied_route(Reader& reader, std::string_view model);
Result<std::vector<RouteRow>> list_desired_routes(Reader& reader);

}  // namespace driftgate::store
