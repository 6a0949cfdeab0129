#include <fmt/core.h>

#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/problem.hpp"

namespace driftgate::api {
namespace {

using schema::ErrorCode;
using schema::fail;

schema::Result<std::int64_t> required_time(const Call& call, std::string_view name) {
  const auto number = TRY(number_of(call.query(name), name));
  if (!number) return fail(ErrorCode::invalid_argument, fmt::format("'{}' must be given", name));
  return static_cast<std::int64_t>(*number);
}

/// Records that the bundle is read, then verifies and makes it: its head covers that entry too.
net::Response bundle_response(Context& context, const Call& call, evidence::BundleRequest request,
                              const std::string& what) {
  const auto older = number_of(call.query("older"), "older");
  if (!older) return problem(older.error());
  request.older_size = *older;
  const auto found = context.evidence.find_bundle(request);
  if (!found) return problem(found.error());
  const auto noted = context.evidence.note_read(call.principal.name, what);
  if (!noted) return problem(noted.error());
  auto source = context.evidence.bundle(request);
  if (!source) return problem(source.error());
  net::Response response;
  response.headers.push_back({"Content-Type", "application/jsonl"});
  response.headers.push_back({"Cache-Control", "no-store"});
  response.source = std::move(*source);
  return response;
}

}  // namespace

net::Response get_bundle(Context& context, const Call& call) {
  evidence::BundleRequest request;
  request.promotion = call.path[0];
  const std::string tables = call.query("tables");
  if (!tables.empty() && tables != "true" && tables != "false") {
    return problem(
        schema::Error{ErrorCode::invalid_argument, "'tables' must be true or false", "/tables", nullptr});
  }
  request.with_tables = tables == "true";
  return bundle_response(context, call, request, "bundle promotion=" + call.path[0]);
}

net::Response export_evidence(Context& context, const Call& call) {
  const auto from = required_time(call, "from_us");
  if (!from) return problem(from.error());
  const auto to = required_time(call, "to_us");
  if (!to) return problem(to.error());
  evidence::BundleRequest request;
  request.from_us = *from;
  request.to_us = *to;
  return bundle_response(context, call, request, fmt::format("export from_us={} to_us={}", *from, *to));
}

}  // namespace driftgate::api
