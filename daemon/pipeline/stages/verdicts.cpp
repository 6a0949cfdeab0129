#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daemon/pipeline/change.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/promotions/verdicts.hpp"
#include "schema/sha256.hpp"
#include "schema/utf8.hpp"

namespace driftgate::pipeline {
namespace {

schema::Result<void> keep(store::Tx& tx, std::string_view bytes, std::string_view media_type,
                          std::int64_t now_us) {
  if (bytes.empty() || bytes.size() > store::kMaxBlobBytes) return {};
  TRY(store::put_blob(tx, bytes, media_type, now_us));
  return {};
}

/// {"scope": "stage", "verdict", "first", "count", …}: the stage's verdict beside the entries of the clauses
/// that it follows from, which are `first` … `first` + `count` − 1.
schema::EntryValue::Object stage_body(const StageConclusion& conclusion, std::int64_t first) {
  const auto& report = conclusion.report;
  schema::EntryValue::Object body{{"scope", "stage"},
                                  {"verdict", schema::to_string(report.verdict)},
                                  {"rules", report.rules},
                                  {"first", first},
                                  {"count", report.clauses.size()},
                                  {"alpha", schema::EntryValue::measured(report.alpha)},
                                  {"run", conclusion.run},
                                  {"seed", fmt::format("{:016x}", report.seed)},
                                  {"ended", conclusion.ended},
                                  {"nothing_demanded", report.nothing_demanded},
                                  {"code_version", report.code_version}};
  if (!conclusion.action.empty()) body["action"] = conclusion.action;
  if (!conclusion.inputs_digest.empty()) body["inputs_digest"] = conclusion.inputs_digest;
  if (!conclusion.report_json.empty()) body["report_digest"] = schema::sha256_digest(conclusion.report_json);
  if (!report.notes.empty()) body["message"] = schema::utf8_text(report.notes.front(), 2'000);
  return body;
}

/// The stronger the case against the candidate, the larger.
int weight(schema::Verdict verdict) {
  constexpr std::array kOrder{schema::Verdict::pass, schema::Verdict::inconclusive, schema::Verdict::error,
                              schema::Verdict::violated};
  return static_cast<int>(std::ranges::find(kOrder, verdict) - kOrder.begin());
}

/// A clause with two limits has two verdicts on one slice: its row is the one that decides.
bool is_outweighed(const schema::ClauseVerdict& verdict, const std::vector<schema::ClauseVerdict>& all) {
  return std::ranges::any_of(all, [&](const schema::ClauseVerdict& other) {
    return other.clause == verdict.clause && other.where == verdict.where &&
           weight(other.verdict) > weight(verdict.verdict);
  });
}

}  // namespace

schema::Result<void> put_verdicts(store::Tx& tx, Entries& entries, const Facts& facts,
                                  const StageConclusion& conclusion) {
  for (const auto& [bytes, type] :
       {std::pair<std::string_view, std::string_view>{conclusion.table, "application/vnd.driftgate.table"},
        {conclusion.pairs, "application/jsonl"},
        {conclusion.report_json, "application/json"}}) {
    TRY(keep(tx, bytes, type, facts.now_us));
  }
  for (const auto& bytes : conclusion.floor_tables)
    TRY(keep(tx, bytes, "application/vnd.driftgate.table", facts.now_us));
  std::int64_t first = -1;
  for (const auto& verdict : conclusion.report.clauses) {
    auto entry = draft(facts, schema::EvidenceKind::verdict_reached, {},
                       verdict_body(verdict, conclusion.inputs_digest, facts.settings.code_version));
    auto seq = TRY(entries.add(tx, entry));
    if (first < 0) first = seq;
    if (is_outweighed(verdict, conclusion.report.clauses)) continue;
    store::VerdictRow row;
    row.stage = facts.live.run.key;
    row.clause = verdict.clause;
    row.slice = schema::slice_text(verdict.where);
    row.verdict = std::string(schema::to_string(verdict.verdict));
    row.detail = schema::to_json(verdict);
    row.evidence_seq = seq;
    row.decided_us = facts.now_us;
    TRY(store::put_verdict(tx, row));
  }
  TRY(entries.add(tx, draft(facts, schema::EvidenceKind::verdict_reached, {},
                            stage_body(conclusion, std::max<std::int64_t>(first, 0)))));
  return {};
}

}  // namespace driftgate::pipeline
