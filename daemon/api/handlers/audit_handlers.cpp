#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "daemon/api/evidence_query.hpp"
#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/problem.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::fail;

schema::Result<evidence::PopulationRequest> population_request(const Call& call) {
  evidence::PopulationRequest request;
  const auto from = TRY(required_number(call.query("from_us"), "from_us"));
  const auto to = TRY(required_number(call.query("to_us"), "to_us"));
  request.from_us = static_cast<std::int64_t>(from);
  request.to_us = static_cast<std::int64_t>(to);
  request.model = text_of(call, "model");
  std::optional<std::int64_t> limit;
  auto read = read_number(call, "limit", limit);
  if (read) read = read_number(call, "after", request.cursor);
  if (!read) return std::unexpected(read.error());
  if (limit) request.limit = *limit;
  return request;
}

schema::Result<evidence::SampleRequest> sample_request(const Call& call) {
  evidence::SampleRequest request;
  request.seed = call.query("seed");
  if (request.seed.empty()) return fail(ErrorCode::invalid_argument, "'seed' must be given");
  std::optional<std::int64_t> count, size;
  auto read = read_number(call, "count", count);
  if (read) read = read_number(call, "size", size);
  if (!read) return std::unexpected(read.error());
  if (count) request.count = static_cast<std::size_t>(*count);
  if (size) request.size = static_cast<std::uint64_t>(*size);
  const auto filter = TRY(filter_of(call));
  request.filter = filter;
  return request;
}

schema::Result<evidence::ExceptionsRequest> exceptions_request(const Call& call) {
  const auto filter = TRY(filter_of(call));
  return evidence::ExceptionsRequest{filter.model, filter.promotion, filter.from_us,
                                     filter.to_us, filter.cursor,    filter.limit};
}

}  // namespace

net::Response get_audit_at(Context& context, const Call& call) {
  const std::string model = call.query("model");
  if (model.empty()) return problem(ErrorCode::invalid_argument, "'model' must be given");
  const auto time_us = required_number(call.query("time_us"), "time_us");
  if (!time_us) return problem(time_us.error());
  const auto noted = note_read(context, call, "audit at");
  if (!noted) return problem(noted.error());
  auto served = context.evidence.served_at(model, static_cast<std::int64_t>(*time_us));
  return served ? json_response(200, std::move(*served)) : problem(served.error());
}

net::Response get_audit_population(Context& context, const Call& call) {
  const auto request = population_request(call);
  if (!request) return problem(request.error());
  if (!request->cursor) {
    const auto noted = note_read(context, call, "audit population");
    if (!noted) return problem(noted.error());
  }
  const auto audited = context.evidence.population(*request);
  if (!audited) return problem(audited.error());
  const auto& found = audited->found;
  const std::string next = found.next ? std::to_string(*found.next) : "";
  const json proof{{"from_size", found.span.from_size},
                   {"to_size", found.span.to_size},
                   {"from_root", audited->from.root},
                   {"from_checkpoint", audited->from.checkpoint},
                   {"from_continuation", audited->from.continuation},
                   {"to_root", audited->to.root},
                   {"to_checkpoint", audited->to.checkpoint},
                   {"to_continuation", audited->to.continuation},
                   {"path", audited->path}};
  net::Response response = json_response(
      200, fmt::format("{{\"items\":{},\"next\":{},\"tree_size\":{},\"completeness\":{}}}", found.items,
                       next.empty() ? "null" : "\"" + next + "\"", found.tree_size, proof.dump()));
  if (!next.empty()) response.headers.push_back(next_link(call, next));
  return response;
}

net::Response get_audit_sample(Context& context, const Call& call) {
  const auto request = sample_request(call);
  if (!request) return problem(request.error());
  const auto noted = note_read(context, call, "audit sample");
  if (!noted) return problem(noted.error());
  auto drawn = context.evidence.sample(*request);
  return drawn ? json_response(200, std::move(*drawn)) : problem(drawn.error());
}

net::Response get_audit_exceptions(Context& context, const Call& call) {
  const auto request = exceptions_request(call);
  if (!request) return problem(request.error());
  if (!request->cursor) {
    const auto noted = note_read(context, call, "audit exceptions");
    if (!noted) return problem(noted.error());
  }
  const auto page = context.evidence.exceptions(*request);
  return page ? entry_page_response(call, *page) : problem(page.error());
}

}  // namespace driftgate::api
