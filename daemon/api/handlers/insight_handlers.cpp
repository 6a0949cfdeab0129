#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/route_builder.hpp"
#include "daemon/pipeline/read/insight.hpp"

namespace driftgate::api {
namespace {

Reply get_series(Context& context, const Call& call) {
  pipeline::SeriesRequest request{.promotion = call.path[0], .stage = call.query("stage")};
  request.attempt = TRY(number_of(call, "attempt"));
  const auto points = TRY(number_of(call, "points"));
  request.points = points.value_or(request.points);
  request.last = TRY(number_of(call, "last"));
  request.actors = auth::require(call.principal, Scope::auditor).has_value();
  return view_response(context.insight->series(request));
}

Reply get_distribution(Context& context, const Call& call) {
  pipeline::DistributionRequest request{
      .promotion = call.path[0], .stage = call.path[1], .slice = call.query("slice")};
  if (auto metric = call.query("metric"); !metric.empty()) request.metric = std::move(metric);
  return view_response(context.insight->distribution(request));
}

Reply explain_contract(Context& context, const Call& call) {
  return view_response(context.insight->explain_contract(call.path[0]));
}

Reply diff_contract(Context& context, const Call& call) {
  const auto with = call.query("with");
  if (with.empty())
    return schema::fail(schema::ErrorCode::invalid_argument, "name the other contract by its digest or name",
                        "with");
  return view_response(context.insight->compare_contracts(call.path[0], with));
}

}  // namespace

void add_series_routes(std::vector<Route>& list) {
  RouteGroup promotions(list, "promotions");
  promotions
      .get("/v1/promotions/{id}/series", "getSeries",
           "How a stage of live traffic went: shares, requests, latencies and the figures of every clause "
           "over time",
           Scope::viewer, get_series)
      .query("stage", "string", "canary or shadow-runtime; absent: the newest of these")
      .query("attempt", "integer", "absent: the newest")
      .query("points", "integer", "at most so many points, evenly chosen; 513 at most")
      .query("last", "integer", "instead: only the newest points, and as many marks")
      .answer(200, "Series", "the series");
  promotions
      .get("/v1/promotions/{id}/stages/{stage}/distribution", "getDistribution",
           "How a metric is distributed over the rows that a stage measured, beside its noise floors",
           Scope::viewer, get_distribution)
      .query("metric", "string", "a metric of rows; absent: tv")
      .query("slice", "string", "such as domain=code;language=de; absent: the corpus")
      .answer(200, "Distribution", "the distribution");
}

void add_contract_text_routes(std::vector<Route>& list) {
  RouteGroup contracts(list, "contracts");
  contracts
      .get("/v1/contracts/{contract}/explain", "explainContract",
           "What a contract demands, in words, beside its text", Scope::viewer, explain_contract)
      .lane(net::Lane::long_running)
      .answer(200, "ContractExplanation", "the explanation");
  contracts
      .get("/v1/contracts/{contract}/diff", "diffContracts", "What became stricter or looser, is new or gone",
           Scope::viewer, diff_contract)
      .query("with", "string", "the other contract, by digest or name: the one that it became")
      .answer(200, "ContractDifference", "the changes");
}

}  // namespace driftgate::api
