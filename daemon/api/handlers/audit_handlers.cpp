#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "daemon/api/evidence_query.hpp"
#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/route_builder.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::fail;

schema::Result<evidence::PopulationRequest> population_request(const Call& call) {
  const auto from = TRY(required_number(call, "from_us"));
  const auto to = TRY(required_number(call, "to_us"));
  const auto cursor = TRY(number_of(call, "after"));
  const auto limit = TRY(number_of(call, "limit"));
  evidence::PopulationRequest request{from, to, text_of(call, "model"), cursor};
  request.limit = limit.value_or(request.limit);
  return request;
}

schema::Result<evidence::SampleRequest> sample_request(const Call& call) {
  evidence::SampleRequest request;
  request.seed = call.query("seed");
  if (request.seed.empty()) return fail(ErrorCode::invalid_argument, "'seed' must be given");
  const auto count = TRY(number_of(call, "count"));
  if (count) request.count = static_cast<std::size_t>(*count);
  const auto size = TRY(number_of(call, "size"));
  request.size = size;
  auto filter = TRY(filter_of(call));
  request.filter = std::move(filter);
  return request;
}

Reply get_audit_at(Context& context, const Call& call) {
  const std::string model = call.query("model");
  if (model.empty()) return fail(ErrorCode::invalid_argument, "'model' must be given");
  const auto time_us = TRY(required_number(call, "time_us"));
  TRY(note_read(context, call, "audit at"));
  auto served = TRY(context.evidence.served_at(model, time_us));
  return json_response(200, std::move(served));
}

Reply get_audit_population(Context& context, const Call& call) {
  const auto request = TRY(population_request(call));
  TRY(note_read(context, call, "audit population"));
  const auto audited = TRY(context.evidence.population(request));
  const auto& found = audited.found;
  const json proof{{"from_size", found.span.from_size},
                   {"to_size", found.span.to_size},
                   {"from_root", audited.from.root},
                   {"from_checkpoint", audited.from.checkpoint},
                   {"from_continuation", audited.from.continuation},
                   {"to_root", audited.to.root},
                   {"to_checkpoint", audited.to.checkpoint},
                   {"to_continuation", audited.to.continuation},
                   {"path", audited.path}};
  return items_response(call, found.items, found.next ? std::to_string(*found.next) : "",
                        fmt::format(R"(,"tree_size":{},"completeness":{})", found.tree_size, proof.dump()));
}

Reply get_audit_sample(Context& context, const Call& call) {
  const auto request = TRY(sample_request(call));
  TRY(note_read(context, call, "audit sample"));
  auto drawn = TRY(context.evidence.sample(request));
  return json_response(200, std::move(drawn));
}

Reply get_audit_exceptions(Context& context, const Call& call) {
  const auto filter = TRY(filter_of(call));
  TRY(note_read(context, call, "audit exceptions"));
  return entry_page_response(
      call, context.evidence.exceptions(
                {filter.model, filter.promotion, filter.from_us, filter.to_us, filter.cursor, filter.limit}));
}

}  // namespace

void add_audit_routes(std::vector<Route>& list) {
  RouteGroup audit(list, "audit");
  audit.get("/v1/audit/at", "auditAt", "What served a model at a time, and why", Scope::auditor, get_audit_at)
      .query("model", "string", "the model's name")
      .query("time_us", "integer", "time, in µs since the epoch")
      .answer(200, "ServedAt", "versions with their shares, and the entries that brought them there");
  audit
      .get(
          "/v1/audit/population", "auditPopulation",
          "Every version that started to serve in a range of time, with both heads and the consistency proof "
          "between them",
          Scope::auditor, get_audit_population)
      .times()
      .query("model", "string", "of this model only")
      .pages("AuditPopulation");
  audit
      .get("/v1/audit/sample", "auditSample",
           "The matching entries with the smallest SHA-256(seed:seq), which anyone can draw again",
           Scope::auditor, get_audit_sample)
      .query("seed", "string", "any text; choose it before you look at the log")
      .query("count", "integer", "entries; 25 by default")
      .query("size", "integer", "draw from this many entries at the start of the log; all by default")
      .entry_filters()
      .answer(200, "AuditSample", "the sample, in the order in which it was drawn");
  audit
      .get("/v1/audit/exceptions", "auditExceptions",
           "Where people bypassed the usual procedure: waivers, refused decisions on one's own request, "
           "versions "
           "without a promotion, ends by hand, lifted holds and blocks, redactions",
           Scope::auditor, get_audit_exceptions)
      .query("model", "string", "")
      .query("promotion", "string", "")
      .times()
      .pages("EvidencePage", "a page, oldest first");
}

}  // namespace driftgate::api
