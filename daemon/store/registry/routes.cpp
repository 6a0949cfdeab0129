#include "daemon/store/registry/routes.hpp"

#include "daemon/store/outcome.hpp"
#include "daemon/store/sqlite/rows.hpp"
#include "schema/failf.hpp"

namespace driftgate::store {

namespace {

constexpr Sql kPutDesired{
    "put desired route",
    "INSERT INTO desired_routes(model, epoch, revision, route, time_us) VALUES(?1, ?2, ?3, ?4, ?5) "
    "ON CONFLICT(model) DO UPDATE SET epoch = excluded.epoch, revision = excluded.revision, route = "
    "excluded.route, "
    "time_us = excluded.time_us WHERE (excluded.epoch, excluded.revision) > (epoch, revision)"};
constexpr Sql kPutApplied{
    "put applied route",
    "INSERT INTO applied_routes(model, epoch, revision, route, time_us) VALUES(?1, ?2, ?3, ?4, ?5) "
    "ON CONFLICT(model) DO UPDATE SET epoch = excluded.epoch, revision = excluded.revision, route = "
    "excluded.route, "
    "time_us = excluded.time_us WHERE (excluded.epoch, excluded.revision) >= (epoch, revision)"};
constexpr Sql kFindDesired{
    "find desired route",
    "SELECT model, epoch, revision, route, time_us FROM desired_routes WHERE model = ?1"};
constexpr Sql kFindApplied{
    "find applied route",
    "SELECT model, epoch, revision, route, time_us FROM applied_routes WHERE model = ?1"};

Result<void> refuse_older(const RouteRow& route, const RouteRow& stored) {
  return schema::failf(ErrorCode::conflict,
                       "model '{}' has the route {}.{} (epoch.revision): {}.{} does not follow it",
                       route.model, stored.epoch, stored.revision, route.epoch, route.revision);
}

}  // namespace

Result<void> put_desired_route(Tx& tx, const RouteRow& route) {
  auto changed = tx.run(kPutDesired, {route.model, route.epoch, route.revision, route.route, route.time_us});
  if (!changed || *changed > 0)
    return explain(changed, fmt::format("cannot store the desired route of model '{}'", route.model));
  auto stored = TRY(must_exist(find_desired_route(tx, route.model), "the route just compared is missing"));
  const bool same =
      stored.epoch == route.epoch && stored.revision == route.revision && stored.route == route.route;
  if (same) return {};
  return refuse_older(route, stored);
}

Result<void> put_applied_route(Tx& tx, const RouteRow& route) {
  auto changed = tx.run(kPutApplied, {route.model, route.epoch, route.revision, route.route, route.time_us});
  if (!changed || *changed > 0)
    return explain(changed, fmt::format("cannot store the applied route of model '{}'", route.model));
  auto stored = TRY(must_exist(find_applied_route(tx, route.model), "the route just compared is missing"));
  return refuse_older(route, stored);
}

Result<std::optional<RouteRow>> find_desired_route(Reader& reader, std::string_view model) {
  return find_row<RouteRow>(reader, kFindDesired, {model});
}

Result<std::optional<RouteRow>> find_applied_route(Reader& reader, std::string_view model) {
  return find_row<RouteRow>(reader, kFindApplied, {model});
}

}  // namespace driftgate::store
