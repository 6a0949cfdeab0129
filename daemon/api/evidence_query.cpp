#include "daemon/api/evidence_query.hpp"

#include <fmt/core.h>

#include <utility>

namespace driftgate::api {

using schema::ErrorCode;
using schema::fail;

std::optional<std::string> text_of(const Call& call, std::string_view name) {
  const auto value = call.request.query_value(name);
  return value ? std::optional<std::string>(*value) : std::nullopt;
}

schema::Result<void> read_number(const Call& call, std::string_view name, std::optional<std::int64_t>& into) {
  const auto number = TRY(number_of(call.query(name), name));
  if (number) into = static_cast<std::int64_t>(*number);
  return {};
}

schema::Result<std::uint64_t> required_number(std::string_view text, std::string_view name) {
  const auto number = TRY(number_of(text, name));
  if (!number) return fail(ErrorCode::invalid_argument, fmt::format("'{}' must be given", name));
  return *number;
}

schema::Result<evidence::EntryFilter> filter_of(const Call& call) {
  evidence::EntryFilter filter;
  filter.model = text_of(call, "model");
  filter.promotion = text_of(call, "promotion");
  filter.stage = text_of(call, "stage");
  filter.checkpoint = text_of(call, "checkpoint");
  filter.contract = text_of(call, "contract");
  filter.kernel = text_of(call, "kernel");
  filter.actor = text_of(call, "actor");
  filter.clause = text_of(call, "clause");
  filter.verdict = text_of(call, "verdict");
  if (const auto kind = text_of(call, "kind")) {
    const auto parsed = TRY(schema::parse_evidence_kind(*kind));
    filter.kind = parsed;
  }
  const std::string order = call.query("order");
  if (!order.empty() && order != "oldest" && order != "newest")
    return fail(ErrorCode::invalid_argument, "'order' must be oldest or newest");
  filter.newest_first = order == "newest";
  std::optional<std::int64_t> limit;
  for (const auto& [name, into] : {std::pair{"from_us", &filter.from_us}, std::pair{"to_us", &filter.to_us},
                                   std::pair{"after", &filter.cursor}, std::pair{"limit", &limit}}) {
    TRY(read_number(call, name, *into));
  }
  if (limit) filter.limit = *limit;
  return filter;
}

net::Response entry_page_response(const Call& call, const evidence::EntryPage& page) {
  std::string body = "{\"items\":[";
  for (std::size_t i = 0; i < page.entries.size(); ++i) {
    if (i > 0) body += ',';
    body += page.entries[i].bytes;
  }
  const std::string next = page.next ? std::to_string(*page.next) : "";
  body += fmt::format("],\"next\":{},\"tree_size\":{}}}", next.empty() ? "null" : "\"" + next + "\"",
                      page.tree_size);
  net::Response response = json_response(200, std::move(body));
  if (!next.empty()) response.headers.push_back(next_link(call, next));
  return response;
}

schema::Result<void> note_read(Context& context, const Call& call, std::string what) {
  for (const auto& [name, value] : call.request.query) what += fmt::format(" {}={}", name, value);
  return context.evidence.note_read(call.principal.name, what);
}

}  // namespace driftgate::api
