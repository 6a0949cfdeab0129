#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "daemon/api/evidence_query.hpp"
#include "daemon/api/handlers/handlers.hpp"
#include "daemon/api/route_builder.hpp"

namespace driftgate::api {
namespace {

using nlohmann::json;

constexpr std::string_view kOlderText =
    "size of a head seen before: adds the proof that the log continues it";

Reply list_evidence(Context& context, const Call& call) {
  const auto filter = TRY(filter_of(call));
  TRY(note_read(context, call, "entries"));
  return entry_page_response(call, context.evidence.page(filter));
}

/// Records that the bundle is read, then verifies and makes it: its head covers that entry too.
Reply bundle_response(Context& context, const Call& call, evidence::BundleRequest request,
                      const std::string& what) {
  const auto older = TRY(number_of(call, "older"));
  request.older_size = older;
  request.stop = call.request.stop;
  TRY(context.evidence.find_bundle(request));
  TRY(context.evidence.note_read(call.principal.name, what));
  auto source = TRY(context.evidence.bundle(request));
  net::Response response = text_response("", "application/jsonl");
  response.headers.push_back({"Cache-Control", "no-store"});
  response.source = std::move(source);
  return response;
}

Reply get_bundle(Context& context, const Call& call) {
  const bool tables = TRY(flag_of(call, "tables"));
  return bundle_response(context, call, {.promotion = call.path[0], .with_tables = tables},
                         "bundle promotion=" + call.path[0]);
}

Reply export_evidence(Context& context, const Call& call) {
  const auto from = TRY(required_number(call, "from_us"));
  const auto to = TRY(required_number(call, "to_us"));
  return bundle_response(context, call, {.from_us = from, .to_us = to},
                         fmt::format("export from_us={} to_us={}", from, to));
}

/// The number in the path, whose parts are never empty.
schema::Result<std::uint64_t> seq_of(const Call& call) {
  const auto seq = TRY(number_of(call.path[0], "seq"));
  return static_cast<std::uint64_t>(*seq);
}

Reply get_entry(Context& context, const Call& call) {
  const auto seq = TRY(seq_of(call));
  auto entry = TRY(context.evidence.entry(seq));
  return json_response(200, std::move(entry));
}

Reply get_checkpoint(Context& context, const Call&) {
  auto note = TRY(context.evidence.checkpoint());
  return text_response(std::move(note));
}

Reply get_proof(Context& context, const Call& call) {
  const auto seq = TRY(seq_of(call));
  const auto proof = TRY(context.evidence.proof(seq));
  return json_response(200, json{{"seq", proof.seq},
                                 {"tree_size", proof.tree_size},
                                 {"leaf_hash", proof.leaf_hash},
                                 {"root_hash", proof.root_hash},
                                 {"path", proof.path},
                                 {"checkpoint", proof.checkpoint}}
                                .dump());
}

Reply get_consistency(Context& context, const Call& call) {
  const auto from = TRY(required_number(call, "from"));
  const auto to = TRY(required_number(call, "to"));
  const auto proof =
      TRY(context.evidence.consistency(static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to)));
  return json_response(200, json{{"from", proof.from},
                                 {"to", proof.to},
                                 {"path", proof.path},
                                 {"root", proof.head.root},
                                 {"checkpoint", proof.head.checkpoint},
                                 {"continuation", proof.head.continuation}}
                                .dump());
}

Reply get_log_key(Context& context, const Call&) {
  return text_response(context.evidence.verifier_key() + "\n");
}

}  // namespace

void add_evidence_routes(std::vector<Route>& list) {
  RouteGroup evidence(list, "evidence");
  evidence
      .get("/v1/evidence", "listEvidence", "Entries that match all given filters", Scope::auditor,
           list_evidence)
      .entry_filters()
      .query("order", "string", "oldest (default) or newest")
      .pages("EvidencePage");
  evidence
      .get("/v1/evidence/export", "exportEvidence",
           "All entries between two times, as a bundle that can be verified", Scope::auditor, export_evidence)
      .times()
      .query("older", "integer", kOlderText)
      .lane(net::Lane::long_running)
      .answer(200, "", "JSON Lines, sent as they are made", "application/jsonl");
  evidence
      .get("/v1/promotions/{id}/bundle", "getBundle",
           "A promotion's entries, proofs, signed head and attestations, as a bundle that can be verified",
           Scope::auditor, get_bundle)
      .query("older", "integer", kOlderText)
      .query("tables", "boolean", "add measurement tables and reports")
      .lane(net::Lane::long_running)
      .answer(200, "", "JSON Lines, sent as they are made", "application/jsonl");
  evidence.get("/v1/evidence/{seq}", "getEntry", "The exact bytes of one entry", Scope::auditor, get_entry)
      .answer(200, "Entry", "the entry");
  evidence
      .get("/v1/log/checkpoint", "getCheckpoint", "Signed head (C2SP tlog-checkpoint)", Scope::viewer,
           get_checkpoint)
      .answer(200, "", "signed note", "text/plain");
  evidence
      .get("/v1/log/proof/{seq}", "getProof", "Inclusion proof (RFC 9162, 2.1.3)", Scope::auditor, get_proof)
      .answer(200, "Proof", "the proof");
  evidence
      .get("/v1/log/consistency", "getConsistency", "Consistency proof (RFC 9162, 2.1.4)", Scope::auditor,
           get_consistency)
      .query("from", "integer", "size of the older tree")
      .query("to", "integer", "size of the newer tree")
      .answer(200, "Consistency", "the proof");
  evidence.get("/v1/log/key", "getLogKey", "Verifier key of the signed heads", Scope::viewer, get_log_key)
      .answer(200, "", "name+id+key", "text/plain");
}

}  // namespace driftgate::api
