#include "daemon/api/evidence_query.hpp"

#include <fmt/format.h>

#include <ranges>

namespace driftgate::api {

using schema::ErrorCode;
using schema::fail;

std::optional<std::string> text_of(const Call& call, std::string_view name) {
  const auto value = call.request.query_value(name);
  return value ? std::optional<std::string>(*value) : std::nullopt;
}

schema::Result<std::int64_t> required_number(const Call& call, std::string_view name) {
  const auto number = TRY(number_of(call, name));
  if (!number) return fail(ErrorCode::invalid_argument, fmt::format("'{}' must be given", name));
  return *number;
}

schema::Result<evidence::EntryFilter> filter_of(const Call& call) {
  const auto from = TRY(number_of(call, "from_us"));
  const auto to = TRY(number_of(call, "to_us"));
  const auto after = TRY(number_of(call, "after"));
  const auto limit = TRY(number_of(call, "limit"));
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
  filter.from_us = from;
  filter.to_us = to;
  filter.cursor = after;
  filter.limit = limit.value_or(filter.limit);
  return filter;
}

Reply entry_page_response(const Call& call, const schema::Result<evidence::EntryPage>& page) {
  if (!page) return std::unexpected(page.error());
  const auto entries = page->entries | std::views::transform(&evidence::StoredEntry::bytes);
  return items_response(call, fmt::format("[{}]", fmt::join(entries.begin(), entries.end(), ",")),
                        page->next ? std::to_string(*page->next) : "",
                        fmt::format(R"(,"tree_size":{})", page->tree_size));
}

schema::Result<void> note_read(Context& context, const Call& call, std::string what) {
  for (const auto& [name, value] : call.request.query)
    if (name != "after") what += fmt::format(" {}={}", name, value);
  return context.evidence.note_read(call.principal.name, what);
}

}  // namespace driftgate::api
