#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "daemon/api/evidence_query.hpp"
#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/problem.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;

}  // namespace

net::Response list_evidence(Context& context, const Call& call) {
  const auto filter = filter_of(call);
  if (!filter) return problem(filter.error());
  if (!filter->cursor) {
    const auto noted = note_read(context, call, "entries");
    if (!noted) return problem(noted.error());
  }
  const auto page = context.evidence.page(*filter);
  return page ? entry_page_response(call, *page) : problem(page.error());
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
  return json_response(200, json{{"from", proof->from},
                                 {"to", proof->to},
                                 {"path", proof->path},
                                 {"root", proof->head.root},
                                 {"checkpoint", proof->head.checkpoint},
                                 {"continuation", proof->head.continuation}}
                                .dump());
}

net::Response get_log_key(Context& context, const Call&) {
  return text_response(context.evidence.verifier_key() + "\n");
}

}  // namespace driftgate::api
