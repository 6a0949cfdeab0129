#include <fmt/format.h>

#include "daemon/pipeline/core.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/verdicts.hpp"
#include "schema/sha256.hpp"

namespace driftgate::pipeline {
namespace {

schema::Result<void> keep(store::Tx& tx, std::string_view bytes, std::string_view media_type,
                          std::int64_t now_us) {
  if (bytes.empty() || bytes.size() > store::kMaxBlobBytes) return {};
  auto put = store::put_blob(tx, bytes, media_type, now_us);
  if (!put) return std::unexpected(put.error());
  return {};
}

}  // namespace

/// Blobs, one entry and one row for each verdict. Bytes above the blob limit are named by digest only.
schema::Result<void> Core::put_verdicts(store::Tx& tx, Entries& entries, const Live& live,
                                        const StageConclusion& conclusion) const {
  for (const auto& [bytes, type] :
       {std::pair<std::string_view, std::string_view>{conclusion.table, "application/vnd.driftgate.table"},
        {conclusion.pairs, "application/jsonl"},
        {conclusion.report_json, "application/json"}}) {
    auto kept = keep(tx, bytes, type, now());
    if (!kept) return kept;
  }
  for (const auto& verdict : conclusion.report.clauses) {
    auto entry = draft(live, schema::EvidenceKind::verdict_reached, {},
                       verdict_body(verdict, conclusion.inputs_digest, world_.settings.code_version));
    auto seq = entries.add(tx, entry);
    if (!seq) return std::unexpected(seq.error());
    store::VerdictRow row;
    row.stage = live.run.key;
    row.clause = verdict.clause;
    row.slice = schema::slice_text(verdict.where);
    row.verdict = std::string(schema::to_string(verdict.verdict));
    row.detail = schema::to_json(verdict);
    row.evidence_seq = *seq;
    row.decided_us = now();
    auto put = store::put_verdict(tx, row);
    if (!put) return put;
  }
  return {};
}

}  // namespace driftgate::pipeline
