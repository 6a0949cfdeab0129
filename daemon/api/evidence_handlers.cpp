#include <fmt/core.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "daemon/api/handlers.hpp"
#include "daemon/api/problem.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;
using schema::ErrorCode;
using schema::fail;

std::optional<std::string> text_of(const Call& call, std::string_view name) {
  const auto value = call.request.query_value(name);
  return value ? std::optional<std::string>(*value) : std::nullopt;
}

/// Puts a whole number from the query into `into`, when there is one.
schema::Result<void> read_number(const Call& call, std::string_view name, std::optional<std::int64_t>& into) {
  const auto number = number_of(call.query(name), name);
  if (!number) return std::unexpected(number.error());
  if (*number) into = static_cast<std::int64_t>(**number);
  return {};
}

schema::Result<evidence::EntryFilter> filter_of(const Call& call) {
  evidence::EntryFilter filter;
  filter.model = text_of(call, "model");
  filter.promotion = text_of(call, "promotion");
  filter.stage = text_of(call, "stage");
  filter.checkpoint = text_of(call, "checkpoint");
  filter.contract = text_of(call, "contract");
  filter.actor = text_of(call, "actor");
  filter.clause = text_of(call, "clause");
  filter.verdict = text_of(call, "verdict");
  if (const auto kind = text_of(call, "kind")) {
    const auto parsed = schema::parse_evidence_kind(*kind);
    if (!parsed) return std::unexpected(parsed.error());
    filter.kind = *parsed;
  }
  const std::string order = call.query("order");
  if (!order.empty() && order != "oldest" && order != "newest")
    return fail(ErrorCode::invalid_argument, "'order' must be oldest or newest");
  filter.newest_first = order == "newest";
  std::optional<std::int64_t> limit;
  for (const auto& [name, into] : {std::pair{"from_us", &filter.from_us}, std::pair{"to_us", &filter.to_us},
                                   std::pair{"after", &filter.cursor}, std::pair{"limit", &limit}}) {
    const auto read = read_number(call, name, *into);
    if (!read) return std::unexpected(read.error());
  }
  if (limit) filter.limit = *limit;
  return filter;
}

schema::Result<std::uint64_t> required_number(std::string_view text, std::string_view name) {
  const auto number = number_of(text, name);
  if (!number) return std::unexpected(number.error());
  if (!*number) return fail(ErrorCode::invalid_argument, fmt::format("'{}' must be given", name));
  return **number;
}

}  // namespace

net::Response list_evidence(Context& context, const Call& call) {
  const auto filter = filter_of(call);
  if (!filter) return problem(filter.error());
  if (!filter->cursor) {
    std::string what = "entries";
    for (const auto& [name, value] : call.request.query) what += fmt::format(" {}={}", name, value);
    const auto noted = context.evidence.note_read(call.principal.name, what);
    if (!noted) return problem(noted.error());
  }
  const auto page = context.evidence.page(*filter);
  if (!page) return problem(page.error());
  std::string body = "{\"items\":[";
  for (std::size_t i = 0; i < page->entries.size(); ++i) {
    if (i > 0) body += ',';
    body += page->entries[i].bytes;
  }
  const std::string next = page->next ? std::to_string(*page->next) : "";
  body += fmt::format("],\"next\":{},\"tree_size\":{}}}", next.empty() ? "null" : "\"" + next + "\"",
                      page->tree_size);
  net::Response response = json_response(200, std::move(body));
  if (!next.empty()) response.headers.push_back(next_link(call, next));
  return response;
}

net::Response get_entry(Context& context, const Call& call) {
  const auto seq = required_number(call.path[0], "seq");
  if (!seq) return problem(seq.error());
  auto entry = context.evidence.entry(*seq);
  if (!entry) return problem(entry.error());
  return json_response(200, std::move(*entry));
}

net::Response get_checkpoint(Context& context, const Call&) {
  auto note = context.evidence.checkpoint();
  return note ? text_response(std::move(*note)) : problem(note.error());
}

net::Response get_proof(Context& context, const Call& call) {
  const auto seq = required_number(call.path[0], "seq");
  if (!seq) return problem(seq.error());
  const auto proof = context.evidence.proof(*seq);
  if (!proof) return problem(proof.error());
  return json_response(200, json{{"seq", proof->seq},
                                 {"tree_size", proof->tree_size},
                                 {"leaf_hash", proof->leaf_hash},
                                 {"root_hash", proof->root_hash},
                                 {"path", proof->path},
                                 {"checkpoint", proof->checkpoint}}
                                .dump());
}

net::Response get_consistency(Context& context, const Call& call) {
  const auto from = required_number(call.query("from"), "from");
  if (!from) return problem(from.error());
  const auto to = required_number(call.query("to"), "to");
  if (!to) return problem(to.error());
  const auto proof = context.evidence.consistency(*from, *to);
  if (!proof) return problem(proof.error());
  return json_response(
      200,
      json{{"from", proof->from}, {"to", proof->to}, {"path", proof->path}, {"checkpoint", proof->checkpoint}}
          .dump());
}

net::Response get_log_key(Context& context, const Call&) {
  return text_response(context.evidence.verifier_key() + "\n");
}

}  // namespace driftgate::api
