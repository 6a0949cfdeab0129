#include "daemon/pipeline/people/redact.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "daemon/evidence/log/log.hpp"
#include "daemon/jobs/job.hpp"
#include "daemon/pipeline/entry_bodies.hpp"
#include "daemon/pipeline/read/views.hpp"
#include "daemon/store/blobs.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/promotions/redactions.hpp"
#include "daemon/store/promotions/verdicts.hpp"
#include "schema/contract/contract.hpp"

namespace driftgate::pipeline {
namespace {

using nlohmann::json;
using schema::ErrorCode;

/// Digests of what a shadow-runtime attempt kept of single requests: as its verdicts' entries and its report
/// name them.
schema::Result<std::set<std::string>> kept_digests(store::Reader& reader, const store::StageRunRow& run) {
  std::set<std::string> digests;
  auto verdicts = TRY(store::list_verdicts(reader, run.key));
  for (const auto& verdict : verdicts) {
    auto entry = TRY(evidence::find_entry(reader, verdict.evidence_seq));
    const auto parsed = json::parse(entry ? entry->bytes : "{}", nullptr, false);
    if (!parsed.is_object() || !parsed.contains("body")) continue;
    digests.insert(parsed["body"].value("inputs_digest", ""));
  }
  auto report = TRY(run.report.empty() ? schema::Result<std::optional<store::BlobRow>>(std::nullopt)
                                       : store::find_blob(reader, run.report));
  const auto parsed = json::parse(report ? report->bytes : "{}", nullptr, false);
  if (parsed.is_object()) digests.insert(parsed.value("table_digest", ""));
  digests.erase("");
  return digests;
}

/// Digests of what an attempt's rescore jobs wrote: a canary keeps its samples under them alone.
schema::Result<void> add_rescored(store::Reader& reader, const store::StageRunRow& run,
                                  std::set<std::string>& digests) {
  auto listed = TRY(store::list_jobs(reader, run.key));
  for (const auto& job : listed) {
    if (job.kind != jobs::to_string(jobs::JobKind::rescore) || job.result.empty()) continue;
    const auto result = TRY(jobs::job_result_from_json(job.result));
    for (const auto& [name, digest] : result.digests) digests.insert(digest);
  }
  return {};
}

schema::Result<schema::EntryValue::Array> destroy(store::Tx& tx, const std::string& promotion) {
  schema::EntryValue::Array destroyed;
  auto runs = TRY(store::list_stage_runs(tx, promotion));
  for (const auto& run : runs) {
    const bool shadow = run.key.stage == schema::to_string(schema::Stage::shadow_runtime);
    auto digests = TRY(shadow ? kept_digests(tx, run) : std::set<std::string>());
    TRY(add_rescored(tx, run, digests));
    for (const auto& digest : digests) {
      auto gone = TRY(store::delete_blob(tx, digest));
      if (gone)
        destroyed.emplace_back(
            schema::EntryValue::Object{{"what", shadow ? "shadow_pairs" : "canary_samples"},
                                       {"attempt", run.key.attempt},
                                       {"digest", digest}});
    }
  }
  auto states = TRY(store::delete_stream_states(tx, promotion));
  if (states > 0)
    destroyed.emplace_back(schema::EntryValue::Object{{"what", "canary_memory"}, {"rows", states}});
  // The figures of a window with few requests are nearly those of each of them.
  auto points = TRY(store::delete_live_series(tx, promotion));
  if (points > 0)
    destroyed.emplace_back(schema::EntryValue::Object{{"what", "live_series"}, {"rows", points}});
  return destroyed;
}

}  // namespace

schema::Result<void> redact_promotion(store::Store& store, const std::string& actor,
                                      const std::string& promotion, const std::string& reason,
                                      std::int64_t now_us) {
  return store.write("redact promotion", [&](store::Tx& tx) -> schema::Result<void> {
    auto row = TRY(store::get_promotion(tx, promotion));
    if (!store::is_terminal(row.state)) {
      return schema::fail(ErrorCode::conflict,
                          fmt::format("promotion {} is {}: abort it or wait for its end, then redact it",
                                      promotion, store::to_string(row.state)));
    }
    auto destroyed = TRY(destroy(tx, promotion));
    if (destroyed.empty()) {
      return schema::fail(ErrorCode::conflict,
                          fmt::format("promotion {} has no stored data about single requests", promotion));
    }
    const schema::EntryDraft entry{.time_us = now_us,
                                   .kind = schema::EvidenceKind::evidence_redacted,
                                   .actor = actor,
                                   .subject = subject_of(row, ""),
                                   .body = {{"reason", reason}, {"destroyed", std::move(destroyed)}}};
    TRY(evidence::append(tx, entry));
    return note_made(tx, promotion, [&] { return promotion_view(tx, row, {.now_us = now_us}); });
  });
}

}  // namespace driftgate::pipeline
