#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "daemon/jobs/job.hpp"
#include "daemon/route/table/route.hpp"
#include "daemon/store/jobs.hpp"
#include "daemon/store/promotions/promotions.hpp"
#include "daemon/store/promotions/stage_runs.hpp"
#include "schema/evidence/evidence_entry.hpp"
#include "schema/verdict.hpp"

namespace driftgate::pipeline {

/// Who the daemon is in `actor`.
inline constexpr const char* kDaemonActor = "driftgate";

/// JSON as an entry's value: what nlohmann holds as a double becomes a measured number, integers beyond
/// 2^53 − 1 hexadecimal text, and objects with keys that entries do not allow become arrays of
/// {"name", "value"}. Give it no document with doubles that was written and parsed: in JSON 3.0 may have been
/// spelled 3, and would come back as an integer.
[[nodiscard]] schema::EntryValue entry_value(const nlohmann::json& json);

/// A subject with what a promotion knows; with the stage when `key` is given.
[[nodiscard]] schema::EvidenceSubject subject_of(const store::PromotionRow& promotion,
                                                 std::string_view checkpoint,
                                                 const store::StageKey* key = nullptr);

/// {"from", "to", "stage", "reason"}
[[nodiscard]] schema::EntryValue::Object state_body(std::string_view from, std::string_view to,
                                                    std::string_view stage, std::string_view reason);
/// {"route": {…}, "applied"…}: the route with its engines; `observed` adds "reverted".
[[nodiscard]] schema::EntryValue::Object route_body(const route::ModelRoute& route, std::string_view reason);
/// The verdict's fields, each double as a measured number whatever its value, plus the digests that it
/// followed from. evidence::clause_verdict_of reads it back.
[[nodiscard]] schema::EntryValue::Object verdict_body(const schema::ClauseVerdict& verdict,
                                                      std::string_view table_digest,
                                                      std::string_view code_version);
/// {"job", "kind", "ok", "digests", "error", "wall_ms", "spec_digest"}
[[nodiscard]] schema::EntryValue::Object job_body(const store::JobRow& job, const jobs::JobDone& done);

}  // namespace driftgate::pipeline
